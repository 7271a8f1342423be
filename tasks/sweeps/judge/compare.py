"""Two sides of stored cells compared task by task: sweeps, cells, models or policies.

In: a connection from `storage.connect()` and two names. Out: one `CellComparison` for each set-up
that both sides have (benchmark, model, policy, concurrency; an axis on which each side has one
value is what is compared and need not match), judged together. Repeats of a task are averaged
first; what counts is the view `counted`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

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

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

AXES = ("benchmark", "model", "policy", "concurrency")
MARGIN = 0.05
SCORES_SQL = """
select task_id, cost_usd, working_s, headline_score as score, is_right::int::double as solved
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
    """What of an attempt is compared."""

    higher_is_better: bool
    relative: bool
    """As a share of the first side's sum (second / first - 1), rather than as a difference."""


METRICS: Mapping[str, Metric] = {
    "score": Metric(True, False),
    "cost_usd": Metric(False, True),
    "working_s": Metric(False, True),
}


@dataclass(frozen=True)
class Side:
    """Cells under one name."""

    name: str
    kind: str
    """A key of `NAMED_SQL`."""
    cells: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class CellComparison:
    """One set-up of the second side against the first. None is "not known", never 0."""

    where: str
    """What both sides share, and what is compared: ``model pocket -> pocket-2``."""
    metric: str
    n: int
    """Paired tasks."""
    n_only_a: int
    n_only_b: int
    lost_a: int
    """Samples lost to infrastructure or a scorer that failed: in no score."""
    lost_b: int
    lost_share: float
    """Of the side that lost more, the share of its samples."""
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    """Second minus first; of costs and seconds as a share of the first."""
    ci_low: float | None
    ci_high: float | None
    p: float | None
    p_holm: float | None
    """p, adjusted over all set-ups compared together."""
    test: str
    detectable: float | None
    """The smallest true difference that as many such tasks find four times in five; None where no
    two tasks differ in it."""
    verdict: str
    reason: str
    cells_a: tuple[str, ...]
    cells_b: tuple[str, ...]


class SampledTasks(NamedTuple):
    """What the cells of one set-up came to."""

    rows: tuple[dict[str, Any], ...]
    """One a counted sample, the last attempt of each."""
    lost: int

    def by_task(self, column: str) -> dict[str, list[float]]:
        """The column's values of each task. Empty if a sample's is unknown: without it, sums are
        too low."""
        found: dict[str, list[float]] = {}
        for row in self.rows if not self.unknown(column) else ():
            found.setdefault(row["task_id"], []).append(float(row[column]))
        return found

    def unknown(self, column: str) -> int:
        """Number of samples whose value is unknown."""
        return sum(row[column] is None for row in self.rows)


def find_side(connection: "DuckDBPyConnection", name: str) -> Side | None:
    """The cells of a cell's id, a sweep's id or name, a model or a policy; None for none."""
    for kind, sql in NAMED_SQL.items():
        found = _rows(connection, sql, name=name)
        if found:
            return Side(name, kind, tuple(found))
    return None


def find_pair(connection: "DuckDBPyConnection", a: str, b: str) -> tuple[Side | None, Side | None]:
    """Both sides; two models, or two policies, of the newest sweep that measured both."""
    first, second = find_side(connection, a), find_side(connection, b)
    if first is None or second is None or first.kind != second.kind or first.kind not in AXES:
        return first, second
    sql = BOTH.format(axis=first.kind)
    cells = _rows(connection, sql, a=a, b=b)
    if not cells:
        return first, second
    sides = (tuple(c for c in cells if c[first.kind] == name) for name in (a, b))
    return Side(a, first.kind, next(sides)), Side(b, first.kind, next(sides))


def sampled(connection: "DuckDBPyConnection", cells: Sequence[str]) -> SampledTasks:
    """The counted samples of some cells, repeats of a set-up together."""
    found = _rows(connection, SCORES_SQL, cells=list(cells))
    lost = _rows(connection, LOST_SQL, cells=list(cells))
    return SampledTasks(tuple(found), int(lost[0]["n"]))


def compare_sides(
    connection: "DuckDBPyConnection",
    first: Side,
    second: Side,
    metric: str = "score",
    margin: float = MARGIN,
) -> list[CellComparison]:
    """One row a set-up that both have, in the order of the first's cells; empty for none.

    `margin` is in the score's own unit, and a share for costs and seconds. KeyError for a metric
    that is not in `METRICS`, ValueError for a margin below 0.
    """
    chosen = METRICS[metric]
    of_a, of_b = set_ups(first.cells, second.cells)
    keys = [key for key in of_a if key in of_b]
    if not keys:
        return []
    wide = simultaneous_confidence(len(keys))
    found = [
        _measured(
            sampled(connection, of_a[key]), sampled(connection, of_b[key]), metric, chosen, wide
        )
        for key in keys
    ]
    verdicts = judge([each.finding for each in found], margin, chosen.higher_is_better)
    return [
        _row(_where(key, first, second), metric, each, verdict, of_a[key], of_b[key])
        for key, each, verdict in zip(keys, found, verdicts, strict=True)
    ]


Key = tuple[tuple[str, Any], ...]
"""Axis and value, of the axes that must match."""


def set_ups(
    of_a: Sequence[dict[str, Any]], of_b: Sequence[dict[str, Any]]
) -> tuple[dict[Key, list[str]], dict[Key, list[str]]]:
    """Each side's cell ids by what must match; measurements of the noise floor are left out."""
    of_a, of_b = _pooled(of_a), _pooled(of_b)
    compared = [
        axis
        for axis in AXES
        if len(a := {cell[axis] for cell in of_a}) == len(b := {cell[axis] for cell in of_b}) == 1
        and a != b
        and axis != "benchmark"
    ]
    sides: list[dict[Key, list[str]]] = []
    for cells in (of_a, of_b):
        found: dict[Key, list[str]] = {}
        for cell in sorted(cells, key=lambda each: each["position"]):
            key = tuple((axis, cell[axis]) for axis in AXES if axis not in compared)
            found.setdefault(key, []).append(cell["cell_id"])
        sides.append(found)
    return sides[0], sides[1]


def _pooled(cells: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Without superseded cells and A/A cells, which repeat one with its seeds (`repeat` -1).

    A side of nothing else is what was asked for, and stays.
    """
    kept = [
        cell
        for cell in cells
        if (cell.get("repeat") or 0) >= 0 and cell.get("status") != cat.SUPERSEDED
    ]
    return kept or cells


class _Measured(NamedTuple):
    paired: Comparison | None
    finding: Finding
    only: tuple[int, int]
    lost: tuple[int, int]
    lost_share: float
    unknown: int = 0
    """Samples of both sides whose value is unknown."""


def _measured(
    first: SampledTasks, second: SampledTasks, column: str, metric: Metric, wide: float
) -> _Measured:
    lost = first.lost, second.lost
    share = max(s.lost / max(1, s.lost + len(s.rows)) for s in (first, second))
    nothing = Finding(0.0, None, None, None)
    if unknown := first.unknown(column) + second.unknown(column):
        return _Measured(None, nothing, (0, 0), lost, share, unknown)
    a, b = first.by_task(column), second.by_task(column)
    tasks = sorted(a.keys() & b.keys())
    only = len(a) - len(tasks), len(b) - len(tasks)
    if not tasks:
        return _Measured(None, nothing, only, lost, share)
    groups = [a[task] for task in tasks], [b[task] for task in tasks]
    found, wider = compare_paired(*groups), compare_paired(*groups, confidence=wide)
    if not metric.relative:
        both = _both(found.low, found.high), _both(wider.low, wider.high)
        return _Measured(found, Finding(found.difference, *both, found.p), only, lost, share)
    below, above = ([sum(group) / len(group) for group in side] for side in groups)
    if sum(below) == 0:  # a share of nothing is none
        return _Measured(found, Finding(0.0, None, None, found.p), only, lost, share)
    ratio, wide_ratio = (ratio_of_sums(above, below, confidence=c) for c in (CONFIDENCE, wide))
    both = _change(ratio), _change(wide_ratio)
    assert ratio.value is not None, "the first side's sum is not 0"
    return _Measured(found, Finding(ratio.value - 1, *both, found.p), only, lost, share)


def _row(
    where: str, metric: str, found: _Measured, verdict: Verdict,
    cells_a: Sequence[str], cells_b: Sequence[str],
) -> CellComparison:  # fmt: skip
    word, reason = verdict.word, verdict.reason
    paired, finding = found.paired, found.finding
    if paired is None:
        reason = "no task has a counted attempt on both sides"
    if found.unknown:
        reason = unknown_words(metric, found.unknown)
    if found.lost_share > MOST_LOST:
        word = "inconclusive"
        reason = (
            f"{found.lost_share:.0%} of a side's samples were lost to infrastructure or a scorer"
        )
    detectable = None
    if paired is not None and paired.se:
        scale = paired.first if METRICS[metric].relative and paired.first else 1.0
        detectable = minimum_detectable(paired.n, paired.se * sqrt(paired.n) / abs(scale))
    low, high = finding.interval or (None, None)
    return CellComparison(
        where, metric, paired.n if paired else 0, *found.only, *found.lost, found.lost_share,
        paired.first if paired else None, paired.second if paired else None,
        finding.difference if paired else None, low, high, finding.p, verdict.p_holm,
        paired.test if paired else "", detectable, word, reason, tuple(cells_a), tuple(cells_b),
    )  # fmt: skip


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


def _rows(connection: "DuckDBPyConnection", sql: str, **values: Any) -> list[dict[str, Any]]:
    cursor = connection.execute(sql, values)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _change(ratio: Ratio) -> Interval | None:
    both = _both(ratio.low, ratio.high)
    return both and (both[0] - 1, both[1] - 1)


def _both(low: float | None, high: float | None) -> Interval | None:
    return None if low is None or high is None else (low, high)
