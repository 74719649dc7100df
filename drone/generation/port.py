"""The port through which agents read and change a document, and its implementation in memory."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from drone.agent.ports.journal import Journal
from mcc.contracts.entry import Origin
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, Step, facts_of
from mcc.documents.commands import AddChild, Command
from mcc.documents.dispatching import dispatch
from mcc.documents.functions import Functions
from mcc.documents.state import DocumentState

ADD_CHILD = AddChild.model_fields["command"].default


class DocumentLost(Exception):
    """The document was deleted or has another blueprint, so work on it cannot continue; the message is a sentence."""


class DocumentPort(Protocol):
    """One document, which people and other orders may change at any time."""

    @property
    def id(self) -> str: ...

    @property
    def blueprint(self) -> Blueprint: ...

    @property
    def functions(self) -> Functions:
        """The rule functions that this process has, by name."""

    async def state(self) -> DocumentState:
        """The latest committed state. Raises `DocumentLost`, `JournalError`."""

    async def dispatch(self, origin: Origin, commands: Sequence[Command], author: Author, command_id: str) -> Change:
        """Apply all commands or none, and write one `document.changed` per step under `origin`, in one transaction.

        A `command_id` that was applied before changes nothing and writes no entry. Raises `DispatchRefused`,
        `DocumentLost`, `JournalError`.
        """


def repeated(state: DocumentState, steps: Sequence[Step]) -> Change:
    """The answer to a `command_id` that was applied before, in these steps: a change without new steps."""
    made = tuple(step.node for step in steps if step.command == ADD_CHILD)
    changed = tuple(dict.fromkeys(step.node for step in steps if step.command != ADD_CHILD))
    return Change(state, max((step.version for step in steps), default=state.version), changed, made)


class LiveDocument(Protocol):
    """A document in memory: its state, and `take`, which adopts a change. `functions` are those its rules may name."""

    @property
    def blueprint(self) -> Blueprint: ...

    @property
    def functions(self) -> Functions: ...

    @property
    def state(self) -> DocumentState: ...

    @property
    def history(self) -> Sequence[Step]: ...

    def take(self, change: Change) -> None: ...


class MemoryDocuments:
    """A document in memory; the agents' changes are written to `journal`."""

    def __init__(self, document: LiveDocument, journal: Journal, functions: Functions) -> None:
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

    async def state(self) -> DocumentState:
        return self._document.state

    async def dispatch(self, origin: Origin, commands: Sequence[Command], author: Author, command_id: str) -> Change:
        if command_id in self._steps:
            steps = [step for step in self._document.history if step.command_id == command_id]
            return repeated(self._document.state, steps)
        # Without functions, as they block: node checks run them and send their verdicts along.
        change = dispatch(self.blueprint, self._document.state, commands, author, command_id=command_id)
        self._document.take(change)
        self._steps[command_id] += len(change.steps)
        await self._journal.write(origin, *facts_of(self.id, change))
        return change
