"""Notes wait for a person where their agents read text from outside; sessions say whether they have shown any."""

import sqlalchemy as sa
from alembic import op

revision = "r009"
down_revision = "r008"
branch_labels = None
depends_on = None

PENDING = sa.text("state = 'pending'")
DECIDED = sa.text("kind = 'memory' AND (state != 'accepted' OR decided_at IS NOT NULL)")
NOTE_ACCEPTED = (
    "CREATE TRIGGER note_accepted AFTER UPDATE OF newest ON notes"
    " WHEN NEW.newest AND NOT OLD.newest AND NOT NEW.deleted"
    " BEGIN INSERT INTO note_words (rowid, words) VALUES (NEW.id, NEW.words); END"
)
"""A pending version is in no search until it is accepted."""

SESSIONS_BEFORE = "INSERT INTO session_taints (session_id, turn) SELECT id, 0 FROM sessions WHERE turns > 0"
"""Nobody wrote down what these have shown, so what is noted there waits for a person."""


def upgrade() -> None:
    op.add_column("notes", sa.Column("state", sa.String(), nullable=False, server_default="accepted"))
    op.add_column("notes", sa.Column("tainted", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("notes", sa.Column("decided_by", sa.String(), nullable=True))
    op.add_column("notes", sa.Column("decided_at", sa.BigInteger(), nullable=True))
    op.create_index(
        "pending_notes", "notes", ["project", "kind", "name"], postgresql_where=PENDING, sqlite_where=PENDING
    )
    op.create_index("decided_notes", "notes", ["written_at", "id"], postgresql_where=DECIDED, sqlite_where=DECIDED)
    op.create_table(
        "session_taints",
        sa.Column("session_id", sa.String(), sa.ForeignKey("sessions.id"), primary_key=True, nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
    )
    op.execute(SESSIONS_BEFORE)
    if op.get_bind().dialect.name == "sqlite":
        op.execute(NOTE_ACCEPTED)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER note_accepted")
    op.drop_table("session_taints")
    op.drop_index("decided_notes", "notes")
    op.drop_index("pending_notes", "notes")
    for name in ("decided_at", "decided_by", "tainted", "state"):
        op.drop_column("notes", name)
