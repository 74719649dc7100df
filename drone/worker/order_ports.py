"""What the agents of an order reach in the store: its document, the notes of its project, and people."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from drone.agent.ports.journal import Fenced as JournalFenced
from drone.agent.state.tree import Tree
from drone.generation.port import DocumentLost
from drone.tools.frame.notes_port import NoteRefused
from drone.worker.journal import OrderJournal
from drone.worker.loop import AsyncStore
from drone.worker.sessions.history import OrderHistory
from mcc.configuration.memory import Accepts, MemoryChange
from mcc.contracts.attachments import StoredFile
from mcc.contracts.entry import Origin
from mcc.contracts.inbox_facts import InboxRequest, Said
from mcc.contracts.notes import NewNote, Note, NoteKind
from mcc.contracts.order import WorkOrder
from mcc.contracts.permission import SavedRule
from mcc.contracts.shape import digest
from mcc.contracts.status import FINAL
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change
from mcc.documents.commands import Command
from mcc.documents.functions import Functions
from mcc.documents.state import DocumentState
from mcc.store.database.errors import (
    JournalPruned,
    StoreFenced,
    TooManyNotes,
    UnknownArtifact,
    UnknownDocument,
    UnknownNote,
    UnknownOrder,
)
from mcc.store.store import Store
from mcc.store.work.agent_changes import AgentCommands
from mcc.store.work.notes import Writing

T = TypeVar("T")

PAGE = 200


class OrderDocuments:
    """The document that an order generates or talks about, changed under the order's epoch; its journal reports the
    changes. Implements `drone.generation.port.DocumentPort`. Make it with `opened`.
    """

    def __init__(
        self, store: AsyncStore, journal: OrderJournal, document_id: str, blueprint: Blueprint, functions: Functions
    ) -> None:
        self._store = store
        self._journal = journal
        self._blueprint = blueprint
        self._id = document_id
        self.functions = functions

    @classmethod
    async def opened(
        cls, store: AsyncStore, journal: OrderJournal, document_id: str, functions: Functions
    ) -> "OrderDocuments":
        """Raises `DocumentLost`, `StoreFenced`."""
        journal.check_open()
        try:
            blueprint = await store.patiently(lambda store: store.documents.blueprint(document_id))
            await store.patiently(lambda store: store.documents.warm(document_id))
        except UnknownDocument as problem:
            raise DocumentLost(str(problem)) from problem
        return cls(store, journal, document_id, blueprint, functions)

    @property
    def id(self) -> str:
        return self._id

    @property
    def blueprint(self) -> Blueprint:
        return self._blueprint

    async def state(self) -> DocumentState:
        """The committed state. Raises `DocumentLost`, `StoreFenced`."""
        self._journal.check_open()
        try:
            state = await self._store.patiently(lambda store: store.documents.state(self._id))
        except UnknownDocument as problem:
            raise DocumentLost(str(problem)) from problem
        return self._of_same_blueprint(state)

    async def dispatch(self, origin: Origin, commands: Sequence[Command], author: Author, command_id: str) -> Change:
        """As the port promises. One transaction, fenced by the order's row, commits the change and its entries."""
        try:
            done = await self._journal.change(AgentCommands(self._id, commands, author, origin, command_id))
        except UnknownDocument as problem:
            raise DocumentLost(str(problem)) from problem
        self._of_same_blueprint(done.change.state)
        return done.change

    def _of_same_blueprint(self, state: DocumentState) -> DocumentState:
        if state.blueprint != self._blueprint.digest:
            raise DocumentLost(f"the document {self._id} has another blueprint by now: {state.blueprint}")
        return state


def is_cloned(order: WorkOrder) -> bool:
    """Whether the order works in a clone of a repository, which its workspace gives the address of."""
    return (order.workspace or "").startswith("https://")


class OrderNotes:
    """The notes of an order's project, written under the order's epoch: `drone.tools.frame.notes_port.NotesPort`."""

    def __init__(
        self,
        store: AsyncStore,
        journal: OrderJournal,
        order: WorkOrder,
        workspace_key: str | None,
        accepts: Accepts,
    ) -> None:
        """The project is the workspace; for a repository that is cloned for each session, its address; without a
        workspace, the session. `accepts`: which memories count without a person."""
        self._store = store
        self._journal = journal
        self._order = order
        self._accepts = accepts
        self._is_cloned = is_cloned(order)
        self._project = digest(order.workspace) if self._is_cloned else workspace_key or order.session_id

    async def list(self, kind: NoteKind) -> Sequence[Note]:
        return await self._in_store(lambda store: store.notes.list(self._project, kind, self._order.session_id))

    async def read(self, kind: NoteKind, name: str) -> Sequence[Note]:
        session_id = self._order.session_id
        return await self._in_store(lambda store: store.notes.shown(self._project, kind, name, session_id))

    async def search(self, question: str, kind: NoteKind, most: int) -> Sequence[Note]:
        project, session_id = self._project, self._order.session_id
        return await self._in_store(
            lambda store: store.notes.search(project, question, kind=kind, most=most, session_id=session_id)
        )

    async def write(self, origin: Origin, call_id: str, new: NewNote, *, tainted: bool) -> Note:
        def write(store: Store) -> Note:
            change = MemoryChange(new.name or "", new.text or "", origin.agent or "", tainted or self._is_cloned)
            return store.notes.write(self._writing(origin, call_id, new.kind, change), new)

        return await self._in_store(write)

    async def delete(self, origin: Origin, call_id: str, kind: NoteKind, name: str, *, tainted: bool) -> Note:
        def delete(store: Store) -> Note:
            change = MemoryChange(name, "", origin.agent or "", tainted or self._is_cloned)
            return store.notes.delete(self._writing(origin, call_id, kind, change), kind, name)

        return await self._in_store(delete)

    def _writing(self, origin: Origin, call_id: str, kind: NoteKind, change: MemoryChange) -> Writing:
        """Blocks, as a rule of the operator may have to be evaluated."""
        pending = kind == "memory" and not self._accepts(change)
        return Writing(
            self._order.id,
            self._journal.epoch,
            origin,
            call_id,
            self._project,
            self._order.workspace,
            tainted=kind == "memory" and change.tainted,
            pending=pending,
        )

    async def _in_store(self, work: Callable[[Store], T]) -> T:
        self._journal.check_open()
        try:
            return await self._store.patiently(work)
        except (UnknownNote, TooManyNotes) as refused:
            raise NoteRefused(str(refused)) from refused
        except StoreFenced as lost:
            raise JournalFenced(str(lost)) from lost


class OrderAttachments:
    """The files that an order was given: `drone.tools.attachments.AttachmentPort`."""

    def __init__(self, store: AsyncStore, journal: OrderJournal, order_id: str) -> None:
        self._store = store
        self._journal = journal
        self._order_id = order_id

    async def file(self, artifact_id: str) -> tuple[StoredFile, bytes] | None:
        self._journal.check_open()

        def read(store: Store) -> tuple[StoredFile, bytes]:
            file = store.artifacts.of_order(self._order_id, artifact_id)
            return file, b"".join(store.artifacts.pieces(artifact_id))

        try:
            return await self._store.patiently(read)
        except UnknownArtifact:
            return None


class OrderEarlierTurns:
    """The journals of the turns that an order is shown: `drone.agent.turns.earlier.EarlierJournals`."""

    def __init__(self, store: AsyncStore, journal: OrderJournal, history: OrderHistory) -> None:
        self._store = store
        self._journal = journal
        self._history = history

    async def order_of(self, record_id: str) -> str | None:
        return await self._history.order_of(record_id)

    async def tree(self, order_id: str) -> Tree | None:
        self._journal.check_open()
        tree, last_seq = Tree(), 0
        try:
            order = await self._store.patiently(lambda store: store.orders.get(order_id))
            if order.left_out or order.status not in FINAL:
                return None
            while page := await self._store.page(order_id, after=last_seq, limit=PAGE):
                for entry in page:
                    tree.add(entry)
                last_seq = page[-1].seq
        except (UnknownOrder, JournalPruned):
            return None
        return tree


class OrderPeople:
    """The people that an order's agents can ask: questions stand in the inbox, answers arrive as controls. Implements
    `drone.agent.control.inbox.People`.

    `expire_seconds`: how long a call waits for an approval, `wait_seconds`: the order for answers to questions without
    a deadline; the sweep ends the wait.
    """

    reaches = True

    def __init__(self, store: AsyncStore, order_id: str, expire_seconds: float, wait_seconds: float | None) -> None:
        self._store = store
        self._order_id = order_id
        self.expire_seconds = expire_seconds
        self.wait_seconds = wait_seconds

    async def grants(self) -> Sequence[SavedRule]:
        return await self._store.patiently(lambda store: store.grants.of_order(self._order_id))

    async def ask(self, origin: Origin, asked: InboxRequest) -> Said | None:
        """None: the answer comes later, as a control."""
        return None
