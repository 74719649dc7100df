"""Alembic's environment: migrations run on the connection they are given, in its transaction."""

from alembic import context

from mcc.store.database.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
