"""Documents within one transaction: what is made of them, each under its row, and what of it is kept in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.documents import CommandsDone
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, Step
from mcc.documents.commands import Command, Redo, Undo
from mcc.documents.dispatching import dispatch
from mcc.documents.node import Node
from mcc.documents.staleness import assessed
from mcc.documents.state import State
from mcc.documents.undoing import versions_needed
from mcc.store.blueprints import Blueprints, keep_blueprint
from mcc.store.clock import micros
from mcc.store.document_cache import StateCache
from mcc.store.document_rows import (
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
from mcc.store.tables import DOCUMENT_HISTORY

OWN_STEPS = 500
"""So far back a principal can take back what it did."""

_OWN = (
    sa.select(DOCUMENT_HISTORY)
    .where(
        DOCUMENT_HISTORY.c.document_id == sa.bindparam("of"), DOCUMENT_HISTORY.c.principal == sa.bindparam("principal")
    )
    .order_by(DOCUMENT_HISTORY.c.version.desc(), DOCUMENT_HISTORY.c.n.desc())
    .limit(OWN_STEPS)
)


@dataclass(frozen=True, slots=True)
class Done:
    """What commands came to. `repeated`: they were done before, and nothing was done now."""

    change: Change
    answer: CommandsDone
    repeated: bool = False


def figures_of(blueprint: Blueprint, state: State) -> Figures:
    found = assessed(blueprint, state)
    return Figures(found.status, found.counts)


@dataclass
class OpenChanges:
    """Documents as this transaction sees and leaves them. Call `committed` when it was committed, or forget it."""

    connection: Connection
    blueprints: Blueprints
    cache: StateCache
    states: dict[str, State] = field(default_factory=dict)

    def begin(self, blueprint: Blueprint, change: Change, author: Author) -> None:
        """The first version of a document."""
        at = micros(author.at)
        keep_blueprint(self.connection, blueprint, at)
        figures = figures_of(blueprint, change.state)
        insert_document(self.connection, change, figures, name=blueprint.name, principal=author.principal or "", at=at)
        self.states[change.state.id] = change.state

    def apply(
        self,
        document_id: str,
        commands: Sequence[Command],
        author: Author,
        *,
        expected_version: int | None = None,
        command_id: str | None = None,
    ) -> Done:
        """Do all of these commands or none; what `command_id` did before is answered again.

        Raises `UnknownDocument`, `mcc.documents.change.Refused`.
        """
        before = self.locked(document_id)
        if (known := done_by(self.connection, document_id, command_id)) is not None:
            return Done(Change(before, known.version, known.changed, known.made), known, repeated=True)
        blueprint = self.blueprints.get(before.blueprint)
        change = self.planned(blueprint, before, commands, author, expected_version, command_id)
        return self.write(before, blueprint, change, author)

    def planned(
        self,
        blueprint: Blueprint,
        before: State,
        commands: Sequence[Command],
        author: Author,
        expected_version: int | None = None,
        command_id: str | None = None,
    ) -> Change:
        """What these commands come to; nothing is written. Raises `mcc.documents.change.Refused`."""
        back = sum(isinstance(one, Undo | Redo) for one in commands)
        own = self._own(before.id, author) if back else ()
        return dispatch(
            blueprint,
            before,
            commands,
            author,
            expected_version=expected_version,
            own=own,
            removed=self._removed(before.id, versions_needed(own, back)) if own else None,
            command_id=command_id,
        )

    def write(self, before: State, blueprint: Blueprint, change: Change, author: Author) -> Done:
        """Keep a change of the document as it was locked; `blueprint` is the one that it has afterwards."""
        figures = figures_of(blueprint, change.state)
        if change.version != before.version:
            write_change(self.connection, before, change, figures, name=blueprint.name, at=micros(author.at))
            self.states[change.state.id] = change.state
        return Done(change, done_of(change, figures))

    def locked(self, document_id: str) -> State:
        """The document as it is; nobody else changes it until the transaction ends. Raises `UnknownDocument`."""
        row = lock_document(self.connection, document_id)
        known = self.states.get(document_id) or self.cache.get(document_id)
        state = state_now(self.connection, row, known)
        self.states[document_id] = state
        return state

    def committed(self) -> None:
        for state in self.states.values():
            self.cache.put(state)

    def _own(self, document_id: str, author: Author) -> Sequence[Step]:
        """The newest steps of this principal, the oldest of them first."""
        asked = {"of": document_id, "principal": author.principal}
        rows = self.connection.execute(_OWN, asked).all()
        return [step_of(row) for row in reversed(rows) if row.set_by == author.by]

    def _removed(self, document_id: str, versions: Collection[int]) -> Mapping[int, Sequence[Node]]:
        """The nodes that were taken out at these versions, as they were before."""
        return {version: removed_at(self.connection, document_id, version) for version in versions}
