"""The verbs of the store: import, export, view, lineage, compact, verify, expire."""
