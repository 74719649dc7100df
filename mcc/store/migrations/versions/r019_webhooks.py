"""Webhooks: endpoints, and what is delivered to them.

What somebody may have to hear of is noted by triggers, on the journal and on the runs of schedules.
"""

import sqlalchemy as sa
from alembic import op

revision = "r019"
down_revision = "r018"
branch_labels = None
depends_on = None

KINDS = (
    "NEW.kind IN ('order.queued', 'order.waiting', 'order.resumed', 'order.finished', 'approval.requested',"
    " 'question.asked')"
)
ENDPOINT_STANDS = (
    "EXISTS (SELECT 1 FROM webhook_endpoints WHERE off_at IS NULL AND secrets_json IS NOT NULL AND url IS NOT NULL)"
)
SOMEBODY_HEARS = (
    f"{ENDPOINT_STANDS} OR (NEW.kind IN ('order.waiting', 'order.finished')"
    " AND EXISTS (SELECT 1 FROM orders WHERE id = NEW.order_id AND has_webhook))"
)
NOTE = "INSERT INTO webhook_events (order_id, seq, kind) VALUES (NEW.order_id, NEW.seq, NEW.kind);"
IS_MISSED = "NEW.outcome = 'missed'"
NOTE_MISSED = (
    "INSERT INTO webhook_events (order_id, seq, kind) VALUES (NEW.schedule_id, NEW.instant, 'schedule.missed');"
)
SQLITE = (
    f"CREATE TRIGGER entry_for_webhooks AFTER INSERT ON journal WHEN {KINDS} AND ({SOMEBODY_HEARS}) BEGIN {NOTE} END",
    f"CREATE TRIGGER missed_for_webhooks AFTER INSERT ON schedule_runs WHEN {IS_MISSED} AND {ENDPOINT_STANDS}"
    f" BEGIN {NOTE_MISSED} END",
)
POSTGRES = (
    "CREATE FUNCTION note_for_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"IF {SOMEBODY_HEARS} THEN {NOTE} END IF; RETURN NULL; END $$",
    "CREATE FUNCTION note_missed_for_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"IF {ENDPOINT_STANDS} THEN {NOTE_MISSED} END IF; RETURN NULL; END $$",
    "CREATE TRIGGER entry_for_webhooks AFTER INSERT ON journal FOR EACH ROW "
    f"WHEN ({KINDS}) EXECUTE FUNCTION note_for_webhooks()",
    "CREATE TRIGGER missed_for_webhooks AFTER INSERT ON schedule_runs FOR EACH ROW "
    f"WHEN ({IS_MISSED}) EXECUTE FUNCTION note_missed_for_webhooks()",
)


def upgrade() -> None:
    op.add_column("orders", sa.Column("has_webhook", sa.Boolean(), nullable=True))
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", sa.String(), primary_key=True, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=True),
        sa.Column("types_json", sa.String(), nullable=False),
        sa.Column("filters_json", sa.String(), nullable=False),
        sa.Column("secrets_json", sa.String(), nullable=True),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("off_at", sa.BigInteger(), nullable=True),
        sa.Column("off_why", sa.String(), nullable=True),
    )
    op.create_index("webhook_endpoints_by_name", "webhook_endpoints", ["name"], unique=True)
    op.create_table(
        "webhook_events",
        sa.Column("order_id", sa.String(), primary_key=True, nullable=False),
        sa.Column("seq", sa.BigInteger(), primary_key=True, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(), primary_key=True, nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("receiver", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("held_by", sa.String(), nullable=True),
        sa.Column("held_until", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error_json", sa.String(), nullable=True),
        sa.UniqueConstraint("endpoint_id", "order_id", "seq", name="delivery_of_entry"),
        postgresql_with={"fillfactor": 50},
    )
    _partial("due_deliveries", "receiver", "due_at", "id", where="state = 'pending'")
    _partial("oldest_deliveries", "created_at", where="state = 'pending'")
    _partial("ended_deliveries", "state", "ended_at", where="ended_at IS NOT NULL")
    op.create_index("deliveries_by_time", "webhook_deliveries", ["created_at", "id"])
    op.create_index("deliveries_of_order", "webhook_deliveries", ["order_id"])
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRES:
        op.execute(statement)


def downgrade() -> None:
    is_postgres = op.get_bind().dialect.name == "postgresql"
    for trigger, table in (("entry_for_webhooks", "journal"), ("missed_for_webhooks", "schedule_runs")):
        op.execute(f"DROP TRIGGER {trigger}{f' ON {table}' if is_postgres else ''}")
    if is_postgres:
        op.execute("DROP FUNCTION note_for_webhooks()")
        op.execute("DROP FUNCTION note_missed_for_webhooks()")
    for table in ("webhook_deliveries", "webhook_events", "webhook_endpoints"):
        op.drop_table(table)
    op.drop_column("orders", "has_webhook")


def _partial(name: str, *columns: str, where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, "webhook_deliveries", list(columns), sqlite_where=condition, postgresql_where=condition)
