"""Constants of both sides of the harness bench; standard library only, for a peer's Python."""

DELAY_S = 0.2
"""Delay of each answer."""
TOOL_STEPS = 4
"""Tool calls before the answer, which makes five steps."""
CONCURRENCY = 512
QUESTION = "What is three plus four? Say it after four hashes."
