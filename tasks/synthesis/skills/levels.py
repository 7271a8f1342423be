"""How hard a task is, from its attempts, and only where they suffice to say it.

In: attempts and right ones. Out: a level with Wilson's 95 % interval of the pass rate. A level is
given only if the whole interval lies in its range; everything else is unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tutti.tasks.scoring.statistics import wilson
from tutti.tasks.synthesis.making.band import Rate

Level = Literal["easy", "medium", "hard", "unknown"]
HARD_TO, EASY_FROM = 1 / 3, 2 / 3
"""Of the pass rate: eight attempts, all right or all wrong, suffice to say easy or hard."""


@dataclass(frozen=True)
class MeasuredLevel:
    """A task's level."""

    level: Level
    rate: Rate
    low: float
    high: float

    @property
    def labels(self) -> Mapping[str, str]:
        """As a task has them."""
        return {
            "level": self.level,
            "attempts": str(self.rate.n),
            "solved": str(self.rate.solved),
            "rate_low": f"{self.low:.3f}",
            "rate_high": f"{self.high:.3f}",
        }


def level_of(
    rate: Rate | None, hard_to: float = HARD_TO, easy_from: float = EASY_FROM
) -> MeasuredLevel:
    """The level of a task with these attempts; a pass rate up to `hard_to` is hard, from
    `easy_from` on easy. Attempts at one task have seeds of their own, so they count as independent.
    """
    found = rate or Rate(0, 0)
    low, high = wilson(found.solved, found.n) or (0.0, 1.0)
    level: Level = "unknown"
    if high <= hard_to:
        level = "hard"
    elif low >= easy_from:
        level = "easy"
    elif hard_to <= low and high <= easy_from:
        level = "medium"
    return MeasuredLevel(level, found, low, high)
