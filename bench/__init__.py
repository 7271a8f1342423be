"""Benches: each module runs alone (``python -m bench.NAME``) and ends in one line of JSON."""
