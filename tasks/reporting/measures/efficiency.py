"""Tasks solved for the engines' time, money and energy, and the set-ups that are worth it.

In: a connection of `focus` and its cells. Out: one `Efficiency` a set-up, repeats together. Goodput
and energy are of the windows; cost and working seconds of the whole cells, failed attempts too, but
not those that were interrupted. Where the cost of one is unknown, so is the set-up's.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tutti.tasks.scoring.statistics import (
    Interval,
    Point,
    goodput,
    pareto_front,
    ratio_of_sums,
)
from tutti.tasks.sweeps import results

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SLACK = 2.0
"""Where a suite states no limit on step latency it is this many times the p95 at the lowest load:
what a session at rest has, and as much again for sharing the engine."""
BATCHES = 10  # of a window, for the interval of energy
MOST_GAP_S = 10.0  # GPUs are read once a second

TASKS_SQL = """
with spent as (
    select cell_id, coalesce(task_id, attempt_id) as task_id,
           if(count(*) = count(cost_usd), sum(cost_usd), null) as usd,
           if(count(*) = count(working_s), sum(working_s), null) as working_s
    from attempts where cell_id is not null and status is distinct from 'cancelled' group by all
),
done as (
    select cell_id, task_id, avg((epoch_us(ended_at) - epoch_us(started_at)) / 1e6) as seconds,
           count(*) filter (is_right) as solved
    from counted group by all
)
select s.*, seconds, coalesce(solved, 0) as solved
from spent s left join done d on d.cell_id = s.cell_id and d.task_id = s.task_id
order by s.cell_id, s.task_id
"""
# An attempt was in time when the slowest of its steps was.
ENDED_SQL = """
with slowest as (
    select attempt_id, max(latency_s) as latency_s from steps group by attempt_id
),
ended as (
    select a.cell_id, a.attempt_id, (epoch_us(a.ended_at) - epoch_us(o.t0)) / 1e6 as end_s,
           coalesce(c.is_right, false) as solved
    from attempts a join origins o on a.cell_id = o.cell_id
         left join counted c on c.cell_id = a.cell_id and c.attempt_id = a.attempt_id
)
select e.cell_id, e.end_s, e.solved, s.latency_s
from ended e join slowest s on e.attempt_id = s.attempt_id
     join cell_windows w on e.cell_id = w.cell_id and e.end_s >= w.start_s and e.end_s < w.end_s
order by e.cell_id, e.end_s, e.attempt_id
"""
ENGINES_SQL = """
select cell_id, count(distinct engine_id) as n from server_metrics
where starts_with(name, 'vllm:') or starts_with(name, 'sglang:') group by cell_id
"""
# Watts times the seconds that they stand for: half of those to the sample before and to the next.
# Where the meter paused (a resumed cell) no more than MOST_GAP_S is known.
ENERGY_SQL = f"""
with metered as (
    select m.cell_id, value, (epoch_us("at") - epoch_us(t0)) / 1e6 as s,
           (epoch_us(lead("at") over near) - epoch_us("at")) / 1e6 as after_s,
           (epoch_us("at") - epoch_us(lag("at") over near)) / 1e6 as before_s
    from server_metrics m join origins o on m.cell_id = o.cell_id
    where starts_with(name, 'nvml:power_watts')
    window near as (partition by m.cell_id, engine_id, name order by "at")
)
select m.cell_id, floor((s - start_s) / (end_s - start_s) * {BATCHES})::bigint as batch,
       sum(value * (least({MOST_GAP_S}, coalesce(after_s, 0))
                    + least({MOST_GAP_S}, coalesce(before_s, 0))) / 2) as joules
from metered m join cell_windows w on m.cell_id = w.cell_id and s >= start_s and s < end_s
group by all
"""


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; None means unknown."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> Interval | None:
        return results.both(self.low, self.high)


@dataclass(frozen=True)
class Efficiency:
    point: results.LoadPoint
    solved: int
    limit_s: float | None
    """Limit on the slowest step of an attempt, for goodput; None where no step was measured."""
    goodput: Estimate
    """Tasks solved within the limit, an engine and hour."""
    usd: Estimate
    joules: Estimate
    working_s: Estimate
    seconds: Estimate
    """Duration of a counted attempt."""
    standing: str
    """on, maybe or off the front of accuracy and cost (seconds where nothing costs); else empty."""

    @property
    def cell(self) -> results.CellSummary:
        """The set-up's first cell, which describes it."""
        return self.point.cells[0]

    @property
    def pays(self) -> bool:
        return bool(self.point.cost)


def efficiencies(
    focused: "DuckDBPyConnection", cells: Sequence[results.CellSummary]
) -> list[Efficiency]:
    """The efficiency of each set-up, benchmark by benchmark, since a front is of one benchmark."""
    tables = _Tables(focused)
    stated = _stated_limits(focused, cells)
    every = []
    points = sorted(results.load_points(results.with_known_load(cells)), key=lambda p: p.benchmark)
    for _, of_benchmark in groupby(points, key=lambda p: p.benchmark):
        alike = list(of_benchmark)
        limit_s = stated.get(alike[0].cells[0].sweep_id) or _limit(alike)
        figures = [_efficiency(tables, point, limit_s) for point in alike]
        placed = place(figures)
        front = pareto_front([point for _, point in placed])
        standing = {id(each): at.standing for (each, _), at in zip(placed, front, strict=True)}
        every += [replace(each, standing=standing.get(id(each), "")) for each in figures]
    return every


def place(found: Sequence[Efficiency]) -> list[tuple[Efficiency, Point]]:
    """A benchmark's set-ups with accuracy and cost: USD per attempt, or seconds if all are free.

    A set-up that lacks either figure is left out.
    """
    paid = any(each.pays for each in found)
    placed = []
    for each in found:
        point, cost, ends = each.point, each.seconds.value, each.seconds.interval
        if paid:
            cost, ends = point.cost, point.cost_interval
        if cost is not None and point.score is not None:
            accuracy = _around(point.score, point.accuracy_interval)
            placed.append((each, Point(*_around(cost, ends), *accuracy)))
    return placed


def _around(value: float, interval: Interval | None) -> tuple[float, float | None, float | None]:
    """Return a figure and its ends, which rounding may put on the wrong side of it."""
    if interval is None:
        return value, None, None
    return value, min(value, interval[0]), max(value, interval[1])


class _Tables:
    def __init__(self, focused: "DuckDBPyConnection") -> None:
        self.tasks, self.ended, self.energy, self.engines = (
            results.rows_by(focused, "cell_id", sql)
            for sql in (TASKS_SQL, ENDED_SQL, ENERGY_SQL, ENGINES_SQL)
        )


def _stated_limits(
    focused: "DuckDBPyConnection", cells: Sequence[results.CellSummary]
) -> dict[str, float]:
    sweeps = list({cell.sweep_id for cell in cells})
    sql = "select sweep_id, spec from sweeps where list_contains($sweeps, sweep_id)"
    limits = {}
    for row in results.rows(focused, sql, sweeps=sweeps):
        stated = json.loads(row["spec"] or "{}").get("stopping", {}).get("saturation") or {}
        if stated.get("step_latency_p95"):
            limits[row["sweep_id"]] = float(stated["step_latency_p95"])
    return limits


def _limit(points: Sequence[results.LoadPoint]) -> float | None:
    measured = [p for p in points if p.latency is not None]
    lowest = min(
        measured, key=lambda p: (p.concurrency, p.policy != results.BASELINE), default=None
    )
    return SLACK * lowest.latency if lowest and lowest.latency else None


def _efficiency(tables: _Tables, point: results.LoadPoint, limit_s: float | None) -> Efficiency:
    by_task = results.by_key(
        [row for c in point.cell_ids for row in tables.tasks.get(c, ())], "task_id"
    )
    solved = [sum(row["solved"] for row in of_task) for of_task in by_task.values()]
    known = [[r["seconds"] for r in of if r["seconds"] is not None] for of in by_task.values()]
    seconds = [fmean(taken) for taken in known if taken]
    ends = results.t_interval(seconds) or (None, None)
    return Efficiency(
        point,
        sum(solved),
        limit_s,
        _goodput(tables, point, limit_s),
        _per_solved(_sums(by_task, "usd") if point.cost else [], solved),
        _energy(tables, point),
        _per_solved(_sums(by_task, "working_s"), solved),
        Estimate(fmean(seconds) if seconds else None, *ends),
        "",
    )


def _sums(by_task: Mapping[str, list[dict[str, Any]]], column: str) -> list[float]:
    """The column's sum for each task; empty where one attempt's value is unknown."""
    sums = [[row[column] for row in of_task] for of_task in by_task.values()]
    return [] if any(None in of_task for of_task in sums) else [sum(of_task) for of_task in sums]


def _per_solved(spent: Sequence[float], solved: Sequence[int]) -> Estimate:
    if not spent or not any(solved):
        return Estimate()
    per = ratio_of_sums(spent, solved)
    return Estimate(per.value, per.low and max(0.0, per.low), per.high)


def _goodput(tables: _Tables, point: results.LoadPoint, limit_s: float | None) -> Estimate:
    """One cell has its batches' interval; several have their mean and t over the repeats."""
    figures = []
    for cell in point.cells:
        start_s, end_s = cell.window_start_s, cell.window_end_s
        if limit_s is None or start_s is None or end_s is None:
            continue
        ended = tables.ended.get(cell.cell_id, [])
        ends, solved, took = ([r[key] for r in ended] for key in ("end_s", "solved", "latency_s"))
        engines = max((row["n"] for row in tables.engines.get(cell.cell_id, ())), default=1)
        good = goodput((ends, solved, took), limit_s, start_s, end_s, max(1, engines))
        figures.append(Estimate(good.per_engine_hour, good.low, good.high))
    if len(figures) < 2:
        return figures[0] if figures else Estimate()
    values = [each.value for each in figures if each.value is not None]
    low, high = results.t_interval(values) or (0.0, 0.0)
    return Estimate(fmean(values), max(0.0, low), high)


def _energy(tables: _Tables, point: results.LoadPoint) -> Estimate:
    joules: list[float] = []
    solved: list[int] = []
    for cell in point.cells:
        start_s, end_s = cell.window_start_s, cell.window_end_s
        metered = {row["batch"]: row["joules"] for row in tables.energy.get(cell.cell_id, ())}
        if not metered or start_s is None or end_s is None:
            continue
        counts = [0] * BATCHES
        for row in tables.ended.get(cell.cell_id, ()):
            batch = int((row["end_s"] - start_s) / (end_s - start_s) * BATCHES)
            counts[min(BATCHES - 1, batch)] += bool(row["solved"])
        joules += [metered.get(batch, 0.0) for batch in range(BATCHES)]
        solved += counts
    return _per_solved(joules, solved)
