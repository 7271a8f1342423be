"""What both sides of the harness bench know; standard library only, for a peer's Python."""

DELAY_S = 0.2
"""Of each answer."""
TOOL_STEPS = 4
"""Calls of a tool before the answer: with it five steps."""
CONCURRENCY = 512
QUESTION = "What is three plus four? Say it after four hashes."
