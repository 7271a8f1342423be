"""Readers of the store: views, macros and lineage."""
