"""Benchmarks of the user's own."""
