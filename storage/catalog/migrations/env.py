"""Run by Alembic: migrate on the connection that the caller holds the write lock on."""

from alembic import context

from tutti.storage.catalog.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite alters little in place; batch mode rebuilds the table where it must.
    render_as_batch=True,
)
# The caller's transaction is the only one: it ends with the migration whole or not at all.
context.run_migrations()
