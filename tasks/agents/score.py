"""The score of an attempt, from a scorer or from a command that scores its own attempts.

It is defined here because a command's trajectory has one; scorers are in `tutti.tasks.scoring`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Score:
    """An attempt's score by one scorer."""

    scorer: str
    version: str
    value: float
    """0 to 1, unless the scorer documents another range."""
    correct: bool
    answer: str | None = None
    """The answer as the scorer read it, if it differs from the attempt's."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """JSON data on the reason; for a judge its text."""
    judge_call_id: str | None = None
    found_answer: bool = True
    """False: the scorer looked for an answer and found none, which is no vote in a majority."""
