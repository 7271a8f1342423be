"""Tests of the user's own benchmarks."""
