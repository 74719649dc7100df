"""The store as a whole: all its parts on one database, and the threads through which an event loop calls them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from mcc.configuration.database import DatabaseAccess
from mcc.store.database.clock import Clock
from mcc.store.database.engine import PATIENCE_SECONDS, Database
from mcc.store.database.errors import StoreUnavailable
from mcc.store.database.migrate import problem_of
from mcc.store.documents.blueprints import BlueprintStore
from mcc.store.documents.changes import StateCache
from mcc.store.doors.firing import Firing
from mcc.store.doors.schedules import ScheduleStore
from mcc.store.doors.trigger_deliveries import TriggerDeliveryStore
from mcc.store.doors.webhook_stores import WebhookParts
from mcc.store.history.history import HistoryStore
from mcc.store.lists.failures import FailureStore
from mcc.store.lists.inbox import InboxStore
from mcc.store.lists.order_lists import OrderLists
from mcc.store.lists.usage import UsageStore
from mcc.store.lists.views import ViewStore
from mcc.store.people.budgets import BudgetStore
from mcc.store.people.devices import DeviceStore
from mcc.store.people.identities import IdentityStore
from mcc.store.people.owners import OwnerStore
from mcc.store.people.people import PeopleStore
from mcc.store.people.rights import RightStore
from mcc.store.people.signins import SigninStore
from mcc.store.people.tokens import TokenStore
from mcc.store.reading.drafts import DraftStore
from mcc.store.reading.parts import PartStore
from mcc.store.rows.audit import Audit
from mcc.store.rows.grants import GrantStore
from mcc.store.rows.note_rows import STALE_DAYS
from mcc.store.upkeep.examine import Examiner, Mender
from mcc.store.upkeep.filling import Filling
from mcc.store.upkeep.load import LoadReader
from mcc.store.upkeep.order_words import OrderWords
from mcc.store.upkeep.packing import Packing
from mcc.store.upkeep.retention import Retention
from mcc.store.upkeep.session_removal import SessionRemoval
from mcc.store.upkeep.tallying import Tallying
from mcc.store.work.agent_changes import AgentChanges
from mcc.store.work.approvals import ApprovalStore
from mcc.store.work.artifacts import ArtifactStore
from mcc.store.work.cancelling import Cancelling
from mcc.store.work.claims import Claims
from mcc.store.work.compacting import CompactionStore
from mcc.store.work.controls import Controls
from mcc.store.work.documents import DocumentStore
from mcc.store.work.journal import JournalStore, Texts
from mcc.store.work.leases import Leases
from mcc.store.work.mcp_servers import McpServerStore
from mcc.store.work.notes import NoteStore
from mcc.store.work.orders import OrderStore, QueueBound
from mcc.store.work.sessions import SessionStore
from mcc.store.work.sweep import Sweeper
from mcc.store.work.transcripts import TranscriptStore
from mcc.store.work.workspaces import WorkspaceLines

P = ParamSpec("P")
R = TypeVar("R")

QUEUE_SECONDS = 3.0
ANSWER_SECONDS = 8.0
STORE_SECONDS = 3.0
"""A store that waits this long for locks answers within `ANSWER_SECONDS`, with a result or an error."""

BUSY = "The database is slow or locked, and earlier requests wait for it: nothing was done. Try again."
SILENT = (
    "The database has not answered in time, so it is not known whether this was done. "
    "Ask again; with the same Idempotency-Key an order is not placed twice."
)


class Offload:
    """Runs blocking calls on threads of its own, so that a slow database never uses up the loop's default threads."""

    def __init__(self, threads: int = 4, name: str = "store") -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class BoundedOffload(Offload):
    """As `Offload`, but raises `StoreUnavailable` when the database does not answer in time.

    A call that has not started after `queue_seconds` is never made. A call that has not ended after `answer_seconds`
    continues on its thread, and its outcome is unknown.
    """

    def __init__(
        self,
        threads: int,
        name: str,
        *,
        queue_seconds: float = QUEUE_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        super().__init__(threads, name)
        self._queue_seconds = queue_seconds
        self._answer_seconds = answer_seconds

    async def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        work = self._pool.submit(lambda: function(*args, **kwargs))
        answer = asyncio.wrap_future(work)
        try:
            await asyncio.wait({answer}, timeout=self._queue_seconds)
            if not answer.done() and work.cancel():
                raise StoreUnavailable(BUSY)
            if not answer.done():
                await asyncio.wait({answer}, timeout=self._answer_seconds - self._queue_seconds)
            if not answer.done():
                raise StoreUnavailable(SILENT)
            return answer.result()
        finally:
            answer.cancel()


BEAT_SECONDS = 4.0
"""A heartbeat without an answer after this time is repeated on another connection."""


@dataclass(frozen=True)
class Store:
    """All parts of a store on SQLite or PostgreSQL; other code uses the part that it needs.

    `beats`: the same database through separate connections, so that heartbeats never wait for other queries.
    """

    database: Database
    beats: Database
    orders: OrderStore
    order_lists: OrderLists
    failures: FailureStore
    usage: UsageStore
    views: ViewStore
    claims: Claims
    journal: JournalStore
    parts: PartStore
    drafts: DraftStore
    texts: Texts
    leases: Leases
    sweeper: Sweeper
    controls: Controls
    cancelling: Cancelling
    sessions: SessionStore
    compactions: CompactionStore
    removal: SessionRemoval
    transcripts: TranscriptStore
    history: HistoryStore
    audit: Audit
    examiner: Examiner
    mender: Mender
    retention: Retention
    packing: Packing
    filling: Filling
    order_words: OrderWords
    tallying: Tallying
    load: LoadReader
    blueprints: BlueprintStore
    documents: DocumentStore
    agent_changes: AgentChanges
    approvals: ApprovalStore
    inbox: InboxStore
    notes: NoteStore
    artifacts: ArtifactStore
    grants: GrantStore
    mcp_servers: McpServerStore
    workspaces: WorkspaceLines
    signins: SigninStore
    people: PeopleStore
    identities: IdentityStore
    tokens: TokenStore
    devices: DeviceStore
    rights: RightStore
    owners: OwnerStore
    schedules: ScheduleStore
    firing: Firing
    budgets: BudgetStore
    webhooks: WebhookParts
    trigger_deliveries: TriggerDeliveryStore

    def schema_problem(self) -> str | None:
        """None when the schema is that of this version, else a sentence that says what to do."""
        return problem_of(self.database)

    def close(self) -> None:
        self.database.close()
        self.beats.close()


def open_store(
    access: DatabaseAccess | str,
    *,
    clock: Clock | None = None,
    connections: int = 8,
    patience_seconds: float = PATIENCE_SECONDS,
    max_queued: int | None = None,
    stale_days: float = STALE_DAYS,
) -> Store:
    """A store on `sqlite:///PATH` or `postgresql://…`; close it after use. Neither creates nor changes anything. An
    address alone is reached as `DatabaseAccess` says by default.

    `patience_seconds`: how long to wait for a lock before `StoreUnavailable` is raised. `max_queued`: the most orders
    that may be queued. `stale_days`: after so many a memory that nobody has verified is stale. Raises ValueError for
    another kind of address.
    """
    database = Database(access, clock=clock, connections=connections, patience_seconds=patience_seconds)
    beats = Database(
        access, clock=clock, connections=2, patience_seconds=patience_seconds, silence_seconds=BEAT_SECONDS
    )
    return store_on(database, beats, max_queued, stale_days)


def store_on(
    database: Database, beats: Database, max_queued: int | None = None, stale_days: float = STALE_DAYS
) -> Store:
    """A store on databases that are open already: the same one twice, as `Store` says."""
    documents = DocumentStore(database, blueprints := BlueprintStore(database), StateCache())
    orders = OrderStore(database, bound := QueueBound(max_queued, database.clock), documents)
    return Store(
        database=database,
        beats=beats,
        orders=orders,
        order_lists=OrderLists(database),
        failures=FailureStore(database),
        usage=UsageStore(database),
        views=ViewStore(database),
        claims=Claims(database),
        journal=(journal := JournalStore(database)),
        parts=PartStore(database, journal),
        drafts=DraftStore(database),
        texts=Texts(database),
        leases=Leases(beats),
        sweeper=Sweeper(database, beats),
        controls=Controls(database),
        cancelling=Cancelling(database),
        sessions=SessionStore(database),
        compactions=CompactionStore(database, bound, orders),
        removal=SessionRemoval(database),
        transcripts=TranscriptStore(database),
        history=HistoryStore(database),
        audit=Audit(database),
        examiner=Examiner(database),
        mender=Mender(database),
        retention=Retention(database),
        packing=Packing(database),
        filling=Filling(database),
        order_words=(words := OrderWords(database)),
        tallying=Tallying(database, words),
        load=LoadReader(database),
        blueprints=blueprints,
        documents=documents,
        agent_changes=AgentChanges(database, journal, documents),
        approvals=ApprovalStore(database),
        inbox=InboxStore(database),
        notes=NoteStore(database, stale_days),
        artifacts=ArtifactStore(database),
        grants=GrantStore(database),
        mcp_servers=McpServerStore(database),
        workspaces=WorkspaceLines(database),
        signins=SigninStore(database),
        people=PeopleStore(database),
        identities=IdentityStore(database),
        tokens=TokenStore(database),
        devices=DeviceStore(database),
        rights=RightStore(database),
        owners=OwnerStore(database),
        schedules=ScheduleStore(database),
        firing=Firing(database, orders, documents),
        budgets=BudgetStore(database),
        webhooks=WebhookParts.on(database),
        trigger_deliveries=TriggerDeliveryStore(database, orders, documents),
    )
