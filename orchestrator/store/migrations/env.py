"""Alembic's entry: runs migrations on the connection that `upgrade` hands over."""

from alembic import context

from orchestrator.store.schema import metadata
from orchestrator.store.version import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
