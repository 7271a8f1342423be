"""The bench `store`: ``python -m bench.store``."""
