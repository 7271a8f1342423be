"""Stored cells compared task by task: sides of `tutti compare` and of gates, pairs of a report.

In: a connection from `storage.connect()` or of `focus`, and `Pair`s of cells or two `Side`s. Out:
one `CellComparison` per pair and metric; those of a metric are corrected together. Repeats of a
task are averaged first; the view `counted` defines which samples count.
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
    Finding,
    Interval,
    compare_paired,
    judge,
    minimum_detectable,
    ratio_of_sums,
    simultaneous_confidence,
)
from tutti.tasks.sweeps.results import CellSummary, both, from_interval, pooled, ratio, rows

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
    """A compared figure of counted samples."""

    column: str
    higher_is_better: bool
    relative: Literal["", "sums", "means"] = ""
    """How differences are judged: empty: as they are; sums: as the ratio of the sides' sums less 1,
    which is also the figure; means: shares of the first side's mean, the figure in its own unit."""
    is_partial: bool = False
    """Whether samples of unknown value are left out; else one of them leaves no figure."""


class Figure(StrEnum):
    """The figures that reports compare."""

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
    cells: tuple[dict[str, Any], ...]

    @classmethod
    def find(cls, connection: "DuckDBPyConnection", name: str) -> "Side | None":
        """The cells of a cell's id, a sweep's id or name, a model or a policy; None for none."""
        for kind, sql in NAMED_SQL.items():
            if found := rows(connection, f"{sql} order by position", name=name):
                return cls(name, kind, tuple(found))
        return None

    @classmethod
    def find_pair(
        cls, connection: "DuckDBPyConnection", a: str, b: str
    ) -> "tuple[Side | None, Side | None]":
        """Find both sides; two models, or two policies, in the newest sweep that measured both."""
        first, second = cls.find(connection, a), cls.find(connection, b)
        if first is None or second is None or first.kind != second.kind or first.kind not in AXES:
            return first, second
        kind = first.kind
        cells = rows(connection, f"{BOTH.format(axis=kind)} order by position", a=a, b=b)
        if not cells:
            return first, second
        own_a, own_b = (tuple(cell for cell in cells if cell[kind] == name) for name in (a, b))
        return cls(a, kind, own_a), cls(b, kind, own_b)


@dataclass(frozen=True)
class Pair:
    """Two groups of cells over the same tasks; `a` is the baseline of `b`."""

    where: str
    name_a: str
    cells_a: tuple[str, ...]
    name_b: str
    cells_b: tuple[str, ...]


@dataclass(frozen=True)
class CellComparison(Pair):
    """One metric of one pair. None means unknown, never 0."""

    metric: str
    n: int = 0
    """Paired tasks; of rates the steps behind them."""
    n_only_a: int = 0
    n_only_b: int = 0
    lost_a: int = 0
    """Samples lost to infrastructure or a scorer that failed: in no score."""
    lost_b: int = 0
    lost_share: float = 0.0
    """The larger of both sides' shares of lost samples."""
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
    """The samples of the cells of one set-up."""

    rows: tuple[dict[str, Any], ...]
    """One a counted sample, the last attempt of each."""
    lost: int

    def by_task(self, column: str, is_partial: bool = False) -> dict[str, list[float]]:
        """Return the column's values of each task. A sample with an unknown value is left out
        (`is_partial`), or else there are no values, because sums would be too low."""
        values: dict[str, list[float]] = {}
        for row in self.rows if is_partial or not self.unknown(column) else ():
            if row[column] is not None:
                values.setdefault(row["task_id"], []).append(float(row[column]))
        return values

    def unknown(self, column: str) -> int:
        return sum(row[column] is None for row in self.rows)


def sampled(connection: "DuckDBPyConnection", cells: Sequence[str]) -> SampledTasks:
    """Return the counted samples of some cells, repeats of a set-up together."""
    counted = rows(connection, SAMPLES_SQL, cells=list(cells))
    lost = rows(connection, LOST_SQL, cells=list(cells))
    return SampledTasks(tuple(counted), int(lost[0]["n"]))


def compare_sides(
    connection: "DuckDBPyConnection",
    first: Side,
    second: Side,
    metric: str = Figure.SCORE,
    margin: float = MARGIN,
) -> list[CellComparison]:
    """Return one row per set-up that both have, in the order of the first's cells; empty for none.

    `margin` is in the score's own unit, and a share for costs and seconds. KeyError for a metric
    that is not in `METRICS`, ValueError for a margin below 0.
    """
    of_a, of_b = set_ups(first.cells, second.cells)
    pairs = []
    for key, cells in of_a.items():
        if key in of_b:
            compared = [axis for axis in AXES if axis not in dict(key)]
            a, b = first.cells[0], second.cells[0]
            changes = [f"{axis} {a[axis]} -> {b[axis]}" for axis in compared]
            where = ", ".join(filter(None, [named(key), *changes]))
            pairs.append(Pair(where, first.name, tuple(cells), second.name, tuple(of_b[key])))
    sides = _sides(connection, pairs)
    return _judged([_pair_up(pair, sides, metric) for pair in pairs], metric, margin)


def compare_pairs(
    connection: "DuckDBPyConnection", pairs: Sequence[Pair], metrics: Sequence[str] = OF_TASKS
) -> list[CellComparison]:
    """Compare every metric of every pair that has tasks tried on both sides, metric by metric.

    If neither side's model has a price, costs of 0 on both are not compared.
    """
    compared, sides = [], _sides(connection, pairs)
    for metric in metrics:
        paired = [each for pair in pairs if (each := _pair_up(pair, sides, metric)).a]
        values = (value for each in paired for group in (*each.a, *each.b) for value in group)
        if not METRICS[metric].relative or any(values):
            compared += _judged(paired, metric, MARGIN)
    return compared


def compare_rates(pairs: Sequence[Pair], cells: Sequence[CellSummary]) -> list[CellComparison]:
    """Compare steps per minute of each pair as a ratio with its interval; omit pairs without rates.

    Their intervals are taken as independent: pairing by task would not reduce the variance.
    """
    by_id = {cell.cell_id: cell for cell in cells}
    compared: list[tuple[CellComparison, float, Interval | None]] = []
    for pair in pairs:
        a, b = (pooled(tuple(by_id[c] for c in side)) for side in (pair.cells_a, pair.cells_b))
        if a.rate and b.rate:
            times, interval = b.rate / a.rate, None
            if a.rate_interval and b.rate_interval:
                interval = ratio(b.rate, b.rate_interval, a.rate, a.rate_interval)
            row = CellComparison(**vars(pair), metric=Figure.RATE, n=a.steps + b.steps)
            row = replace(row, mean_a=a.rate, mean_b=b.rate, difference=times, reason=TOO_SHORT)
            compared.append((row, times, interval if interval and interval[0] > 0 else None))
    at = simultaneous_confidence(max(1, len(compared)))
    findings = []
    for _, times, interval in compared:
        p, wide = from_interval(times, interval, at) if interval else (None, None)
        findings.append(Finding(times - 1, less_one(interval), less_one(wide), p))
    verdicts = judge(findings, MARGIN)
    judged = []
    for (row, _, interval), verdict in zip(compared, verdicts, strict=True):
        if interval is not None:
            row = replace(row, ci_low=interval[0], ci_high=interval[1], reason=verdict.reason)
        judged.append(replace(row, p_holm=verdict.p_holm, verdict=verdict.word))
    return judged


Key = tuple[tuple[str, Any], ...]


def set_ups(
    of_a: Sequence[Mapping[str, Any]],
    of_b: Sequence[Mapping[str, Any]],
    comparable: Sequence[str] = AXES[1:],
) -> tuple[dict[Key, list[str]], dict[Key, list[str]]]:
    """Each side's cell ids by the axes that must match, without measurements of the noise floor.

    The compared axis of `comparable` has a single, different value on each side.
    """
    sides = _pooled(of_a), _pooled(of_b)
    values = {axis: [{cell[axis] for cell in side} for side in sides] for axis in comparable}
    compared = [axis for axis, (a, b) in values.items() if len(a) == len(b) == 1 and a != b]
    by_key: tuple[dict[Key, list[str]], dict[Key, list[str]]] = ({}, {})
    for cells, own in zip(sides, by_key, strict=True):
        for cell in cells:
            key = tuple((axis, cell[axis]) for axis in AXES if axis not in compared)
            own.setdefault(key, []).append(cell["cell_id"])
    return by_key


def _pooled(cells: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the cells without superseded cells and A/A cells (`repeat` -1); all cells if there are
    no others."""
    current = [cell for cell in cells if cell.get("status") != cat.SUPERSEDED]
    return [cell for cell in current if (cell.get("repeat") or 0) >= 0] or cells


class _Paired(NamedTuple):
    row: CellComparison
    """Without figures; its reason is why there are none."""
    a: list[list[float]]
    b: list[list[float]]
    unit: float = 1.0


Sides = Mapping[tuple[str, ...], SampledTasks]


def _sides(connection: "DuckDBPyConnection", pairs: Sequence[Pair]) -> Sides:
    sides = dict.fromkeys(side for pair in pairs for side in (pair.cells_a, pair.cells_b))
    return {side: sampled(connection, side) for side in sides}


def _pair_up(pair: Pair, sides: Sides, name: str) -> _Paired:
    first, second = pair_sides = sides[pair.cells_a], sides[pair.cells_b]
    metric = METRICS[name]
    row = CellComparison(
        **vars(pair),
        metric=name,
        lost_a=first.lost,
        lost_b=second.lost,
        lost_share=max(s.lost / max(1, s.lost + len(s.rows)) for s in pair_sides),
        reason="no task has a counted attempt on both sides",
    )
    unknown = 0 if metric.is_partial else sum(side.unknown(metric.column) for side in pair_sides)
    if unknown:
        return _Paired(replace(row, reason=unknown_words(metric.column, unknown)), [], [])
    a, b = (side.by_task(metric.column, metric.is_partial) for side in pair_sides)
    tasks = sorted(a.keys() & b.keys())
    row = replace(row, n_only_a=len(a) - len(tasks), n_only_b=len(b) - len(tasks))
    groups = [[side[task] for task in tasks] for side in (a, b)]
    if metric.relative != "means" or not tasks:
        return _Paired(row, groups[0], groups[1])
    means = [[fmean(group) for group in side] for side in groups]
    unit = abs(fmean(means[0])) or 1.0
    a_units, b_units = ([[mean / unit] for mean in side] for side in means)
    return _Paired(row, a_units, b_units, unit)


def _judged(paired: Sequence[_Paired], metric: str, margin: float) -> list[CellComparison]:
    wide = simultaneous_confidence(max(1, len(paired)))
    measured = [_measured(each, METRICS[metric].relative == "sums", wide) for each in paired]
    verdicts = judge([finding for _, finding in measured], margin, METRICS[metric].higher_is_better)
    judged = []
    for (row, _), verdict in zip(measured, verdicts, strict=True):
        word, reason = verdict.word, verdict.reason if row.n else row.reason
        if row.lost_share > MOST_LOST:
            share = f"{row.lost_share:.0%} of a side's samples"
            word, reason = "inconclusive", f"{share} were lost to infrastructure or a scorer"
        judged.append(replace(row, p_holm=verdict.p_holm, verdict=word, reason=reason))
    return judged


def _measured(paired: _Paired, by_sums: bool, wide: float) -> tuple[CellComparison, Finding]:
    if not paired.a:
        return paired.row, Finding(0.0, None, None, None)
    groups, unit, scale = (paired.a, paired.b), paired.unit, 1.0
    found, wider = compare_paired(*groups), compare_paired(*groups, confidence=wide)
    difference = found.difference
    interval, wide_interval = both(found.low, found.high), both(wider.low, wider.high)
    if by_sums:
        scale = found.first or 1.0
        below, above = ([sum(group) / len(group) for group in side] for side in groups)
        difference, interval, wide_interval = 0.0, None, None
        if sum(below) != 0:  # a share of nothing is none
            ratios = [ratio_of_sums(above, below, confidence=c) for c in (CONFIDENCE, wide)]
            assert ratios[0].value is not None, "the first side's sum is not 0"
            difference = ratios[0].value - 1
            interval, wide_interval = (less_one(both(each.low, each.high)) for each in ratios)
    low, high = interval or (None, None)
    row = replace(
        paired.row,
        n=found.n,
        mean_a=found.first * unit,
        mean_b=found.second * unit,
        difference=difference * unit,
        ci_low=None if low is None else low * unit,
        ci_high=None if high is None else high * unit,
        p=found.p,
        test=found.test,
        detectable=minimum_detectable(found.n, found.se * sqrt(found.n) / abs(scale))
        if found.se
        else None,
    )
    return row, Finding(difference, interval, wide_interval, found.p)


def unknown_words(column: str, samples: int) -> str:
    """Why a figure is unknown: the column is unknown of so many samples."""
    return f"{column} of {samples} counted samples is unknown"


def named(key: Key) -> str:
    """Return a set-up as text: ``stdlib, pocket, cap, 8 at once``."""
    return ", ".join(
        f"{value} at once" if axis == "concurrency" else str(value)
        for axis, value in key
        if value is not None
    )


def less_one(interval: Interval | None) -> Interval | None:
    """Return a ratio's interval as that of a change (ratio - 1)."""
    return interval and (interval[0] - 1, interval[1] - 1)
