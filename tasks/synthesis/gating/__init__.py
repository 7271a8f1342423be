"""The gates, cheap ones first: one file and one line each."""

from tutti.tasks.synthesis.gating.gate import Gate

GATES: dict[str, Gate] = {}
"""In the order in which they are asked. A task that one rejects is not shown to those after it."""
