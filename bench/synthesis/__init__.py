"""Benches of task synthesis."""
