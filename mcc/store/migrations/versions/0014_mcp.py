"""MCP servers: digests of tool definitions, tokens, and test calls that the operator requests."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "mcp_pins",
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("tool_json", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=True),
        sa.Column("seen", sa.String(), nullable=False),
        sa.Column("approved_by", sa.String(), nullable=True),
        sa.Column("approved_at", sa.BigInteger(), nullable=True),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("server", "tool_json"),
    )
    op.create_table(
        "mcp_tokens",
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("token_json", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("held_by", sa.String(), nullable=True),
        sa.Column("held_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("server"),
    )
    op.create_table(
        "mcp_trials",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("request_json", sa.String(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("taken", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    for table in ("mcp_trials", "mcp_tokens", "mcp_pins"):
        op.drop_table(table)
