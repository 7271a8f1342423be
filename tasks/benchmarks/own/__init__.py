"""Benchmarks of the user's own: a JSONL file, or a Python file with one class."""
