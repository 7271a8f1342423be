"""Benchmarks of EvalPlus's release that need more than a row's fields: MBPP+."""
