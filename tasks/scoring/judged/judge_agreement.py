"""Agreement of a judge with human labels on the same answers.

In: pairs (judge says right, label says right). Out: counts and shares; a share of
none is None. Votes without a verdict are not included; count them separately, as scorer_error.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tutti.tasks.scoring.statistics.intervals import Interval, wilson


class Agreement(NamedTuple):
    """Agreement of a judge with labels."""

    n: int
    agreement: float
    """Share of pairs that agree."""
    agreement_interval: Interval
    """Wilson interval at 95 %."""
    kappa: float | None
    """Cohen's kappa: (agreement - by chance) / (1 - by chance); None if the agreement by chance is
    1."""
    kappa_interval: Interval | None
    """At 95 %: from the interval of the agreement, with chance as observed. So it has a width even
    if all pairs agree; the usual standard error is 0 there, and too small for few pairs."""
    precision: float | None
    """Share of the judge's "right" verdicts that are right by label."""
    recall: float | None
    """Share of answers right by label that the judge calls right."""


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
