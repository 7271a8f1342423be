"""The bench `statistics`: ``python -m bench.statistics``."""
