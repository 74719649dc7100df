"""Append-only tables: the journal, its large texts and the audit refuse every UPDATE.

Every role that may update `workspace_locks` is granted DELETE on it too: roles that were created without DELETE could
not end an order that had a lock.
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

LETS_GO = """
DO $$ DECLARE holder name; BEGIN
  FOR holder IN SELECT grantee FROM information_schema.role_table_grants
    WHERE table_schema = current_schema() AND table_name = 'workspace_locks' AND privilege_type = 'UPDATE'
  LOOP EXECUTE format('GRANT DELETE ON workspace_locks TO %I', holder); END LOOP;
END $$
"""
TABLES = ("journal", "blobs", "audit")
SENTENCE = "rows of this table are never changed"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{SENTENCE}' USING ERRCODE = 'insufficient_privilege'; END $$"
        )
        op.execute(LETS_GO)
    for table in TABLES:
        if op.get_bind().dialect.name == "postgresql":
            body = f"BEFORE UPDATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        else:
            body = f"BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END"
        op.execute(f"CREATE TRIGGER {table}_is_append_only {body}")


def downgrade() -> None:
    for table in TABLES:
        on = f" ON {table}" if op.get_bind().dialect.name == "postgresql" else ""
        op.execute(f"DROP TRIGGER {table}_is_append_only{on}")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_change()")
