"""Sequential testing: a confidence sequence by betting keeps the false-alarm rate at every stopping
time.

In: differences by task, in order of arrival, all at once or one by one (`ConfidenceSequence`). Out:
an interval after each; all hold simultaneously, so that one may stop at any time. The only
assumptions are that scores lie in 0 to 1 and that tasks come in random order.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tutti.tasks.scoring.statistics.intervals import CONFIDENCE
from tutti.tasks.scoring.statistics.sample import Array, numbers
from tutti.tasks.scoring.statistics.verdicts import Word

STEPS = 200  # of a difference of 1: interval ends are rounded outwards to half of this
CANDIDATES = np.arange(-STEPS, STEPS + 1) / STEPS
BET_AT_MOST = 0.5  # of the remaining capital, on each side, so that no task can lose it all


class InterimResult(NamedTuple):
    """The result after some of the tasks."""

    n: int
    low: float
    """Ends of the interval after `n` tasks; all intervals hold simultaneously."""
    high: float
    verdict: Word | None
    """None: continue."""


class ConfidenceSequence:
    """A confidence sequence that takes one difference at a time, in constant time each."""

    def __init__(self, planned: int, margin: float = 0.0, confidence: float = CONFIDENCE) -> None:
        """As in `confidence_sequence` and `look`; ValueError for planned < 1, a margin below 0."""
        if planned < 1:
            raise ValueError(f"planned is at least 1, not {planned}")
        if not margin >= 0:
            raise ValueError(f"the margin is 0 or more, not {margin}")
        self._planned, self._margin = planned, margin
        self._rich = math.log(2 / (1 - confidence))
        self._m = (CANDIDATES + 1) / 2  # the formulas are for 0 to 1
        with np.errstate(divide="ignore"):
            self._most_above, self._most_below = BET_AT_MOST / self._m, BET_AT_MOST / (1 - self._m)
        self._above, self._below = np.zeros(len(CANDIDATES)), np.zeros(len(CANDIDATES))  # logs
        self._n, self._sum, self._squares = 0, 0.5, 0.25
        self._low, self._high = 0, len(CANDIDATES) - 1

    def add(self, difference: float) -> InterimResult:
        """Add a difference and return the result. ValueError for one outside -1 to 1."""
        if not -1 <= difference <= 1:
            raise ValueError(f"differences lie in -1 to 1, not at {difference}")
        x = (difference + 1) / 2
        # The stake is fixed before x is known.
        variance = self._squares / (self._n + 1)
        stake = math.sqrt(2 * self._rich / (self._planned * variance))
        self._n += 1
        self._sum += x
        self._squares += (x - self._sum / (self._n + 1)) ** 2
        off = x - self._m
        self._above += np.log1p(np.minimum(stake, self._most_above) * off)
        self._below += np.log1p(-np.minimum(stake, self._most_below) * off)
        # Excluded candidates are below all others, and stay excluded.
        too_low = int(np.count_nonzero(self._above >= self._rich))
        too_high = int(np.count_nonzero(self._below >= self._rich))
        self._low = max(self._low, too_low - 1)
        self._high = min(self._high, len(CANDIDATES) - too_high)
        low, high = float(CANDIDATES[self._low]), float(CANDIDATES[self._high])
        return InterimResult(self._n, low, high, self._word(low, high))

    def _word(self, low: float, high: float) -> Word | None:
        if low >= 0:
            return "better"
        if high <= 0:
            return "worse"
        if -self._margin <= low and high <= self._margin:
            return "same"
        return "inconclusive" if self._n >= self._planned else None


def confidence_sequence(
    differences: ArrayLike, planned: int, confidence: float = CONFIDENCE
) -> tuple[Array, Array]:
    """Ends (low, high) of the interval after each task, shapes (n,); all hold simultaneously.

    `differences`: second minus first by task, each -1 to 1, repeats averaged; `planned`: the most
    tasks, for which the bets are tuned (any other number is valid and gives wider intervals). For
    each candidate mean, one gambler bets that the next difference is above it and another that it
    is below, at stakes fixed in advance. If the candidate is true, no gambler gains on average, so
    the probability that either ever multiplies the stake 2 / (1 - confidence) times is at most 1 -
    confidence (Ville). Candidates for which a gambler did so are excluded. Source: Waudby-Smith and
    Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86 (2024) 1, the
    hedged capital process. ValueError for no differences, one that is not finite or outside -1 to
    1, or planned < 1.
    """
    d = numbers(differences, "differences")
    if planned < 1 or np.abs(d).max() > 1:
        raise ValueError(f"differences lie in -1 to 1, planned is at least 1 (it is {planned})")
    looks = ConfidenceSequence(planned, confidence=confidence)
    ends = np.array([looks.add(float(each))[1:3] for each in d])
    return ends[:, 0], ends[:, 1]


def look(
    differences: ArrayLike, planned: int, margin: float, confidence: float = CONFIDENCE
) -> InterimResult:
    """Whether to stop after these tasks, and the verdict; may be called any number of times.

    better or worse: the interval excludes 0 (or has it as an end); same: it lies within ± margin;
    inconclusive: none of these after `planned` tasks. Over any number of looks, the false-alarm
    rate for a difference of 0 is at most 1 - confidence. ValueError as `confidence_sequence`, and
    for a margin below 0.
    """
    d = numbers(differences, "differences")
    looks = ConfidenceSequence(planned, margin, confidence)
    for each in d[:-1]:
        looks.add(float(each))
    return looks.add(float(d[-1]))
