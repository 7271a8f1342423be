"""How far a judge agrees with labels made by people, on the same answers.

In: pairs (judge says right, label says right). Out: counts and shares; a share over nothing is
None. Votes without a verdict do not belong here: count them beside it, as scorer_error.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tutti.tasks.scoring.statistics.intervals import Interval, wilson


class Agreement(NamedTuple):
    """A judge against labels."""

    n: int
    agreement: float
    """Share of pairs alike."""
    agreement_interval: Interval
    """At 95 %, by Wilson."""
    kappa: float | None
    """Cohen's: (agreement - by chance) / (1 - by chance); None where chance alone would agree."""
    kappa_interval: Interval | None
    """At 95 %: of the agreement's interval, with chance as it was found. So it stays an interval
    where all pairs are alike; the usual standard error is 0 there, and too small for few pairs."""
    precision: float | None
    """Of what the judge calls right, the share that is."""
    recall: float | None
    """Of what is right, the share that the judge calls so."""


def agreement(pairs: Sequence[tuple[bool, bool]]) -> Agreement:
    """Agreement of judge and labels. ValueError for no pairs.

    Source: Cohen, "A coefficient of agreement for nominal scales", 1960.
    """
    n = len(pairs)
    if n == 0:
        raise ValueError("no pairs")
    both = sum(judge and label for judge, label in pairs)
    by_judge, by_label = (sum(pair[side] for pair in pairs) for side in (0, 1))
    alike = sum(judge == label for judge, label in pairs) / n
    chance = (by_judge * by_label + (n - by_judge) * (n - by_label)) / n**2
    interval = wilson(round(alike * n), n)
    assert interval is not None, "there are pairs"

    def kappa(share: float) -> float:
        return (share - chance) / (1 - chance)

    return Agreement(
        n,
        alike,
        interval,
        kappa(alike) if chance < 1 else None,
        (kappa(interval[0]), kappa(interval[1])) if chance < 1 else None,
        both / by_judge if by_judge else None,
        both / by_label if by_label else None,
    )
