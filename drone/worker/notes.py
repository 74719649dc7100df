"""The notes of an order's project, as its drone reads and writes them in the store."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from drone.agent.journal import Fenced as Lost
from drone.tools.notes_port import NoteRefused
from drone.worker.journal import OrderJournal
from drone.worker.loop import AsyncStore
from mcc.contracts.entry import Origin
from mcc.contracts.notes import NewNote, Note, NoteKind
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import digest
from mcc.store.errors import Fenced, TooManyNotes, UnknownNote
from mcc.store.notes import Writing
from mcc.store.store import Store

T = TypeVar("T")


class OrderNotes:
    """A `drone.tools.notes_port.Notes`, which writes under the epoch of one order."""

    def __init__(self, store: AsyncStore, journal: OrderJournal, order: WorkOrder, workspace_key: str | None) -> None:
        """The project is the workspace, or the session of an order that has none; of a repository that is cloned for
        each session it is the address."""
        self._store = store
        self._journal = journal
        self._order = order
        cloned = (order.workspace or "").startswith("https://")
        self._project = digest(order.workspace) if cloned else workspace_key or order.session_id

    async def list(self, kind: NoteKind) -> Sequence[Note]:
        return await self._asked(lambda store: store.notes.list(self._project, kind))

    async def read(self, kind: NoteKind, name: str) -> Note:
        return await self._asked(lambda store: store.notes.get(self._project, kind, name))

    async def search(self, question: str, kind: NoteKind, most: int) -> Sequence[Note]:
        return await self._asked(lambda store: store.notes.search(self._project, question, kind=kind, most=most))

    async def write(self, origin: Origin, call_id: str, new: NewNote) -> Note:
        writing = self._writing(origin, call_id)
        return await self._asked(lambda store: store.notes.write(writing, new))

    async def delete(self, origin: Origin, call_id: str, kind: NoteKind, name: str) -> Note:
        writing = self._writing(origin, call_id)
        return await self._asked(lambda store: store.notes.delete(writing, kind, name))

    def _writing(self, origin: Origin, call_id: str) -> Writing:
        return Writing(self._order.id, self._journal.epoch, origin, call_id, self._project, self._order.workspace)

    async def _asked(self, work: Callable[[Store], T]) -> T:
        self._journal.check_open()
        try:
            return await self._store.patiently(work)
        except (UnknownNote, TooManyNotes) as refused:
            raise NoteRefused(str(refused)) from refused
        except Fenced as lost:
            raise Lost(str(lost)) from lost
