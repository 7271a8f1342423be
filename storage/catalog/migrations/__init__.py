"""Alembic's scripts for the catalog; `tutti.storage.catalog.revisions` runs them."""
