"""Stored cells compared task by task: sides of `tutti compare` and of gates, pairs of a report.

In: a connection from `storage.connect()` or of `focus`, and `Pair`s of cells or two `Side`s. Out:
one `CellComparison` a pair and metric, those of a metric judged together. Repeats of a task are
averaged first; what counts is the view `counted`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tutti.storage import catalog as cat
from tutti.tasks.scoring.statistics import (
    CONFIDENCE,
    MOST_LOST,
    Comparison,
    Finding,
    Interval,
    Ratio,
    Verdict,
    compare_paired,
    judge,
    minimum_detectable,
    ratio_of_sums,
    simultaneous_confidence,
)
from tutti.tasks.sweeps.results import (
    CellSummary,
    LoadPoint,
    from_interval,
    pooled,
    ratio,
    rows,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

AXES = ("benchmark", "model", "policy", "concurrency")
MARGIN = 0.05
TOO_SHORT = "no interval: a window is too short"
SAMPLES_SQL = """
select task_id, cost_usd, working_s, headline_score as score, is_right::int::double as solved,
       (epoch_us(ended_at) - epoch_us(started_at)) / 1e6 as elapsed_s
from counted where list_contains($cells, cell_id) order by cell_id, task_id, attempt_id
"""
LOST_SQL = "select count(*) as n from lost_samples where list_contains($cells, cell_id)"
# Of a model or policy, the newest sweep that measured it. A cell of an imported log may be in
# `attempts` alone.
NEWEST = """from cells where {axis} = $name and sweep_id = (
    select s.sweep_id from sweeps s join cells c using (sweep_id)
    where c.{axis} = $name and c.cell_id in (select cell_id from attempts)
    order by s.created_at desc limit 1)"""
BOTH = """from cells where {axis} in ($a, $b) and sweep_id = (
    select s.sweep_id from sweeps s join cells c using (sweep_id)
    where c.cell_id in (select cell_id from attempts)
    group by s.sweep_id, s.created_at
    having bool_or(c.{axis} = $a) and bool_or(c.{axis} = $b)
    order by s.created_at desc limit 1)"""
NAMED_SQL = {
    "cell": "from cells where cell_id = $name",
    "cell without a plan": """select cell_id, any_value(sweep_id) as sweep_id, 0 as position,
        any_value(benchmark) as benchmark, any_value(model) as model,
        any_value(policy) as policy, any_value(concurrency) as concurrency
        from attempts where cell_id = $name group by cell_id""",
    "sweep": """from cells where sweep_id = (select sweep_id from sweeps
        where sweep_id = $name or name = $name order by created_at desc limit 1)""",
    "model": NEWEST.format(axis="model"),
    "policy": NEWEST.format(axis="policy"),
}


class Metric(NamedTuple):
    """What of a counted sample is compared."""

    column: str
    """Of `SAMPLES_SQL`."""
    higher_is_better: bool
    relative: Literal["", "sums", "means"] = ""
    """What differences are judged as: empty: themselves; sums: the ratio of the sides' sums less 1,
    which is also the figure; means: shares of the first side's mean, the figure in its own unit."""
    is_partial: bool = False
    """Whether samples of unknown value are left out; else one of them leaves no figure."""


class Figure(StrEnum):
    """What reports compare."""

    SCORE = "score"
    SECONDS = "seconds an attempt"
    COST = "USD an attempt"
    RATE = "steps/min"


METRICS: Mapping[str, Metric] = {
    Figure.SCORE: Metric("score", True),
    "cost_usd": Metric("cost_usd", False, "sums"),
    "working_s": Metric("working_s", False, "sums"),
    Figure.SECONDS: Metric("elapsed_s", False, "means", is_partial=True),
    Figure.COST: Metric("cost_usd", False, "means", is_partial=True),
}
OF_TASKS = (Figure.SCORE, Figure.SECONDS, Figure.COST)


@dataclass(frozen=True)
class Side:
    """Cells under one name."""

    name: str
    kind: str
    """A key of `NAMED_SQL`."""
    cells: tuple[dict[str, Any], ...]

    @classmethod
    def find(cls, connection: "DuckDBPyConnection", name: str) -> "Side | None":
        """The cells of a cell's id, a sweep's id or name, a model or a policy; None for none."""
        for kind, sql in NAMED_SQL.items():
            if found := rows(connection, sql, name=name):
                return cls(name, kind, _ordered(found))
        return None

    @classmethod
    def find_pair(
        cls, connection: "DuckDBPyConnection", a: str, b: str
    ) -> "tuple[Side | None, Side | None]":
        """Both sides; two models, or two policies, of the newest sweep that measured both."""
        first, second = cls.find(connection, a), cls.find(connection, b)
        if first is None or second is None or first.kind != second.kind or first.kind not in AXES:
            return first, second
        cells = rows(connection, BOTH.format(axis=first.kind), a=a, b=b)
        if not cells:
            return first, second
        own = (_ordered([c for c in cells if c[first.kind] == name]) for name in (a, b))
        return cls(a, first.kind, next(own)), cls(b, first.kind, next(own))


@dataclass(frozen=True)
class Pair:
    """Two groups of cells over the same tasks; `b` is judged against `a`."""

    where: str
    """What they share, in words."""
    name_a: str
    cells_a: tuple[str, ...]
    name_b: str
    cells_b: tuple[str, ...]


@dataclass(frozen=True)
class CellComparison(Pair):
    """One metric of one pair. None is "not known", never 0."""

    metric: str
    """A key of `METRICS`, or `Figure.RATE`."""
    n: int = 0
    """Paired tasks; of rates the steps behind them."""
    n_only_a: int = 0
    n_only_b: int = 0
    lost_a: int = 0
    """Samples lost to infrastructure or a scorer that failed: in no score."""
    lost_b: int = 0
    lost_share: float = 0.0
    """Of the side that lost more, the share of its samples."""
    mean_a: float | None = None
    mean_b: float | None = None
    difference: float | None = None
    """Second minus first; of metrics by sums as a share of the first; of rates second / first."""
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    """p, adjusted over all pairs compared together."""
    test: str = ""
    detectable: float | None = None
    """The smallest true difference that as many such tasks find four times in five; None where no
    two tasks differ in it."""
    verdict: str = "inconclusive"
    reason: str = ""

    @property
    def left_out(self) -> int:
        """Tasks tried on one side only."""
        return self.n_only_a + self.n_only_b


class SampledTasks(NamedTuple):
    """What the cells of one set-up came to."""

    rows: tuple[dict[str, Any], ...]
    """One a counted sample, the last attempt of each."""
    lost: int

    def by_task(self, column: str, is_partial: bool = False) -> dict[str, list[float]]:
        """The column's values of each task. If a sample's is unknown it is left out (`is_partial`),
        or there are none: without it, sums are too low."""
        found: dict[str, list[float]] = {}
        for row in self.rows if is_partial or not self.unknown(column) else ():
            if row[column] is not None:
                found.setdefault(row["task_id"], []).append(float(row[column]))
        return found

    def unknown(self, column: str) -> int:
        """Number of samples whose value is unknown."""
        return sum(row[column] is None for row in self.rows)


def sampled(connection: "DuckDBPyConnection", cells: Sequence[str]) -> SampledTasks:
    """The counted samples of some cells, repeats of a set-up together."""
    found = rows(connection, SAMPLES_SQL, cells=list(cells))
    lost = rows(connection, LOST_SQL, cells=list(cells))
    return SampledTasks(tuple(found), int(lost[0]["n"]))


def compare_sides(
    connection: "DuckDBPyConnection",
    first: Side,
    second: Side,
    metric: str = Figure.SCORE,
    margin: float = MARGIN,
) -> list[CellComparison]:
    """One row a set-up that both have, in the order of the first's cells; empty for none.

    `margin` is in the score's own unit, and a share for costs and seconds. KeyError for a metric
    that is not in `METRICS`, ValueError for a margin below 0.
    """
    of_a, of_b = set_ups(first.cells, second.cells)
    pairs = [
        Pair(
            _where(key, first, second), first.name, tuple(of_a[key]), second.name, tuple(of_b[key])
        )
        for key in of_a
        if key in of_b
    ]
    return _judged(_paired(_sides(connection, pairs), pairs, metric), metric, margin)


def compare_pairs(
    connection: "DuckDBPyConnection", pairs: Sequence[Pair], metrics: Sequence[str] = OF_TASKS
) -> list[CellComparison]:
    """Every metric of every pair that has tasks tried on both sides, metric by metric.

    Models without a price cost nothing on either side, which is no finding.
    """
    found, sides = [], _sides(connection, pairs)
    for metric in metrics:
        paired = [each for each in _paired(sides, pairs, metric) if each.a]
        values = (value for each in paired for group in (*each.a, *each.b) for value in group)
        if not METRICS[metric].relative or any(values):
            found += _judged(paired, metric, MARGIN)
    return found


def compare_rates(pairs: Sequence[Pair], cells: Sequence[CellSummary]) -> list[CellComparison]:
    """Steps per minute of each pair as a ratio with its interval; pairs without rates are left out.

    Rates of two runs share no tasks' luck worth pairing: their intervals are taken as independent.
    """
    by_id = {cell.cell_id: cell for cell in cells}
    found = []
    for pair in pairs:
        a, b = (pooled(tuple(by_id[c] for c in side)) for side in (pair.cells_a, pair.cells_b))
        if a.rate and b.rate:
            found.append((pair, a, b, b.rate / a.rate, _ratio(a, b)))
    at = simultaneous_confidence(max(1, len(found)))
    findings = []
    for *_, times, interval in found:
        p, wide = from_interval(times, interval, at) if interval else (None, None)
        findings.append(Finding(times - 1, less_one(interval), less_one(wide), p))
    return [
        CellComparison(
            **vars(pair),
            metric=Figure.RATE,
            n=a.steps + b.steps,
            mean_a=a.rate,
            mean_b=b.rate,
            difference=times,
            ci_low=interval[0] if interval else None,
            ci_high=interval[1] if interval else None,
            p_holm=verdict.p_holm,
            verdict=verdict.word,
            reason=verdict.reason if interval else TOO_SHORT,
        )
        for (pair, a, b, times, interval), verdict in zip(
            found, judge(findings, MARGIN), strict=True
        )
    ]


def _ratio(a: LoadPoint, b: LoadPoint) -> Interval | None:
    if not (a.rate and b.rate and a.rate_interval and b.rate_interval):
        return None
    interval = ratio(b.rate, b.rate_interval, a.rate, a.rate_interval)
    return interval if interval and interval[0] > 0 else None


Key = tuple[tuple[str, Any], ...]
"""Axis and value, of the axes that must match."""


def set_ups(
    of_a: Sequence[Mapping[str, Any]],
    of_b: Sequence[Mapping[str, Any]],
    comparable: Sequence[str] = AXES[1:],
) -> tuple[dict[Key, list[str]], dict[Key, list[str]]]:
    """Each side's cell ids by what must match; measurements of the noise floor are left out.

    An axis of `comparable` on which each side has one value, another one, is what is compared.
    """
    sides = _pooled(of_a), _pooled(of_b)
    values = {axis: [{cell[axis] for cell in side} for side in sides] for axis in comparable}
    compared = [axis for axis, (a, b) in values.items() if len(a) == len(b) == 1 and a != b]
    found: tuple[dict[Key, list[str]], dict[Key, list[str]]] = ({}, {})
    for cells, by_key in zip(sides, found, strict=True):
        for cell in cells:
            key = tuple((axis, cell[axis]) for axis in AXES if axis not in compared)
            by_key.setdefault(key, []).append(cell["cell_id"])
    return found


def _ordered(cells: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(sorted(cells, key=lambda each: each["position"]))


def _pooled(cells: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Without superseded cells and A/A cells, which repeat one with its seeds (`repeat` -1).

    A side of nothing else is what was asked for, and stays.
    """
    kept = [
        cell
        for cell in cells
        if (cell.get("repeat") or 0) >= 0 and cell.get("status") != cat.SUPERSEDED
    ]
    return kept or cells


class _Paired(NamedTuple):
    """The values of one pair's common tasks, a task's samples together."""

    pair: Pair
    a: list[list[float]]
    b: list[list[float]]
    unit: float
    """What the values were divided by."""
    only: tuple[int, int]
    lost: tuple[int, int]
    lost_share: float
    unknown: int
    """Samples of both sides whose value is unknown."""


Sides = Mapping[tuple[str, ...], SampledTasks]
"""By their cells."""


def _sides(connection: "DuckDBPyConnection", pairs: Sequence[Pair]) -> Sides:
    """What the cells of each side came to, read once for all pairs and metrics."""
    sides = dict.fromkeys(side for pair in pairs for side in (pair.cells_a, pair.cells_b))
    return {side: sampled(connection, side) for side in sides}


def _paired(sides: Sides, pairs: Sequence[Pair], metric: str) -> list[_Paired]:
    return [
        _pair_up(pair, sides[pair.cells_a], sides[pair.cells_b], METRICS[metric]) for pair in pairs
    ]


def _pair_up(pair: Pair, first: SampledTasks, second: SampledTasks, metric: Metric) -> _Paired:
    column, lost = metric.column, (first.lost, second.lost)
    share = max(s.lost / max(1, s.lost + len(s.rows)) for s in (first, second))
    unknown = 0 if metric.is_partial else first.unknown(column) + second.unknown(column)
    if unknown:
        return _Paired(pair, [], [], 1.0, (0, 0), lost, share, unknown)
    a, b = (side.by_task(column, metric.is_partial) for side in (first, second))
    tasks = sorted(a.keys() & b.keys())
    groups, unit = ([a[task] for task in tasks], [b[task] for task in tasks]), 1.0
    if metric.relative == "means" and tasks:
        means = [[fmean(group) for group in side] for side in groups]
        unit = abs(fmean(means[0])) or 1.0
        groups = ([[mean / unit] for mean in means[0]], [[mean / unit] for mean in means[1]])
    only = len(a) - len(tasks), len(b) - len(tasks)
    return _Paired(pair, *groups, unit, only, lost, share, 0)


def _judged(paired: Sequence[_Paired], metric: str, margin: float) -> list[CellComparison]:
    wide = simultaneous_confidence(max(1, len(paired)))
    measured = [_measured(each, METRICS[metric].relative == "sums", wide) for each in paired]
    better = METRICS[metric].higher_is_better
    verdicts = judge([finding for _, finding in measured], margin, better)
    return [
        _row(metric, each, *of_each, verdict)
        for each, of_each, verdict in zip(paired, measured, verdicts, strict=True)
    ]


def _measured(paired: _Paired, by_sums: bool, wide: float) -> tuple[Comparison | None, Finding]:
    if not paired.a:
        return None, Finding(0.0, None, None, None)
    groups = paired.a, paired.b
    found, wider = compare_paired(*groups), compare_paired(*groups, confidence=wide)
    if not by_sums:
        both = _both(found.low, found.high), _both(wider.low, wider.high)
        return found, Finding(found.difference, *both, found.p)
    below, above = ([sum(group) / len(group) for group in side] for side in groups)
    if sum(below) == 0:  # a share of nothing is none
        return found, Finding(0.0, None, None, found.p)
    ratio, wide_ratio = (ratio_of_sums(above, below, confidence=c) for c in (CONFIDENCE, wide))
    assert ratio.value is not None, "the first side's sum is not 0"
    return found, Finding(ratio.value - 1, _change(ratio), _change(wide_ratio), found.p)


def _row(
    metric: str, paired: _Paired, found: Comparison | None, finding: Finding, verdict: Verdict
) -> CellComparison:
    row = CellComparison(
        **vars(paired.pair),
        metric=metric,
        n_only_a=paired.only[0],
        n_only_b=paired.only[1],
        lost_a=paired.lost[0],
        lost_b=paired.lost[1],
        lost_share=paired.lost_share,
        p=finding.p,
        p_holm=verdict.p_holm,
        verdict=verdict.word,
        reason=verdict.reason,
    )
    if found is not None:
        unit, detectable = paired.unit, None
        if found.se:
            scale = found.first if METRICS[metric].relative == "sums" and found.first else 1.0
            detectable = minimum_detectable(found.n, found.se * sqrt(found.n) / abs(scale))
        row = replace(
            row,
            n=found.n,
            mean_a=found.first * unit,
            mean_b=found.second * unit,
            difference=finding.difference * unit,
            ci_low=finding.interval and finding.interval[0] * unit,
            ci_high=finding.interval and finding.interval[1] * unit,
            test=found.test,
            detectable=detectable,
        )
    elif paired.unknown:
        row = replace(row, reason=unknown_words(METRICS[metric].column, paired.unknown))
    else:
        row = replace(row, reason="no task has a counted attempt on both sides")
    if paired.lost_share <= MOST_LOST:
        return row
    lost = f"{paired.lost_share:.0%} of a side's samples were lost to infrastructure or a scorer"
    return replace(row, verdict="inconclusive", reason=lost)


def unknown_words(column: str, samples: int) -> str:
    """Why a figure is unknown: so many samples lack its column."""
    return f"{column} of {samples} counted samples is unknown"


def named(key: Key) -> str:
    """A set-up in words: ``stdlib, pocket, cap, 8 at once``."""
    return ", ".join(
        f"{value} at once" if axis == "concurrency" else str(value)
        for axis, value in key
        if value is not None
    )


def _where(key: Key, first: Side, second: Side) -> str:
    shared = [named(key)] if any(value is not None for _, value in key) else []
    told = {axis for axis, _ in key}
    compared = [
        f"{axis} {first.cells[0][axis]} -> {second.cells[0][axis]}"
        for axis in AXES
        if axis not in told
    ]
    return ", ".join([*shared, *compared])


def _change(ratio: Ratio) -> Interval | None:
    return less_one(_both(ratio.low, ratio.high))


def less_one(interval: Interval | None) -> Interval | None:
    """A ratio's interval as that of a change."""
    return interval and (interval[0] - 1, interval[1] - 1)


def _both(low: float | None, high: float | None) -> Interval | None:
    return None if low is None or high is None else (low, high)
