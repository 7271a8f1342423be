"""The bench `load`: ``python -m bench.load``."""
