"""m&m's figures over many plans, from `plan_figures` in the details of the scores `mnms`.

In: the figures of each task's plans. Out: name, value, and the 95 % interval over tasks where there
is one. An F1 is that of sums: 2 Σ right / (Σ made + Σ gold). ``tool F1`` is the mean over tools of
a tool's F1, of plans that have it; tools that neither a gold plan nor a made one has are left out
(the publisher's program counts them 0; its own data have all 33). Source: RAIVNLab/mnms, and
`tasks/scoring/published/mnms.py` for the labels.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tutti.tasks.scoring.statistics import mean_interval, ratio_of_sums

OF_LABELS = {
    "argument-name F1": "argument_names",
    "argument-value F1": "argument_values",
    "edge F1": "edges",
}
MEANS = {
    "plans right by names": "plan_names",
    "plans right by values": "plan_values",
    "edit distance": "edit_distance",
}
Figures = Mapping[str, Any]


class NamedFigure(NamedTuple):
    """One figure, 0 to 1; its interval's ends are None where it has none."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


def plan_measures(tasks: Sequence[Sequence[Figures]]) -> list[NamedFigure]:
    """Every figure of plans, grouped by task. ValueError for no tasks."""
    plans = [plan for task in tasks for plan in task]
    found = [NamedFigure("tool F1", tool_f1(plans))]
    for name, kind in OF_LABELS.items():
        right, both = _sums(tasks, kind)
        value, low, high, _ = ratio_of_sums([2 * each for each in right], both)
        low, high = (None if x is None else min(1.0, max(0.0, x)) for x in (low, high))
        found.append(NamedFigure(name, value, low, high))
    for name, kind in MEANS.items():
        values = [[float(plan[kind]) for plan in task] for task in tasks]
        found.append(NamedFigure(name, *mean_interval(values)[:3]))
    return found


def tool_f1(plans: Sequence[Figures]) -> float | None:
    """The mean F1 of the tools that occur; None if none does."""
    right, all_made_and_gold = Counter[str](), Counter[str]()
    for plan in plans:
        right.update(plan["right_tools"])
        for side in ("right_tools", "right_tools", "missed_tools", "surplus_tools"):
            all_made_and_gold.update(plan[side])
    if not all_made_and_gold:
        return None
    return sum(2 * right[tool] / n for tool, n in all_made_and_gold.items()) / len(
        all_made_and_gold
    )


def _sums(tasks: Sequence[Sequence[Figures]], kind: str) -> tuple[list[float], list[float]]:
    """By task the labels that are right, and those made and of the gold plan together."""
    right = [float(sum(plan[kind][0] for plan in task)) for task in tasks]
    return right, [float(sum(plan[kind][1] + plan[kind][2] for plan in task)) for task in tasks]
