"""Orders that compact a session are in a session of their own, which says so."""

import sqlalchemy as sa
from alembic import op

revision = "r010"
down_revision = "r009"
branch_labels = None
depends_on = None

COMPACTS = sa.text("compacts IS NOT NULL")


def upgrade() -> None:
    op.add_column("sessions", sa.Column("compacts", sa.String(), nullable=True))
    op.create_index("compacting_sessions", "sessions", ["compacts"], postgresql_where=COMPACTS, sqlite_where=COMPACTS)


def downgrade() -> None:
    op.drop_index("compacting_sessions", "sessions")
    op.drop_column("sessions", "compacts")
