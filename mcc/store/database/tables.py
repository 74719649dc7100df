"""The tables of this version of the schema.

Those of sessions are defined in `mcc.store.database.session_tables`, those of documents in
`mcc.store.database.document_tables`, those of the inbox, notes and MCP servers in `mcc.store.database.agent_tables`,
those of files in `mcc.store.database.artifact_tables`, those of what sessions are shown in
`mcc.store.database.transcript_tables`, those of what was said in them in `mcc.store.database.history_tables`, those of
what people look at in `mcc.store.database.list_tables`, those that the sweep fills for them in
`mcc.store.database.usage_tables`, those of sign-ins in `mcc.store.database.signin_tables`, those of people and their
tokens in `mcc.store.database.people_tables`, those of budgets in `mcc.store.database.budget_tables`, those of schedules
in `mcc.store.database.schedule_tables`, those of webhooks in `mcc.store.database.webhook_tables`, those of deliveries
to triggers in `mcc.store.database.trigger_tables`; other modules import all of them from here.
"""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.contracts.status import UNFINISHED, OrderStatus
from mcc.store.database.agent_tables import APPROVALS as APPROVALS
from mcc.store.database.agent_tables import GRANTS as GRANTS
from mcc.store.database.agent_tables import MCP_PINS as MCP_PINS
from mcc.store.database.agent_tables import MCP_TOKENS as MCP_TOKENS
from mcc.store.database.agent_tables import MCP_TRIALS as MCP_TRIALS
from mcc.store.database.agent_tables import NOTES as NOTES
from mcc.store.database.artifact_tables import ARTIFACT_CHUNKS as ARTIFACT_CHUNKS
from mcc.store.database.artifact_tables import ARTIFACT_USES as ARTIFACT_USES
from mcc.store.database.artifact_tables import ARTIFACTS as ARTIFACTS
from mcc.store.database.budget_tables import BUDGET_DAYS as BUDGET_DAYS
from mcc.store.database.budget_tables import BUDGET_RULES as BUDGET_RULES
from mcc.store.database.columns import HALF_FILLED, Row, partial_index
from mcc.store.database.columns import among as among
from mcc.store.database.columns import size_of as size_of
from mcc.store.database.control_tables import AUDIT as AUDIT
from mcc.store.database.control_tables import CONTROLS as CONTROLS
from mcc.store.database.document_tables import BLUEPRINTS as BLUEPRINTS
from mcc.store.database.document_tables import DOCUMENT_HEADS as DOCUMENT_HEADS
from mcc.store.database.document_tables import DOCUMENT_HISTORY as DOCUMENT_HISTORY
from mcc.store.database.document_tables import DOCUMENT_KEYS as DOCUMENT_KEYS
from mcc.store.database.document_tables import DOCUMENT_NODES as DOCUMENT_NODES
from mcc.store.database.document_tables import DOCUMENTS as DOCUMENTS
from mcc.store.database.history_tables import HISTORY as HISTORY
from mcc.store.database.history_tables import INDEXED as INDEXED
from mcc.store.database.list_tables import SEEN as SEEN
from mcc.store.database.list_tables import SEEN_BEFORE as SEEN_BEFORE
from mcc.store.database.list_tables import VIEWS as VIEWS
from mcc.store.database.people_tables import API_TOKENS as API_TOKENS
from mcc.store.database.people_tables import PEOPLE as PEOPLE
from mcc.store.database.schedule_tables import SCHEDULE_RUNS as SCHEDULE_RUNS
from mcc.store.database.schedule_tables import SCHEDULES as SCHEDULES
from mcc.store.database.session_tables import REQUESTS as REQUESTS
from mcc.store.database.session_tables import SESSION_READS as SESSION_READS
from mcc.store.database.session_tables import SESSION_TAINTS as SESSION_TAINTS
from mcc.store.database.session_tables import SESSION_WORDS as SESSION_WORDS
from mcc.store.database.session_tables import SESSIONS as SESSIONS
from mcc.store.database.signin_tables import ONE_TIME as ONE_TIME
from mcc.store.database.signin_tables import PREFERENCES as PREFERENCES
from mcc.store.database.signin_tables import SIGNINS as SIGNINS
from mcc.store.database.transcript_tables import BASES as BASES
from mcc.store.database.transcript_tables import TRANSCRIPTS as TRANSCRIPTS
from mcc.store.database.trigger_tables import REPLIES as REPLIES
from mcc.store.database.trigger_tables import TRIGGER_DELIVERIES as TRIGGER_DELIVERIES
from mcc.store.database.usage_tables import LIST_PROGRESS as LIST_PROGRESS
from mcc.store.database.usage_tables import ORDER_WORDS as ORDER_WORDS
from mcc.store.database.usage_tables import USAGE_DAYS as USAGE_DAYS
from mcc.store.database.usage_tables import USAGE_OUTBOX as USAGE_OUTBOX
from mcc.store.database.webhook_tables import WEBHOOK_DELIVERIES as WEBHOOK_DELIVERIES
from mcc.store.database.webhook_tables import WEBHOOK_ENDPOINTS as WEBHOOK_ENDPOINTS
from mcc.store.database.webhook_tables import WEBHOOK_EVENTS as WEBHOOK_EVENTS


def _status_in(*statuses: OrderStatus) -> str:
    listed = ", ".join(f"'{status.value}'" for status in sorted(statuses))
    return f"status IN ({listed})"


_WAITING = f"status = '{OrderStatus.WAITING.value}'"


class OrderRow(Row, table=True):
    """The part of an order that does not change while it runs.

    `pruned_at`: since then the journal may not be read; `emptied_at`: since then its entries are deleted.

    `agent` to `inbox` are there to find orders by; `agent` None: a version before them placed the order, and the sweep
    has not filled them in yet. `model`: the requested one until the order has ended, then the one that its master
    began with. `last_drone`: the name of the drone that held it last, once it has ended. `fingerprint`: what failures
    of one cause have in common. `inbox`: the kind of the inbox item that it is once it has ended.

    `budget_day`: the day whose budgets it reserved from, `reserved`: how many millionths of a US dollar it reserved of
    each; None: of none. `budget_json`: whose they are, and the limits that its caller gave.
    """

    __tablename__ = "orders"
    __table_args__ = (
        sa.UniqueConstraint("session_id", "session_seq", name="turn_of_session"),
        sa.Index("orders_of_session", "session_id", "id"),
        sa.Index("orders_by_ending", sa.text("substr(id, 33)"), "id"),
        partial_index("orders_to_empty", "finished_at", where="finished_at IS NOT NULL AND emptied_at IS NULL"),
        partial_index(
            "orders_to_pack",
            "finished_at",
            where="finished_at IS NOT NULL AND packed_at IS NULL AND pruned_at IS NULL",
        ),
        sa.Index("orders_of_agent", "agent", "id"),
        partial_index("orders_of_fingerprint", "fingerprint", "id", where="fingerprint IS NOT NULL"),
        partial_index("failed_orders", "finished_at", "id", where="fingerprint IS NOT NULL"),
        partial_index(
            "orders_in_inbox", "principal", "finished_at", "id", where="finished_at IS NOT NULL AND inbox IS NOT NULL"
        ),
    )

    id: str = Field(primary_key=True)
    session_id: str = Field(foreign_key="sessions.id")
    session_seq: int
    principal: str
    spec_json: str
    created_at: int = Field(sa_type=sa.BigInteger)
    finished_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    outcome_json: str | None = None
    left_out: bool = False
    origin_json: str | None = None
    words_json: str | None = None
    pruned_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    emptied_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    packed_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    agent: str | None = None
    model: str | None = None
    last_drone: str | None = None
    fingerprint: str | None = None
    inbox: str | None = None
    door: str | None = None
    token_id: str | None = None
    budget_day: str | None = None
    reserved: int | None = Field(default=None, sa_type=sa.BigInteger)
    budget_json: str | None = None
    has_webhook: bool | None = None


class OrderLabelRow(Row, table=True):
    __tablename__ = "order_labels"

    label: str = Field(primary_key=True)
    order_id: str = Field(primary_key=True, foreign_key="orders.id")


class IdempotencyRow(Row, table=True):
    """A key is stored as its SHA-256, so that any header value fits an index."""

    __tablename__ = "idempotency_keys"

    principal: str = Field(primary_key=True)
    key_digest: str = Field(primary_key=True)
    body_digest: str
    order_id: str = Field(foreign_key="orders.id")
    control_id: str | None = None
    created_at: int = Field(sa_type=sa.BigInteger, index=True)


class OrderStateRow(Row, table=True):
    """The part of an order that changes while it runs, and the order's only lock: every transaction that writes
    anything about an order locks this row first.

    `writes`: it has written in its workspace. `wants_key`, `wants_at`: the workspace in which it wants to write, and
    since when it stands in the line for that.
    """

    __tablename__ = "order_state"
    __table_args__ = (
        partial_index(
            "one_held_order_per_session",
            "session_id",
            where=_status_in(OrderStatus.RUNNING, OrderStatus.WAITING),
            unique=True,
        ),
        partial_index("unfinished_orders", "session_id", "session_seq", where=_status_in(*UNFINISHED)),
        partial_index("queued_orders", "queue", "priority", "order_id", where=_status_in(OrderStatus.QUEUED)),
        sa.Index("orders_by_status", "status", "order_id"),
        partial_index("orders_of_drone", "incarnation", where="incarnation IS NOT NULL"),
        partial_index("orders_to_expire", "expires_at", where=f"{_status_in(*UNFINISHED)} AND expires_at IS NOT NULL"),
        partial_index("waiting_orders", "reason", "order_id", where=_WAITING),
        partial_index("waiting_orders_due", "not_before", where=f"{_WAITING} AND not_before IS NOT NULL"),
        partial_index("waiting_orders_over", "waits_until", where=_WAITING),
        partial_index("orders_in_line", "wants_key", "wants_at", "order_id", where="wants_key IS NOT NULL"),
        HALF_FILLED,
    )

    order_id: str = Field(primary_key=True, foreign_key="orders.id")
    session_id: str
    session_seq: int
    queue: str
    priority: int
    status: str
    reason: str | None = None
    not_before: int | None = Field(default=None, sa_type=sa.BigInteger)
    expires_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    waits_until: int | None = Field(default=None, sa_type=sa.BigInteger)
    started_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    epoch: int = 0
    last_seq: int = 0
    control_seq: int = 0
    attempt: int = 0
    takeovers: int = 0
    barren: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    journal_version: int
    incarnation: str | None = None
    claim_token: str | None = None
    workspace_key: str | None = None
    writes: bool = Field(default=False, sa_column_kwargs={"server_default": sa.false()})
    wants_key: str | None = None
    wants_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    metadata_json: str | None = None
    input_tokens: int = Field(default=0, sa_type=sa.BigInteger)
    cached_input_tokens: int = Field(default=0, sa_type=sa.BigInteger)
    cache_write_tokens: int = Field(default=0, sa_type=sa.BigInteger, sa_column_kwargs={"server_default": "0"})
    output_tokens: int = Field(default=0, sa_type=sa.BigInteger)
    reasoning_tokens: int = Field(default=0, sa_type=sa.BigInteger)
    model_calls: int = 0
    tool_calls: int = 0
    cost_usd: float | None = Field(default=0.0, sa_type=sa.Double)


class JournalRow(Row, table=True):
    """No foreign key to the order: the lock on the order's row proves that it exists, and a check per entry is slow."""

    __tablename__ = "journal"
    __table_args__ = (
        partial_index("one_end_per_order", "order_id", where="kind = 'order.finished'", unique=True),
        partial_index("one_start_per_record", "order_id", "record_id", where="kind = 'agent.started'", unique=True),
        partial_index("one_end_per_record", "order_id", "record_id", where="kind = 'agent.finished'", unique=True),
        partial_index("one_result_per_call", "order_id", "call_id", where="kind = 'tool.finished'", unique=True),
        # The child's id stands in `call_id`.
        partial_index("one_delivery_per_child", "order_id", "call_id", where="kind = 'agent.delivered'", unique=True),
    )

    order_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    epoch: int
    at: int = Field(sa_type=sa.BigInteger)
    kind: str
    record_id: str | None = None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0
    call_id: str | None = None
    data_json: str
    large_json: str | None = None


class PackRow(Row, table=True):
    """The compressed journal of an ended order, which replaces its rows in `journal`, and its compressed chat record,
    which replaces its rows in `chat_records` (`mcc.store.rows.packs`). Pruning leaves only some entries in `packed`.
    """

    __tablename__ = "journal_packs"

    order_id: str = Field(primary_key=True, foreign_key="orders.id")
    packed: bytes
    record: bytes | None = None


class JournalPartRow(Row, table=True):
    """A thousand entries of a journal in short (`mcc.store.rows.part_rows`): made by whoever needs them first, and not
    part of backups."""

    __tablename__ = "journal_parts"

    order_id: str = Field(primary_key=True, foreign_key="orders.id")
    part: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    packed: bytes


class DraftRow(Row, table=True):
    """What a person has begun to write about an order."""

    __tablename__ = "drafts"

    order_id: str = Field(primary_key=True, foreign_key="orders.id")
    principal: str = Field(primary_key=True)
    drafts_json: str
    changed_at: int = Field(sa_type=sa.BigInteger)


class BlobRow(Row, table=True):
    __tablename__ = "blobs"

    digest: str = Field(primary_key=True)
    text_json: str
    created_at: int = Field(sa_type=sa.BigInteger)


class TextUseRow(Row, table=True):
    """References to blobs. `owner` is the id of an order, or of an incarnation whose registration names the text."""

    __tablename__ = "text_uses"
    __table_args__ = (sa.Index("texts_of_owner", "owner"), {"sqlite_with_rowid": False})

    digest: str = Field(primary_key=True)
    owner: str = Field(primary_key=True)


class DroneRow(Row, table=True):
    """The lease of one incarnation of a drone. On SQLite `lease_until` is in microseconds since the boot `boot`.

    `draining`: what it says of itself; `drain`: what an operator told it, read when it renews its lease.
    """

    __tablename__ = "drones"
    __table_args__ = (HALF_FILLED,)

    incarnation: str = Field(primary_key=True)
    name: str
    registration_json: str
    state: str
    active: int = 0
    draining: bool = False
    drain: str | None = None
    refused_messages: int = Field(default=0, sa_type=sa.BigInteger, sa_column_kwargs={"server_default": "0"})
    started_at: int = Field(sa_type=sa.BigInteger)
    heartbeat_at: int = Field(sa_type=sa.BigInteger)
    lease_until: int = Field(sa_type=sa.BigInteger)
    boot: str


class SweeperRow(Row, table=True):
    __tablename__ = "sweepers"
    __table_args__ = (HALF_FILLED,)

    name: str = Field(primary_key=True)
    beat_at: int = Field(sa_type=sa.BigInteger)


class ChatRecordRow(Row, table=True):
    """One record of an order's tree, without its children; `position` is its index in depth-first order."""

    __tablename__ = "chat_records"

    order_id: str = Field(primary_key=True, foreign_key="orders.id")
    position: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    record_id: str = Field(index=True)
    parent_id: str | None = None
    record_json: str
    large_json: str | None = None


class WorkspaceLockRow(Row, table=True):
    """The lock of a claimed order that writes in its workspace, `exclusive`. One that is not tells, for a directory
    above the workspace in which its order waits to write, that somebody waits below it; it lasts as long as the order
    is in the line."""

    __tablename__ = "workspace_locks"

    workspace_key: str = Field(primary_key=True)
    order_id: str = Field(primary_key=True, foreign_key="orders.id")
    epoch: int
    exclusive: bool

    __table_args__ = (sa.Index("lock_of_order", "order_id"),)


METADATA = Row.metadata
ORDERS = METADATA.tables["orders"]
LABELS = METADATA.tables["order_labels"]
KEYS = METADATA.tables["idempotency_keys"]
STATE = METADATA.tables["order_state"]
JOURNAL = METADATA.tables["journal"]
PACKS = METADATA.tables["journal_packs"]
JOURNAL_PARTS = METADATA.tables["journal_parts"]
DRAFTS = METADATA.tables["drafts"]
BLOBS = METADATA.tables["blobs"]
TEXT_USES = METADATA.tables["text_uses"]
DRONES = METADATA.tables["drones"]
SWEEPERS = METADATA.tables["sweepers"]
RECORDS = METADATA.tables["chat_records"]
WORKSPACE_LOCKS = METADATA.tables["workspace_locks"]
