"""Alembic's scripts for the catalog; `storage.catalog.revisions` runs them."""
