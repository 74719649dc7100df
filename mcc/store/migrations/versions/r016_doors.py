"""By which door and with which token something was done, and people whom a provider of identities vouches for.

Both are empty in rows from before.
"""

import sqlalchemy as sa
from alembic import op

revision = "r016"
down_revision = "r015"
branch_labels = None
depends_on = None

DONE_BY_SOMEBODY = (
    "orders",
    "sessions",
    "controls",
    "approvals",
    "grants",
    "documents",
    "document_history",
    "audit",
)


def upgrade() -> None:
    for table in DONE_BY_SOMEBODY:
        op.add_column(table, sa.Column("door", sa.String(), nullable=True))
        op.add_column(table, sa.Column("token_id", sa.String(), nullable=True))
    op.add_column("people", sa.Column("issuer", sa.String(), nullable=True))
    op.add_column("people", sa.Column("subject", sa.String(), nullable=True))
    op.create_index(
        "person_of_provider",
        "people",
        ["issuer", "subject"],
        unique=True,
        sqlite_where=sa.text("issuer IS NOT NULL"),
        postgresql_where=sa.text("issuer IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("person_of_provider", "people")
    op.drop_column("people", "subject")
    op.drop_column("people", "issuer")
    for table in DONE_BY_SOMEBODY:
        op.drop_column(table, "token_id")
        op.drop_column(table, "door")
