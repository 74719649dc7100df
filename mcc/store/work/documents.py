"""Documents as the service uses them: create, change, read at any version, list, delete."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.documents import BlueprintChanged, CommandsDone, DocumentSummary, HistoryItem, NewNode
from mcc.contracts.ids import fresh_id
from mcc.documents.beginning import new_state
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author
from mcc.documents.commands import Command, Judge
from mcc.documents.functions import Functions
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState
from mcc.documents.succession import succeeded
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadEntry, DocumentBusy, UnknownDocument
from mcc.store.documents.blueprints import BlueprintStore, keep_blueprint
from mcc.store.documents.changes import OpenChanges, StateCache
from mcc.store.documents.requests import DocumentRequest
from mcc.store.documents.rows import lock_document, no_version, state_at, state_now
from mcc.store.documents.views import history_page, summaries, summary
from mcc.store.rows.values import Page
from mcc.store.work.document_ends import delete_document

T = TypeVar("T")
RACES = 3
"""Attempts for requests with an idempotency key: of two concurrent ones with the same key, the second fails, and finds
the row of the first when it is repeated."""


@dataclass(frozen=True, slots=True)
class CreatedDocument:
    """A created document. `created` False: the idempotency key was known, and this is the document created with it."""

    document: DocumentSummary
    created: bool


class DocumentStore:
    """Every change is one transaction that locks the document's row, so no update is lost.

    States are cached in memory, and updated from the rows that other processes wrote since.
    """

    def __init__(self, database: Database, blueprints: BlueprintStore, cache: StateCache) -> None:
        self._database = database
        self._blueprints = blueprints
        self._cache = cache

    def create(
        self,
        blueprint: Blueprint,
        *,
        by: Actor,
        metadata: Mapping[str, Any] | None = None,
        nodes: Sequence[NewNode] = (),
        idempotency_key: str | None = None,
        functions: Functions | None = None,
    ) -> CreatedDocument:
        """Create a document that is pinned to this blueprint. `functions` are called, and may block, before the
        transaction begins. Raises `mcc.documents.change.DispatchRefused`, `IdempotencyConflict`."""
        at, values = self._database.clock.now(), dict(metadata or {})
        body = {"blueprint": blueprint.digest, "metadata": values, "nodes": list(nodes)}
        request = DocumentRequest.of(by.principal, idempotency_key, body, at)
        author = Author.of(by, at)
        change = new_state(blueprint, id=fresh_id(), metadata=values, nodes=nodes, author=author, functions=functions)
        # Before the transaction, which then finds the assessment kept with the state and holds its locks only briefly.
        assessed(blueprint, change.state)

        def work(changes: OpenChanges) -> str:
            if request is not None and (known := request.answered(changes.connection)) is not None:
                return str(known["id"])
            changes.begin(blueprint, change, author)
            if request is not None:
                request.keep(changes.connection, change.state.id, {"id": change.state.id})
            return str(change.state.id)

        document_id = self._change(work, keyed=request is not None)
        return CreatedDocument(self.summary(document_id), created=document_id == change.state.id)

    def dispatch(
        self,
        document_id: str,
        commands: Sequence[Command],
        author: Author,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> CommandsDone:
        """Carry out all of these commands, or none of them.

        Raises `UnknownDocument`, `IdempotencyConflict`, `mcc.documents.change.DispatchRefused`.
        """
        # Results of functions are not part of the request body, which the idempotency key stands for.
        requested = [command for command in commands if not isinstance(command, Judge)]
        body = {"document": document_id, "commands": requested, "expected_version": expected_version}
        request = DocumentRequest.of(author.principal or "", idempotency_key, body, self._database.clock.now())
        self.warm(document_id)

        def work(changes: OpenChanges) -> CommandsDone:
            if request is not None and (known := request.answered(changes.connection)) is not None:
                return CommandsDone.model_validate(known)
            done = changes.apply(document_id, commands, author, expected_version=expected_version)
            if request is not None:
                request.keep(changes.connection, document_id, done.answer)
            return done.answer

        return self._change(work, keyed=request is not None)

    def planned(
        self, document_id: str, commands: Sequence[Command], author: Author
    ) -> tuple[DocumentState, DocumentState]:
        """The document as it is, and as it would be after these commands; nothing is changed or locked.

        Raises `UnknownDocument`, `mcc.documents.change.DispatchRefused`.
        """
        before = self.state(document_id)
        blueprint = self._blueprints.get(before.blueprint)

        def plan(connection: Connection) -> DocumentState:
            return self.opened(connection).planned(blueprint, before, commands, author).state

        return before, self._database.read(plan)

    def _change(self, work: Callable[[OpenChanges], T], *, keyed: bool) -> T:
        opened: list[OpenChanges] = []

        def run(connection: Connection) -> T:
            opened[:] = [self.opened(connection)]
            return work(opened[0])

        for race in range(1, RACES + 1):
            try:
                answer = self._database.write(run, repeatable=keyed)
                break
            except BadEntry:
                if not keyed or race == RACES:
                    raise
        opened[0].committed()
        return answer

    def opened(self, connection: Connection) -> OpenChanges:
        """Changes for a transaction of the caller's, who calls `committed` after its commit."""
        return OpenChanges(connection, self._blueprints, self._cache)

    def state(self, document_id: str, version: int | None = None) -> DocumentState:
        """The document as it is, or at this version. Raises `UnknownDocument`."""
        row = self._database.read(lambda connection: lock_document(connection, document_id, reading=True))
        known = self._cache.get(document_id)
        if known is not None and known.version == (row.version if version is None else version):
            return known
        if version is not None and version > row.version:
            raise no_version(document_id, version)
        if version is not None and version < row.version:
            # Several statements read it: a change between two of them would give a state that never was.
            return self._database.snapshot(lambda connection: state_at(connection, document_id, version))

        def read(connection: Connection) -> DocumentState:
            return state_now(connection, lock_document(connection, document_id, reading=True), known)

        state = self._database.snapshot(read)
        self._cache.put(state)
        return state

    def blueprint(self, document_id: str) -> Blueprint:
        """The blueprint that the document is pinned to. Raises `UnknownDocument`."""
        row = self._database.read(lambda connection: lock_document(connection, document_id, reading=True))
        return self._blueprints.get(row.blueprint)

    def warm(self, document_id: str) -> DocumentState:
        """Load and assess the document, so that the transaction of a following change holds its locks only briefly.

        Raises `UnknownDocument`.
        """
        state = self.state(document_id)
        assessed(self._blueprints.get(state.blueprint), state)
        return state

    def warm_up(self, document_ids: Collection[str]) -> None:
        """`warm` for those documents that are not cached; unknown ones are skipped."""
        for document_id in document_ids:
            if self._cache.get(document_id) is None:
                with suppress(UnknownDocument):
                    self.warm(document_id)

    def summary(self, document_id: str) -> DocumentSummary:
        """The document without its nodes. Raises `UnknownDocument`."""
        return self._database.read(lambda connection: summary(connection, document_id))

    def change_blueprint(self, document_id: str, blueprint: Blueprint, *, by: Actor) -> BlueprintChanged:
        """Pin the document to another blueprint. Raises `UnknownDocument`, `DocumentBusy` while an order generates it,
        `mcc.documents.change.DispatchRefused`."""
        author = Author.of(by, self._database.clock.now())

        def work(changes: OpenChanges) -> BlueprintChanged:
            before = changes.locked(document_id)
            if (order_id := summary(changes.connection, document_id).order_id) is not None:
                raise DocumentBusy(f"order {order_id} generates this document: wait for its end, or cancel it")
            keep_blueprint(changes.connection, blueprint, micros(author.at))
            found = succeeded(self._blueprints.get(before.blueprint), blueprint, before, author)
            changes.write(before, blueprint, found.change, author)
            return BlueprintChanged(stale=found.stale, dropped=found.dropped, version=found.change.version)

        self.warm(document_id)
        return self._change(work, keyed=False)

    def delete(self, document_id: str, *, by: Actor) -> Sequence[str]:
        """Hide the document at once; retention removes its rows later. Cancels its unfinished orders and answers their
        ids: those that no drone runs have ended then. Raises `UnknownDocument`.
        """
        return delete_document(self._database, self._cache, document_id, by=by)

    def list(
        self,
        *,
        status: str | None = None,
        blueprint: str | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[DocumentSummary]:
        """Newest first. `blueprint`: a name, or `NAME:DIGITS` with the first digits of a digest; `part`: documents
        whose id begins or ends with it. Raises `BadCursor`."""
        return self._database.read(
            lambda connection: summaries(
                connection, status=status, blueprint=blueprint, part=part, cursor=cursor, limit=limit
            )
        )

    def history(self, document_id: str, *, cursor: str | None = None, limit: int = 50) -> Page[HistoryItem]:
        """The history of the document, newest first. Raises `UnknownDocument`, `BadCursor`."""

        def page(connection: Connection) -> Page[HistoryItem]:
            lock_document(connection, document_id, reading=True)
            return history_page(connection, document_id, cursor, limit)

        return self._database.read(page)
