"""DELETE on `grants` for roles that end orders: grants for a single order are deleted when it ends.

Roles that were created without DELETE could not end an order.
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

LETS_GO = """
DO $$ DECLARE holder name; BEGIN
  FOR holder IN SELECT grantee FROM information_schema.role_table_grants
    WHERE table_schema = current_schema() AND table_name = 'grants' AND privilege_type = 'UPDATE'
  LOOP EXECUTE format('GRANT DELETE ON grants TO %I', holder); END LOOP;
END $$
"""


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(LETS_GO)


def downgrade() -> None:
    """The privilege stays: the same roles had it for other tables before."""
