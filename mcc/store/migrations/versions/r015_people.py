"""People and tokens, and the audit found by who did something; its rows are not only unchanged but kept for ever."""

import sqlalchemy as sa
from alembic import op

revision = "r015"
down_revision = "r014"
branch_labels = None
depends_on = None

KEPT = "rows of the audit are kept for ever"
HOW = {
    "sqlite": f"BEGIN SELECT RAISE(ABORT, '{KEPT}'); END",
    "postgresql": "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()",
}
"""What refuses to delete; `refuse_change` is of the first schema."""


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("id", sa.String(), primary_key=True, nullable=False),
        sa.Column("name_json", sa.String(), nullable=False),
        sa.Column("email_json", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=True),
    )
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String(), primary_key=True, nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("name_json", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=True),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
    )
    op.create_index("tokens_by_digest", "api_tokens", ["digest"], unique=True)
    op.create_index("tokens_of_principal", "api_tokens", ["principal", "id"])
    op.create_index("audit_of_principal", "audit", ["principal", "id"])
    op.execute(f"CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit {HOW[op.get_bind().dialect.name]}")


def downgrade() -> None:
    on = " ON audit" if op.get_bind().dialect.name == "postgresql" else ""
    op.execute(f"DROP TRIGGER audit_is_kept{on}")
    op.drop_index("audit_of_principal", "audit")
    op.drop_table("api_tokens")
    op.drop_table("people")
