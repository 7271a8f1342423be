"""Benchmarks of one question and one answer."""
