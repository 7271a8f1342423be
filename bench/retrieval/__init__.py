"""The bench `retrieval`: ``python -m bench.retrieval``."""
