"""Schedules, and what happened at their instants."""

import sqlalchemy as sa
from alembic import op

revision = "r018"
down_revision = "r017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(), primary_key=True, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("spec_json", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("token_id", sa.String(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_instant", sa.BigInteger(), nullable=False),
        sa.Column("next_instant", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("zone_data", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=True),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index("schedules_by_name", "schedules", ["name"], unique=True)
    _partial_index("due_schedules", "schedules", "due_at", where="due_at IS NOT NULL")
    op.create_table(
        "schedule_runs",
        sa.Column("schedule_id", sa.String(), sa.ForeignKey("schedules.id"), primary_key=True, nullable=False),
        sa.Column("instant", sa.BigInteger(), primary_key=True, nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=True),
        sa.Column("why_json", sa.String(), nullable=True),
        sa.Column("count", sa.Integer(), nullable=True),
        sa.Column("since", sa.BigInteger(), nullable=True),
        sa.Column("is_open", sa.Boolean(), nullable=False),
    )
    _partial_index("open_schedule_runs", "schedule_runs", "schedule_id", "instant", where="is_open")
    _partial_index("held_schedule_runs", "schedule_runs", "schedule_id", "instant", where="outcome = 'held'")
    _partial_index("missed_schedule_runs", "schedule_runs", "instant", where="outcome = 'missed'")


def downgrade() -> None:
    op.drop_table("schedule_runs")
    op.drop_table("schedules")


def _partial_index(name: str, table: str, *columns: str, where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, list(columns), sqlite_where=condition, postgresql_where=condition)
