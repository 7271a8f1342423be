"""Benchmarks of theorems in Lean 4."""
