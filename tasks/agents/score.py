"""The score of an attempt, as a scorer gives it, or a command that scores its own attempts.

It is defined here because a command's trajectory carries one; scorers are in `tutti.tasks.scoring`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Score:
    """What an answer is worth, by which scorer."""

    scorer: str
    version: str
    value: float
    """0 to 1, where the scorer does not say otherwise."""
    correct: bool
    answer: str | None = None
    """As the scorer read it, where that differs from the attempt's."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able: why; for a judge its words."""
    judge_call_id: str | None = None
