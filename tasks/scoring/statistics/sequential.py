"""Looking after every task without raising the false alarms: a confidence sequence by betting.

In: differences by task, in the order they came. Out: an interval after each, all of which hold at
once, so that one may stop at any of them. Nothing is assumed but that scores lie in 0 to 1 and that
tasks come in random order.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tasks.scoring.statistics.intervals import CONFIDENCE
from tasks.scoring.statistics.sample import Array, numbers
from tasks.scoring.statistics.verdicts import Word

STEPS = 200  # of a difference of 1: ends are rounded outwards to half a hundredth
BET_AT_MOST = 0.5  # of what is left, on each side, so that no task can lose it all


class Look(NamedTuple):
    """What can be said after some of the tasks."""

    n: int
    low: float
    """Ends of the interval after `n` tasks; they hold at every look together."""
    high: float
    verdict: Word | None
    """None: go on."""


def confidence_sequence(
    differences: ArrayLike, planned: int, confidence: float = CONFIDENCE
) -> tuple[Array, Array]:
    """Ends (low, high) of the interval after each task, shapes (n,); all hold together.

    `differences`: second minus first by task, each -1 to 1, repeats averaged; `planned`: tasks at
    most, for which the bets are tuned (any other number stays valid, and is wider).
    For each candidate mean a gambler bets on the next difference being above it, another on below,
    at stakes known before it. Were the candidate true no gambler gains on average, so that the
    chance of either ever multiplying the stake 2 / (1 - confidence) times is at most
    1 - confidence (Ville). Candidates that made a gambler that rich are out.
    Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS
    B 86 (2024) 1, the hedged capital process. ValueError for no differences, one not finite or
    outside -1 to 1, or planned < 1.
    """
    d = numbers(differences, "differences")
    if planned < 1 or np.abs(d).max() > 1:
        raise ValueError(f"differences lie in -1 to 1, planned is at least 1 (it is {planned})")
    x = (d + 1) / 2  # the formulas are for 0 to 1
    stakes = _stakes(x, planned, 1 - confidence)
    candidates = np.arange(-STEPS, STEPS + 1) / STEPS
    m = ((candidates + 1) / 2)[:, None]
    with np.errstate(divide="ignore"):
        above = np.minimum(stakes, BET_AT_MOST / m)
        below = np.minimum(stakes, BET_AT_MOST / (1 - m))
    rich = math.log(2 / (1 - confidence))
    off = x - m
    too_low = np.logical_or.accumulate(np.cumsum(np.log1p(above * off), axis=1) >= rich, axis=1)
    too_high = np.logical_or.accumulate(np.cumsum(np.log1p(-below * off), axis=1) >= rich, axis=1)
    # Those that are too low are all below those that are not: the first column's worth of False.
    low = candidates[np.maximum(too_low.sum(axis=0) - 1, 0)]
    high = candidates[np.minimum(len(candidates) - too_high.sum(axis=0), len(candidates) - 1)]
    return low, high


def look(
    differences: ArrayLike, planned: int, margin: float, confidence: float = CONFIDENCE
) -> Look:
    """Whether to stop after these tasks, and with which verdict; ask as often as wanted.

    better or worse: the interval excludes 0 (0 itself at its end does); same: it lies within
    ± margin; at `planned` tasks without either: inconclusive. Over any number of looks a difference
    of nothing is called one with chance 1 - confidence at most. ValueError as
    `confidence_sequence`, and for a margin below 0.
    """
    if not margin >= 0:
        raise ValueError(f"the margin is 0 or more, not {margin}")
    lows, highs = confidence_sequence(differences, planned, confidence)
    low, high, n = float(lows[-1]), float(highs[-1]), len(lows)
    word: Word | None = None
    if low >= 0:
        word = "better"
    elif high <= 0:
        word = "worse"
    elif -margin <= low and high <= margin:
        word = "same"
    elif n >= planned:
        word = "inconclusive"
    return Look(n, low, high, word)


def _stakes(x: Array, planned: int, alpha: float) -> Array:
    """The share bet on each value, from those before it alone."""
    count = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (count + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    found: Array = np.sqrt(2 * math.log(2 / alpha) / (planned * before))
    return found
