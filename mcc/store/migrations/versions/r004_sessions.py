"""Sessions have defaults, are archived, deleted and forked at a turn; principals mark how far they have read."""

import json

import sqlalchemy as sa
from alembic import op

revision = "r004"
down_revision = "r003"
branch_labels = None
depends_on = None

DELETED = sa.text("deleted_at IS NOT NULL")
FORKED = sa.text("forked_session_id IS NOT NULL")
COLUMNS = (
    ("archived_at", sa.BigInteger()),
    ("deleted_at", sa.BigInteger()),
    ("defaults_json", sa.String()),
    ("context", sa.String()),
    ("forked_session_id", sa.String()),
    ("forked_turn", sa.Integer()),
    ("forked_order_id", sa.String()),
)
FIRST_TURNS = """
SELECT id, session_id, origin_json FROM orders WHERE session_seq = 1 AND origin_json IS NOT NULL
"""
ALL_READ = """
INSERT INTO session_reads (session_id, principal, turn) SELECT id, principal, turns FROM sessions WHERE turns > 0
"""


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("sessions", sa.Column(name, kind, nullable=True))
    op.create_index(
        "deleted_sessions", "sessions", ["deleted_at", "id"], postgresql_where=DELETED, sqlite_where=DELETED
    )
    op.create_index("forks_of_session", "sessions", ["forked_session_id"], postgresql_where=FORKED, sqlite_where=FORKED)
    op.create_table(
        "session_reads",
        sa.Column("session_id", sa.String(), sa.ForeignKey("sessions.id"), primary_key=True, nullable=False),
        sa.Column("principal", sa.String(), primary_key=True, nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
    )
    # What was there before anybody could mark it is not shown as new.
    op.execute(ALL_READ)
    _name_sources()


def _name_sources() -> None:
    """Fill in what the sessions that forks of orders opened were forked from."""
    connection = op.get_bind()
    source = sa.text("SELECT session_id, session_seq FROM orders WHERE id = :id")
    named = sa.text(
        "UPDATE sessions SET forked_session_id = :session, forked_turn = :turn, forked_order_id = :order WHERE id = :id"
    )
    for row in connection.execute(sa.text(FIRST_TURNS)).all():
        origin = json.loads(row.origin_json)
        if origin.get("kind") != "fork":
            continue
        place = connection.execute(source, {"id": origin["order_id"]}).first()
        if place is not None:
            forked = {"session": place.session_id, "turn": place.session_seq, "order": origin["order_id"]}
            connection.execute(named, {"id": row.session_id, **forked})


def downgrade() -> None:
    op.drop_table("session_reads")
    op.drop_index("forks_of_session", "sessions")
    op.drop_index("deleted_sessions", "sessions")
    for name, _ in reversed(COLUMNS):
        op.drop_column("sessions", name)
