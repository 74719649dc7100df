"""The first schema: orders with their state, journal, leases, controls, sessions, records."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_sessions()
    _create_orders()
    _create_order_labels()
    _create_idempotency_keys()
    _create_order_state()
    _create_journal()
    _create_blobs()
    _create_drones()
    _create_sweepers()
    _create_controls()
    _create_chat_records()


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("title_json", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("last_order_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )


def _create_orders() -> None:
    op.create_table(
        "orders",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("session_seq", sa.Integer(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("spec_json", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("outcome_json", sa.String(), nullable=True),
        sa.Column("left_out", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("session_id", "session_seq", name="turn_of_session"),
    )


def _create_order_labels() -> None:
    op.create_table(
        "order_labels",
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("label", "order_id"),
    )


def _create_idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("key_digest", sa.String(), nullable=False),
        sa.Column("body_digest", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("control_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("principal", "key_digest"),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])


def _create_order_state() -> None:
    op.create_table(
        "order_state",
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("session_seq", sa.Integer(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("waits_until", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("control_seq", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("takeovers", sa.Integer(), nullable=False),
        sa.Column("journal_version", sa.Integer(), nullable=False),
        sa.Column("incarnation", sa.String(), nullable=True),
        sa.Column("claim_token", sa.String(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=False),
        sa.Column("model_calls", sa.Integer(), nullable=False),
        sa.Column("tool_calls", sa.Integer(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("order_id"),
        postgresql_with={"fillfactor": 50},
    )
    _create_partial_index(
        "one_held_order_per_session", "order_state", ["session_id"], "status IN ('running', 'waiting')", unique=True
    )
    _create_partial_index("queued_orders", "order_state", ["queue", "priority", "order_id"], "status IN ('queued')")
    _create_partial_index(
        "unfinished_orders", "order_state", ["session_id", "session_seq"], "status IN ('queued', 'running', 'waiting')"
    )


def _create_journal() -> None:
    op.create_table(
        "journal",
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("record_id", sa.String(), nullable=True),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=True),
        sa.Column("data_json", sa.String(), nullable=False),
        sa.Column("large_json", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("order_id", "seq"),
    )
    _create_partial_index("one_end_per_order", "journal", ["order_id"], "kind = 'order.finished'", unique=True)
    _create_partial_index(
        "one_end_per_record", "journal", ["order_id", "record_id"], "kind = 'agent.finished'", unique=True
    )
    _create_partial_index(
        "one_result_per_call", "journal", ["order_id", "call_id"], "kind = 'tool.finished'", unique=True
    )
    _create_partial_index(
        "one_start_per_record", "journal", ["order_id", "record_id"], "kind = 'agent.started'", unique=True
    )


def _create_blobs() -> None:
    op.create_table(
        "blobs",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("text_json", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )


def _create_drones() -> None:
    op.create_table(
        "drones",
        sa.Column("incarnation", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("registration_json", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("active", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("boot", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("incarnation"),
        postgresql_with={"fillfactor": 50},
    )


def _create_sweepers() -> None:
    op.create_table(
        "sweepers",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("beat_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        postgresql_with={"fillfactor": 50},
    )


def _create_controls() -> None:
    op.create_table(
        "controls",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("record_id", sa.String(), nullable=True),
        sa.Column("message_json", sa.String(), nullable=True),
        sa.Column("reason_json", sa.String(), nullable=True),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("delivered_at", sa.BigInteger(), nullable=True),
        sa.Column("applied_at", sa.BigInteger(), nullable=True),
        sa.Column("applied_seq", sa.Integer(), nullable=True),
        sa.Column("refused_json", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("order_id", "number", name="number_of_control"),
    )


def _create_chat_records() -> None:
    op.create_table(
        "chat_records",
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("record_id", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("record_json", sa.String(), nullable=False),
        sa.Column("large_json", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.PrimaryKeyConstraint("order_id", "position"),
    )
    op.create_index("ix_chat_records_record_id", "chat_records", ["record_id"])


def _create_partial_index(name: str, table: str, columns: list[str], condition: str, *, unique: bool = False) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    for table in (
        "chat_records",
        "controls",
        "sweepers",
        "drones",
        "blobs",
        "journal",
        "order_state",
        "idempotency_keys",
        "order_labels",
        "orders",
        "sessions",
    ):
        op.drop_table(table)
