"""Reads orders, sessions and documents from the database, for commands that only read, where no service runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mcc.cli.command import FAILED, USAGE, fail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Unpack

    from mcc.client.requests.order_filters import MoreFilters, Values
    from mcc.client.watching import Away
    from mcc.contracts.answers import Listing
    from mcc.contracts.documents import DocumentDiff, DocumentSummary, DocumentView, HistoryItem
    from mcc.contracts.entry import Entry
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.order_lists import OrderPage
    from mcc.contracts.people import PrincipalName
    from mcc.contracts.record import ChatRecord
    from mcc.contracts.sessions import Session, SessionWithTurns
    from mcc.contracts.wire import OrderEvent
    from mcc.settings import ServiceSettings
    from mcc.store.store import Store

ENTRIES = 500


class OrderReader(Protocol):
    """The client's calls that read orders."""

    def get(self, order_id: str) -> "WorkOrder": ...

    def list(
        self,
        *,
        status: "Values" = None,
        session_id: "Values" = None,
        label: "Values" = None,
        agent: "Values" = None,
        workspace: str | None = None,
        kind: str | None = None,
        since: "datetime | None" = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        **more: "Unpack[MoreFilters]",
    ) -> "OrderPage": ...

    def record(self, order_id: str) -> "ChatRecord": ...

    def artifact(self, order_id: str, artifact_id: str) -> str: ...

    def watch(
        self, order_id: str, after: int = 0, *, deltas: bool, away: "Away | None" = None
    ) -> "Iterator[OrderEvent]": ...


class SessionReader(Protocol):
    """The client's calls that read sessions."""

    def get(self, session_id: str, *, before: int | None = None, limit: int = 50) -> "SessionWithTurns": ...

    def list(
        self,
        *,
        archived: bool | None = None,
        text: str | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[Session]": ...


class DocumentReader(Protocol):
    """The client's calls that read documents."""

    def list(
        self,
        *,
        blueprint: str | None = None,
        status: str | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[DocumentSummary]": ...

    def get(
        self,
        document_id: str,
        *,
        node: str | None = None,
        depth: int | None = None,
        version: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> "DocumentView": ...

    def history(self, document_id: str, *, cursor: str | None = None, limit: int = 50) -> "Listing[HistoryItem]": ...

    def diff(self, document_id: str, since: int, to: int | None = None) -> "DocumentDiff": ...

    def export(self, document_id: str, format: str = "json") -> bytes: ...


class NameReader(Protocol):
    def names(self, principals: "Sequence[str]") -> "Sequence[PrincipalName]":
        """What these are called, in the same sequence."""


class ArchiveReader(Protocol):
    """Where reading commands read from: a client of a service, or the database."""

    @property
    def documents(self) -> DocumentReader: ...

    @property
    def orders(self) -> OrderReader: ...

    @property
    def sessions(self) -> SessionReader: ...

    @property
    def people(self) -> NameReader: ...


@contextmanager
def archive(settings: "ServiceSettings") -> "Iterator[Archive | None]":
    """The database of these settings; None where there is none. Exits where its schema is not this version's.

    Raises `StoreError`.
    """
    from mcc.store.store import open_store

    if settings.has_own_database and not Path(settings.database_url.removeprefix("sqlite:///")).is_file():
        yield None
        return
    store = open_store(settings.database, connections=1)
    try:
        if problem := store.schema_problem():
            fail(f"{problem} (mcc up does so as it starts).", FAILED)
        yield Archive(store)
    finally:
        store.close()


class Archive:
    """A `ArchiveReader` of the database; its calls raise `StoreError`."""

    def __init__(self, store: "Store") -> None:
        self.orders = ArchivedOrders(store)
        self.sessions = ArchivedSessions(store)
        self.documents = ArchivedDocuments(store)
        self.people: NameReader = store.people


class ArchivedOrders:
    def __init__(self, store: "Store") -> None:
        self._store = store

    def get(self, order_id: str) -> "WorkOrder":
        return self._store.orders.get(order_id)

    def list(
        self,
        *,
        status: "Values" = None,
        session_id: "Values" = None,
        label: "Values" = None,
        agent: "Values" = None,
        workspace: str | None = None,
        kind: str | None = None,
        since: "datetime | None" = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        **more: "Unpack[MoreFilters]",
    ) -> "OrderPage":
        from pydantic import ValidationError

        from mcc.contracts.order_lists import OrderCriteria

        several = {"status": status, "session_id": session_id, "label": label, "agent": agent, **more}
        single = {"workspace": workspace, "kind": kind, "since": since, "part": part}
        filters = {
            name: (value,) if isinstance(value, str) and name not in ("group", "text") else value
            for name, value in several.items()
            if value is not None
        }
        try:
            criteria = OrderCriteria.model_validate(
                {**filters, **{name: value for name, value in single.items() if value is not None}}
            )
        except ValidationError as problem:
            mistake = problem.errors()[0]
            fail(f"{mistake['loc'][0]}: {mistake['msg']}", USAGE)
        return self._store.order_lists.find(criteria, cursor=cursor, limit=limit)

    def record(self, order_id: str) -> "ChatRecord":
        """The stored record, which an order that has ended has, else one folded from the journal."""
        from mcc.client.errors import NotFound
        from mcc.contracts.fold import Fold

        if (stored := self._store.orders.record(order_id)) is not None:
            return stored
        fold = Fold(order_id)
        for entry in self._entries(order_id):
            fold.add(entry)
        if (chat_record := fold.record()) is None:
            raise NotFound(404, "This order has no record: none of its agents has started.")
        return chat_record

    def artifact(self, order_id: str, artifact_id: str) -> str:
        """A kept text by its digest, which an order's changes name."""
        from mcc.client.errors import NotFound

        try:
            return self._store.texts.kept(artifact_id)
        except KeyError:
            raise NotFound(404, f"The text {artifact_id} of order {order_id} is not kept any more.") from None

    def watch(
        self, order_id: str, after: int = 0, *, deltas: bool, away: "Away | None" = None
    ) -> "Iterator[OrderEvent]":
        """The entries of an order that has ended. Exits for any other order: without a service nothing works on it, and
        watching it would never end."""
        from mcc.contracts.status import FINAL

        status = self.get(order_id).status
        if status not in FINAL:
            fail(f"This order is {status}, and nobody goes on with it while no service runs: start one with mcc up.")
        yield from self._entries(order_id, after)

    def _entries(self, order_id: str, after: int = 0) -> "Iterator[Entry]":
        while entries := self._store.journal.read(order_id, after=after, limit=ENTRIES):
            yield from entries
            after = entries[-1].seq


class ArchivedSessions:
    def __init__(self, store: "Store") -> None:
        self._store = store

    def get(self, session_id: str, *, before: int | None = None, limit: int = 50) -> "SessionWithTurns":
        from mcc.contracts.callers import OPERATOR

        return self._store.sessions.turns(session_id, before=before, limit=limit, principal=OPERATOR)

    def list(
        self,
        *,
        archived: bool | None = None,
        text: str | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[Session]":
        from mcc.contracts.answers import Listing
        from mcc.contracts.callers import OPERATOR
        from mcc.store.work.session_search import SessionFilter

        shown = archived if archived is not None or part is not None else False
        wanted = SessionFilter(shown, text, part, cursor)
        page = self._store.sessions.list(wanted, principal=OPERATOR, limit=limit)
        return Listing(items=tuple(page.items), next_cursor=page.next_cursor)


class ArchivedDocuments:
    def __init__(self, store: "Store") -> None:
        self._store = store

    def list(
        self,
        *,
        blueprint: str | None = None,
        status: str | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[DocumentSummary]":
        from mcc.contracts.answers import Listing

        page = self._store.documents.list(blueprint=blueprint, status=status, part=part, cursor=cursor, limit=limit)
        return Listing(items=tuple(page.items), next_cursor=page.next_cursor)

    def get(
        self,
        document_id: str,
        *,
        node: str | None = None,
        depth: int | None = None,
        version: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> "DocumentView":
        from mcc.api.documents import shown
        from mcc.api.problems import Refusal
        from mcc.documents.node import ROOT
        from mcc.documents.views import PAGE, NodeSelection

        try:
            return shown(self._store, document_id, NodeSelection(node or ROOT, depth, limit or PAGE, cursor), version)
        except Refusal as refusal:
            fail(str(refusal))

    def history(self, document_id: str, *, cursor: str | None = None, limit: int = 50) -> "Listing[HistoryItem]":
        from mcc.contracts.answers import Listing

        found = self._store.documents.history(document_id, cursor=cursor, limit=limit)
        return Listing(items=tuple(found.items), next_cursor=found.next_cursor)

    def diff(self, document_id: str, since: int, to: int | None = None) -> "DocumentDiff":
        from mcc.documents import difference

        documents = self._store.documents
        return difference.diff(documents.state(document_id, since), documents.state(document_id, to))

    def export(self, document_id: str, format: str = "json") -> bytes:
        from mcc.api.documents import exported_whole
        from mcc.documents.export import MEDIA_TYPES

        form = next((one for one in MEDIA_TYPES if one == format), None)
        if form is None:
            fail(f"--format: there is {', '.join(MEDIA_TYPES)}.", USAGE)
        return exported_whole(self._store, document_id, form)[1]
