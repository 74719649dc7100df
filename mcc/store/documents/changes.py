"""Changes of documents within one transaction, and the cache of committed states."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.documents import CommandsDone
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, Step
from mcc.documents.commands import Command, Redo, Undo
from mcc.documents.dispatching import dispatch
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState
from mcc.documents.undoing import versions_needed
from mcc.store.database.clock import micros
from mcc.store.database.tables import DOCUMENT_HISTORY
from mcc.store.documents.blueprints import BlueprintStore, keep_blueprint
from mcc.store.documents.rows import (
    Figures,
    done_by,
    done_of,
    insert_document,
    lock_document,
    removed_at,
    state_now,
    step_of,
    write_change,
)

OWN_STEPS = 500
"""Number of its own latest steps that a principal can undo."""

NODES = 50_000
"""Nodes of all documents that the cache keeps, about 5 KB each; the document used last is always kept."""

_OWN = (
    sa.select(DOCUMENT_HISTORY)
    .where(
        DOCUMENT_HISTORY.c.document_id == sa.bindparam("of"), DOCUMENT_HISTORY.c.principal == sa.bindparam("principal")
    )
    .order_by(DOCUMENT_HISTORY.c.version.desc(), DOCUMENT_HISTORY.c.n.desc())
    .limit(OWN_STEPS)
)


class StateCache:
    """Committed states of documents, so that a command does not read all nodes again. Safe for several threads."""

    def __init__(self, most_nodes: int = NODES) -> None:
        self._most = most_nodes
        self._lock = Lock()
        self._states: OrderedDict[str, DocumentState] = OrderedDict()
        self._nodes = 0

    def get(self, document_id: str) -> DocumentState | None:
        with self._lock:
            state = self._states.get(document_id)
            if state is not None:
                self._states.move_to_end(document_id)
            return state

    def put(self, state: DocumentState) -> None:
        """Keep the state, unless the cache has a newer one of its document."""
        with self._lock:
            before = self._states.get(state.id)
            # Threads that read before a commit may come here after it.
            if before is not None and before.version > state.version:
                return
            self._drop(state.id)
            self._states[state.id] = state
            self._nodes += len(state.nodes)
            while self._nodes > self._most and len(self._states) > 1:
                self._drop(next(iter(self._states)))

    def drop(self, document_id: str) -> None:
        with self._lock:
            self._drop(document_id)

    def _drop(self, document_id: str) -> None:
        if (gone := self._states.pop(document_id, None)) is not None:
            self._nodes -= len(gone.nodes)


@dataclass(frozen=True, slots=True)
class AppliedCommands:
    """The result of commands. `repeated`: they were carried out earlier, and nothing was done now."""

    change: Change
    answer: CommandsDone
    repeated: bool = False


def figures_of(blueprint: Blueprint, state: DocumentState) -> Figures:
    found = assessed(blueprint, state)
    return Figures(found.status, found.counts)


@dataclass
class OpenChanges:
    """The documents that one transaction reads and changes. Call `committed` after its commit; otherwise discard it."""

    connection: Connection
    blueprints: BlueprintStore
    cache: StateCache
    states: dict[str, DocumentState] = field(default_factory=dict)

    def begin(self, blueprint: Blueprint, change: Change, author: Author) -> None:
        """Insert the first version of a document."""
        at = micros(author.at)
        keep_blueprint(self.connection, blueprint, at)
        figures = figures_of(blueprint, change.state)
        insert_document(self.connection, change, figures, name=blueprint.name, author=author, at=at)
        self.states[change.state.id] = change.state

    def apply(
        self,
        document_id: str,
        commands: Sequence[Command],
        author: Author,
        *,
        expected_version: int | None = None,
        command_id: str | None = None,
    ) -> AppliedCommands:
        """Carry out all of these commands or none. If `command_id` was carried out before, answers its result again.

        Raises `UnknownDocument`, `mcc.documents.change.DispatchRefused`.
        """
        before = self.locked(document_id)
        if (known := done_by(self.connection, document_id, command_id)) is not None:
            return AppliedCommands(Change(before, known.version, known.changed, known.made), known, repeated=True)
        blueprint = self.blueprints.get(before.blueprint)
        change = self.planned(blueprint, before, commands, author, expected_version, command_id)
        return self.write(before, blueprint, change, author)

    def planned(
        self,
        blueprint: Blueprint,
        before: DocumentState,
        commands: Sequence[Command],
        author: Author,
        expected_version: int | None = None,
        command_id: str | None = None,
    ) -> Change:
        """The change that these commands would make; writes nothing. Raises `mcc.documents.change.DispatchRefused`."""
        back = sum(isinstance(command, Undo | Redo) for command in commands)
        own_steps = self._own(before.id, author) if back else ()
        removed = None
        if own_steps:
            removed = {at: removed_at(self.connection, before.id, at) for at in versions_needed(own_steps, back)}
        return dispatch(
            blueprint,
            before,
            commands,
            author,
            expected_version=expected_version,
            own=own_steps,
            removed=removed,
            command_id=command_id,
        )

    def write(self, before: DocumentState, blueprint: Blueprint, change: Change, author: Author) -> AppliedCommands:
        """Write a change of the locked document, whose state was `before`; `blueprint` is its blueprint afterwards."""
        figures = figures_of(blueprint, change.state)
        if change.version != before.version:
            write_change(self.connection, before, change, figures, name=blueprint.name, at=micros(author.at))
            self.states[change.state.id] = change.state
        return AppliedCommands(change, done_of(change, figures))

    def locked(self, document_id: str) -> DocumentState:
        """The document's present state, locked until the transaction ends. Raises `UnknownDocument`."""
        row = lock_document(self.connection, document_id)
        # What this transaction changed itself comes first; the cache has only what is committed.
        known = self.states.get(document_id) or self.cache.get(document_id)
        state = state_now(self.connection, row, known)
        self.states[document_id] = state
        return state

    def committed(self) -> None:
        for state in self.states.values():
            self.cache.put(state)

    def _own(self, document_id: str, author: Author) -> Sequence[Step]:
        """The principal's newest steps, `OWN_STEPS` at most, in the order in which they were made."""
        rows = self.connection.execute(_OWN, {"of": document_id, "principal": author.principal}).all()
        return [step_of(row) for row in reversed(rows) if row.set_by == author.by]
