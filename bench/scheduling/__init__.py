"""The bench `scheduling`: ``python -m bench.scheduling``."""
