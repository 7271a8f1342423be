"""Four verdicts over many comparisons: better, worse, same within a margin, inconclusive."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tutti.tasks.scoring.statistics.intervals import CONFIDENCE, Interval

Word = Literal["better", "worse", "same", "inconclusive"]
MOST_LOST = 0.1
"""The share of unscored samples above which a side's scores support no verdict."""


class Finding(NamedTuple):
    """A difference to be judged: second minus first, or any figure that is 0 under no effect."""

    difference: float
    interval: Interval | None
    """At `CONFIDENCE`."""
    simultaneous: Interval | None
    """At 1 - (1 - `CONFIDENCE`) / comparisons: decides `same` for several comparisons at once."""
    p: float | None


class Verdict(NamedTuple):
    """One word and its reason."""

    word: Word
    reason: str
    p_holm: float | None
    """p, adjusted over all comparisons judged together."""


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p of each comparison; controls the family-wise error rate.

    The i-th smallest of m is multiplied by m - i + 1, and is no smaller than those before it. None
    (no test available) stays None and does not count in m. Source: Holm, "A simple sequentially
    rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979) 65. ValueError
    for p outside 0 to 1 or not a number.
    """
    there = [(place, p) for place, p in enumerate(ps) if p is not None]
    if any(not 0 <= p <= 1 for _, p in there):
        raise ValueError(f"p is between 0 and 1: {[p for _, p in there]}")
    adjusted: list[float | None] = [None] * len(ps)
    most = 0.0
    for rank, (place, p) in enumerate(sorted(there, key=lambda each: each[1])):
        most = max(most, min(1.0, (len(there) - rank) * p))
        adjusted[place] = most
    return adjusted


def simultaneous_confidence(comparisons: int) -> float:
    """The confidence level that each interval needs for all to hold at `CONFIDENCE`
    (Bonferroni)."""
    if comparisons < 1:
        raise ValueError("no comparisons")
    return 1 - (1 - CONFIDENCE) / comparisons


def judge(
    findings: Sequence[Finding], margin: float, higher_is_better: bool = True
) -> list[Verdict]:
    """A verdict for each, in order; all are taken as one family.

    - better, worse: the interval excludes 0 and Holm's p is below 1 - `CONFIDENCE`;
    - same: the simultaneous interval lies within ± `margin`. Its two ends are the two one-sided
      tests of Schuirmann (1987), each at half of what 1 - `CONFIDENCE` leaves a comparison;
    - inconclusive: the rest. A significant difference is named even if it is within the margin.
    ValueError for a margin below 0.
    """
    if not margin >= 0:
        raise ValueError(f"the margin is 0 or more, not {margin}")
    adjusted = holm([found.p for found in findings])
    family = sum(found.p is not None for found in findings)
    return [
        _judged(found, p, margin, 1 if higher_is_better else -1, family)
        for found, p in zip(findings, adjusted, strict=True)
    ]


def _judged(found: Finding, p: float | None, margin: float, good: int, family: int) -> Verdict:
    """`p` is adjusted over `family` comparisons; `good` is the sign of a better difference."""
    if found.interval is None or p is None:
        return Verdict("inconclusive", "too few tasks for an interval", p)
    low, high = found.interval
    excludes = low > 0 or high < 0
    if excludes and p < 1 - CONFIDENCE:
        word: Word = "better" if found.difference * good > 0 else "worse"
        return Verdict(word, f"the interval excludes 0 and Holm's p is {p:.2g}", p)
    wide = found.simultaneous
    if wide is not None and -margin <= wide[0] and wide[1] <= margin:
        return Verdict("same", f"the interval lies within ±{margin:g}", p)
    if excludes:
        reason = (
            f"the interval of this one comparison excludes 0, but over all {family} compared "
            f"together p is {p:.2g} (Holm)"
        )
        return Verdict("inconclusive", reason, p)
    return Verdict("inconclusive", f"the interval holds 0 and reaches beyond ±{margin:g}", p)
