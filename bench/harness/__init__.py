"""The bench `harness`: ``python -m bench.harness``."""
