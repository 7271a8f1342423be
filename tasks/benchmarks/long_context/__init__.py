"""Benchmarks of long prompts."""
