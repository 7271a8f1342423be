"""The bench `gateway`: ``python -m bench.gateway``."""
