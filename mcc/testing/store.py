"""This room is for the memory store: the whole `mcc.store.ports.Store`, gone when the process is."""

from collections.abc import Sequence

from mcc.contracts.ids import fresh_id
from mcc.contracts.order import EarlierTurn, NewSession, Session, WorkOrder
from mcc.store.clock import Clock, SystemClock
from mcc.store.context import context
from mcc.store.errors import BadCursor, UnknownSession
from mcc.store.large import text_digest
from mcc.store.values import Page
from mcc.testing.audit import MemoryAudit
from mcc.testing.claims import MemoryClaims, MemoryJournal
from mcc.testing.examination import MemoryExaminer, MemoryMender
from mcc.testing.history import MemoryHistory
from mcc.testing.leases import MemoryLeases, MemorySweeper
from mcc.testing.orders import MemoryOrders
from mcc.testing.requests import MemoryControls
from mcc.testing.shelf import Shelf


class MemorySessions:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def open(self, new: NewSession, *, principal: str) -> Session:
        with self._shelf.lock:
            session = Session(id=fresh_id(), title=new.title, created_at=self._shelf.clock.now(), turns=0)
            self._shelf.sessions[session.id] = session
            return session

    def get(self, session_id: str) -> Session:
        with self._shelf.lock:
            if session_id not in self._shelf.sessions:
                raise UnknownSession(f"there is no session {session_id!r}")
            return self._shelf.sessions[session_id]

    def list(self, *, cursor: str | None = None, limit: int = 50) -> Page[Session]:
        with self._shelf.lock:
            if cursor is not None and cursor not in self._shelf.sessions:
                raise BadCursor("this cursor is not one that a page of sessions gave; begin without one")
            newest = sorted(self._shelf.sessions.values(), key=lambda one: one.id, reverse=True)
            found = [session for session in newest if cursor is None or session.id < cursor]
            return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)

    def context(self, order: WorkOrder, *, characters: int) -> Sequence[EarlierTurn]:
        with self._shelf.lock:
            return context(order, MemoryHistory(self._shelf), characters)


class MemoryTexts:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def keep(self, text: str) -> str:
        digest = text_digest(text)
        with self._shelf.lock:
            self._shelf.texts[digest] = text
        return digest

    def kept(self, digest: str) -> str:
        with self._shelf.lock:
            return self._shelf.texts[digest]


class MemoryStore:
    """`mcc.store.ports.Store` in this process' memory; `clock` None: the real one."""

    def __init__(self, clock: Clock | None = None, *, max_queued: int | None = None) -> None:
        self.shelf = Shelf(clock or SystemClock())
        self.orders = MemoryOrders(self.shelf, max_queued)
        self.claims = MemoryClaims(self.shelf)
        self.journal = MemoryJournal(self.shelf)
        self.texts = MemoryTexts(self.shelf)
        self.leases = MemoryLeases(self.shelf)
        self.sweeper = MemorySweeper(self.shelf)
        self.controls = MemoryControls(self.shelf)
        self.sessions = MemorySessions(self.shelf)
        self.audit = MemoryAudit(self.shelf)
        self.examiner = MemoryExaminer(self.shelf)
        self.mender = MemoryMender(self.shelf)

    def schema_problem(self) -> str | None:
        return None

    def close(self) -> None:
        """Nothing is held outside this process."""
