"""Metrics that a benchmark reports beside its headline score (`Headline`), from stored scores.

In: a connection of `focus`. Out: `NamedMetric` rows by cell: SimpleQA's F1 and its shares from
judges' verdicts (``attempted``), HLE's two errors (``calibration``), m&m's figures (``plans``), and
mean ratings of named criteria. An attempt whose newest score lacks the field is left out and
counted. An F1 of plans is 2 Σ right / (Σ made + Σ gold); ``tool F1`` is the mean over the tools
that occur (the publisher's program, RAIVNLab/mnms, counts others 0; its own data have all 33).
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from tutti.tasks.scoring.metrics import calibration_error, f1_of_attempted, right_of_attempted
from tutti.tasks.scoring.statistics import Ratio, mean_interval, ratio_of_sums
from tutti.tasks.sweeps.results import by_key, rows_by

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
    """One figure, 0 to 1; its interval's ends are None without an interval."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


def plan_measures(tasks: Sequence[Sequence[Figures]]) -> list[NamedFigure]:
    """Return every figure of plans, grouped by task. ValueError for no tasks."""
    measures = [NamedFigure("tool F1", tool_f1([plan for task in tasks for plan in task]))]
    for name, kind in OF_LABELS.items():
        # By task twice the right labels, and those made and of the gold plan together.
        right = [2.0 * sum(plan[kind][0] for plan in task) for task in tasks]
        every = [float(sum(plan[kind][1] + plan[kind][2] for plan in task)) for task in tasks]
        measures.append(_within(name, ratio_of_sums(right, every)))
    for name, kind in MEANS.items():
        values = [[float(plan[kind]) for plan in task] for task in tasks]
        measures.append(NamedFigure(name, *mean_interval(values)[:3]))
    return measures


def tool_f1(plans: Sequence[Figures]) -> float | None:
    """Return the mean F1 of the tools that occur; None if none does."""
    right, every = Counter[str](), Counter[str]()
    for plan in plans:
        right.update(plan["right_tools"])
        for side in ("right_tools", "right_tools", "missed_tools", "surplus_tools"):
            every.update(plan[side])
    return fmean(2 * right[tool] / n for tool, n in every.items()) if every else None


def _within(name: str, ratio: Ratio) -> NamedFigure:
    low, high = (None if x is None else min(1.0, max(0.0, x)) for x in (ratio.low, ratio.high))
    return NamedFigure(name, ratio.value, low, high)


ATTEMPTED, CALIBRATION, PLANS = "attempted", "calibration", "plans"
NOT_ATTEMPTED = "not_attempted"
MOST_CONFIDENT = 100.0
ROWS_SQL = """
with declared as (
    select cell_id, from_json(detail -> '$.headline.metrics', '["varchar"]') as metrics,
           from_json(detail -> '$.headline.parts', '["varchar"]') as parts
    from cells join artifacts on artifact_id = task_set_id
    where coalesce(detail -> '$.headline.metrics', detail -> '$.headline.parts') is not null
),
newest as (
    select attempt_id, arg_max({'verdict': verdict, 'confidence': confidence,
                                 'criteria': criteria, 'ratings': ratings, 'ranges': ranges,
                                 'plan_figures': plan_figures},
                               scored_at) as read
    from scores where correct is not null group by attempt_id
)
select cell_id, task_id, is_right,
       any_value(metrics) over (partition by cell_id) as metrics,
       any_value(parts) over (partition by cell_id) as parts,
       read.verdict as verdict, read.confidence as confidence, read.criteria as criteria,
       read.ratings as ratings, read.ranges as ranges, read.plan_figures as plan_figures
from counted join declared using (cell_id) left join newest using (attempt_id)
order by cell_id, task_id, attempt_id
"""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class NamedMetric:
    cell_id: str
    name: str
    value: float | None
    """None where it is not defined for so few answers."""
    low: float | None
    """Ends of the 95 % interval over tasks; None where there is none."""
    high: float | None
    n: int
    left_out: int
    """Counted attempts whose score lacks the field."""
    is_share: bool


def named_metrics(focused: "DuckDBPyConnection") -> list[NamedMetric]:
    """Metrics by cell, in the order of the declaration; empty where nothing is declared."""
    return [
        metric
        for cell_id, some in rows_by(focused, "cell_id", ROWS_SQL).items()
        for metric in _of_cell(cell_id, some)
    ]


def _of_cell(cell_id: str, some: Sequence[Row]) -> list[NamedMetric]:
    measures = []
    for name in some[0]["metrics"] or []:
        column, measure = METRICS.get(name, (None, None))
        known = [row for row in some if column and row[column] is not None]
        if measure and known:
            counts = (len(known), len(some) - len(known), True)
            measures += [NamedMetric(cell_id, *each, *counts) for each in measure(known)]
    for part in some[0]["parts"] or []:
        measures += _part(cell_id, part, some)
    return measures


def _attempted(known: Sequence[Row]) -> list[NamedFigure]:
    tasks = by_key(known, "task_id").values()
    silent = [[float(row["verdict"] == NOT_ATTEMPTED) for row in task] for task in tasks]
    counts = [
        (sum(row["is_right"] for row in task), len(task) - int(sum(own)), len(task))
        for task, own in zip(tasks, silent, strict=True)
    ]
    return [
        _within("F1", f1_of_attempted(counts)),
        _within("right of attempted", right_of_attempted(counts)),
        NamedFigure("not attempted", *mean_interval(silent)[:3]),
    ]


def _calibration(known: Sequence[Row]) -> list[NamedFigure]:
    stated = [min(MOST_CONFIDENT, max(0.0, row["confidence"])) / MOST_CONFIDENT for row in known]
    error = calibration_error(stated, [row["is_right"] for row in known])
    return [
        NamedFigure("calibration error, official", error.official),
        NamedFigure("calibration error, whole", error.whole),
    ]


def _plans(known: Sequence[Row]) -> list[NamedFigure]:
    tasks = by_key(known, "task_id").values()
    return plan_measures([[json.loads(row["plan_figures"]) for row in task] for task in tasks])


METRICS: Mapping[str, tuple[str, Callable[[Sequence[Row]], list[NamedFigure]]]] = {
    ATTEMPTED: ("verdict", _attempted),
    CALIBRATION: ("confidence", _calibration),
    PLANS: ("plan_figures", _plans),
}
"""The column that an attempt must have, and the figures of those that have it."""


def _part(cell_id: str, part: str, some: Sequence[Row]) -> list[NamedMetric]:
    """The mean rating of the criterion whose text begins with the part's name, taken as a place in
    its range, so that the interval stays in it."""
    groups: dict[str, list[float]] = {}
    low, high = 0.0, 1.0
    for row in some:
        listed = zip(row["criteria"] or (), row["ratings"] or (), row["ranges"] or (), strict=False)
        rated = (each for each in listed if each[0].partition(":")[0] == part)
        for _, rating, ends in islice(rated, 1):
            low, high = (float(end) for end in ends.strip("[]").split(","))
            groups.setdefault(row["task_id"], []).append((float(rating) - low) / (high - low))
    if not groups:
        return []
    known = mean_interval(list(groups.values()))[:3]
    value, least, most = (None if x is None else low + x * (high - low) for x in known)
    n = sum(map(len, groups.values()))
    return [NamedMetric(cell_id, part, value, least, most, n, len(some) - n, False)]
