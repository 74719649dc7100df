"""The port to the document that is generated, and the document in this process's memory."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from drone.agent.journal import Journal
from mcc.contracts.entry import Origin
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, Step, facts_of
from mcc.documents.commands import AddChild, Command
from mcc.documents.dispatching import dispatch
from mcc.documents.functions import Functions
from mcc.documents.state import State

ADD_CHILD = AddChild.model_fields["command"].default


class DocumentLost(Exception):
    """The document cannot be gone on with: it was deleted, or has another blueprint by now; a sentence."""


class Documents(Protocol):
    """One document, that people and other orders may change at any time."""

    @property
    def id(self) -> str: ...

    @property
    def blueprint(self) -> Blueprint: ...

    @property
    def functions(self) -> Functions:
        """Those that this process has."""

    async def state(self) -> State:
        """As it is committed now. Raises `DocumentLost`, `JournalError`."""

    async def dispatch(self, origin: Origin, commands: Sequence[Command], author: Author, command_id: str) -> Change:
        """Carry these commands out, all or none, and write a `document.changed` for each step under `origin`, in one
        transaction. Under a `command_id` that was carried out before nothing is done again, and no entry written.

        Raises `Refused`, `DocumentLost`, `JournalError`.
        """


def carried_out(state: State, steps: Sequence[Step]) -> Change:
    """What is answered to commands that were carried out before, in these steps: nothing is done now."""
    made = tuple(step.node for step in steps if step.command == ADD_CHILD)
    changed = tuple(dict.fromkeys(step.node for step in steps if step.command != ADD_CHILD))
    return Change(state, max((step.version for step in steps), default=state.version), changed, made)


class Held(Protocol):
    """A document of this process: how it is now, and a way to give it what a dispatch made. `functions` are those that
    its rules may name."""

    @property
    def blueprint(self) -> Blueprint: ...

    @property
    def functions(self) -> Functions: ...

    @property
    def state(self) -> State: ...

    @property
    def history(self) -> Sequence[Step]: ...

    def take(self, change: Change) -> None: ...


class MemoryDocuments:
    """A document of this process, and the journal that is told of what agents do to it."""

    def __init__(self, document: Held, journal: Journal, functions: Functions) -> None:
        self._document = document
        self._journal = journal
        self.functions = functions
        self._steps = Counter(step.command_id for step in document.history)

    @property
    def id(self) -> str:
        return self._document.state.id

    @property
    def blueprint(self) -> Blueprint:
        return self._document.blueprint

    async def state(self) -> State:
        return self._document.state

    async def dispatch(self, origin: Origin, commands: Sequence[Command], author: Author, command_id: str) -> Change:
        if command_id in self._steps:
            steps = [step for step in self._document.history if step.command_id == command_id]
            return carried_out(self._document.state, steps)
        # Without functions: they block, and whoever settles a node has asked them.
        change = dispatch(self.blueprint, self._document.state, commands, author, command_id=command_id)
        self._document.take(change)
        self._steps[command_id] += len(change.steps)
        await self._journal.write(origin, *facts_of(self.id, change))
        return change
