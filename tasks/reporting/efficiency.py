"""What the engines' time, money and energy came to: solved tasks, and which set-ups are worth it.

In: a connection of `focus` and its cells. Out: one `Efficiency` a set-up, repeats together. Goodput
and energy are of the windows; cost and working seconds of the whole cells, failed attempts too, but
not those that were interrupted. Where the cost of one is unknown, so is the set-up's.
"""

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
from tutti.tasks.sweeps.results import (
    BASELINE,
    CellSummary,
    LoadPoint,
    by_key,
    load_points,
    rows,
    rows_by,
    t_interval,
    with_known_load,
)
from tutti.tasks.sweeps.spec import stored_fields

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
    """A figure with its 95 % interval; None is "not known"."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> Interval | None:
        """Both ends, where both are known."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True)
class Efficiency:
    """Efficiency of one set-up."""

    point: LoadPoint
    solved: int
    limit_s: float | None
    """On the slowest step of an attempt, for goodput; None where no step was measured."""
    goodput: Estimate
    """Tasks solved within the limit, an engine and hour."""
    usd: Estimate
    """For each solved task, as the two below."""
    joules: Estimate
    working_s: Estimate
    seconds: Estimate
    """Of a counted attempt, from its start to its end."""
    standing: str
    """on, maybe or off the front of accuracy and cost (seconds where nothing costs); else empty."""

    @property
    def cell(self) -> CellSummary:
        """The set-up's first cell, which says what it is."""
        return self.point.cells[0]

    @property
    def pays(self) -> bool:
        """Whether its attempts cost money."""
        return bool(self.point.cost)


def efficiencies(focused: "DuckDBPyConnection", cells: Sequence[CellSummary]) -> list[Efficiency]:
    """Of each set-up, benchmark by benchmark: what stands on a front is of one benchmark."""
    by_cell = _Rows(focused)
    stated = _stated_limits(focused, cells)
    found = []
    points = sorted(load_points(with_known_load(cells)), key=lambda p: p.benchmark)
    for _, of_benchmark in groupby(points, key=lambda p: p.benchmark):
        alike = list(of_benchmark)
        limit_s = stated.get(alike[0].cells[0].sweep_id) or _limit(alike)
        found += _with_standing([_efficiency(by_cell, point, limit_s) for point in alike])
    return found


def place(found: Sequence[Efficiency]) -> list[tuple[Efficiency, Point]]:
    """A benchmark's set-ups with accuracy and cost: USD an attempt, or seconds where all are free.

    A set-up that lacks either figure has no place.
    """
    paid = any(each.pays for each in found)
    placed = []
    for each in found:
        cost = Estimate(each.point.cost, *(each.point.cost_interval or (None, None)))
        if not paid:
            cost = each.seconds
        if cost.value is not None and each.point.score is not None:
            accuracy = _around(each.point.score, each.point.accuracy_interval)
            placed.append((each, Point(*_around(cost.value, cost.interval), *accuracy)))
    return placed


def _around(value: float, interval: Interval | None) -> tuple[float, float | None, float | None]:
    """A figure and its ends, which by rounding may lie on the wrong side of it."""
    if interval is None:
        return value, None, None
    return value, min(value, interval[0]), max(value, interval[1])


class _Rows:
    """Rows by cell."""

    def __init__(self, focused: "DuckDBPyConnection") -> None:
        self.tasks, self.ended, self.energy, self.engines = (
            rows_by(focused, "cell_id", sql)
            for sql in (TASKS_SQL, ENDED_SQL, ENERGY_SQL, ENGINES_SQL)
        )


def _stated_limits(focused: "DuckDBPyConnection", cells: Sequence[CellSummary]) -> dict[str, float]:
    """Sweep to the limit on step latency that its suite ends cells by (`stopping.saturation`)."""
    sweeps = list({cell.sweep_id for cell in cells})
    sql = "select sweep_id, spec from sweeps where list_contains($sweeps, sweep_id)"
    limits = {}
    for row in rows(focused, sql, sweeps=sweeps):
        stated = stored_fields(row["spec"]).get("saturation") or {}
        if stated.get("step_latency_p95"):
            limits[row["sweep_id"]] = float(stated["step_latency_p95"])
    return limits


def _limit(points: Sequence[LoadPoint]) -> float | None:
    """SLACK times the p95 of the baseline at the lowest load that was measured."""
    measured = [p for p in points if p.latency is not None]
    ordered = sorted(measured, key=lambda p: (p.concurrency, p.policy != BASELINE))
    return SLACK * ordered[0].latency if ordered and ordered[0].latency else None


def _efficiency(found: _Rows, point: LoadPoint, limit_s: float | None) -> Efficiency:
    tried = [row for cell in point.cells for row in found.tasks.get(cell.cell_id, ())]
    by_task = by_key(tried, "task_id")
    solved = [sum(row["solved"] for row in of_task) for of_task in by_task.values()]
    taken = [_mean([row["seconds"] for row in of_task]) for of_task in by_task.values()]
    seconds = [value for value in taken if value is not None]
    return Efficiency(
        point,
        sum(solved),
        limit_s,
        _goodput(found, point, limit_s),
        _per_solved(_sums(by_task, "usd") if point.cost else [], solved),
        _energy(found, point),
        _per_solved(_sums(by_task, "working_s"), solved),
        Estimate(_mean(seconds), *(t_interval(seconds) or (None, None))),
        "",
    )


def _with_standing(found: Sequence[Efficiency]) -> list[Efficiency]:
    placed = place(found)
    front = pareto_front([point for _, point in placed])
    standing = {id(each): at.standing for (each, _), at in zip(placed, front, strict=True)}
    return [replace(each, standing=standing.get(id(each), "")) for each in found]


def _sums(by_task: Mapping[str, list[dict[str, Any]]], column: str) -> list[float]:
    """Of each task; empty where the column is unknown of an attempt."""
    sums = [[row[column] for row in of_task] for of_task in by_task.values()]
    return [] if any(None in of_task for of_task in sums) else [sum(of_task) for of_task in sums]


def _per_solved(spent: Sequence[float], solved: Sequence[int]) -> Estimate:
    if not spent or not any(solved):
        return Estimate()
    found = ratio_of_sums(spent, solved)
    return Estimate(found.value, found.low and max(0.0, found.low), found.high)


def _goodput(found: _Rows, point: LoadPoint, limit_s: float | None) -> Estimate:
    """Of one cell its batches' interval; of several the mean, and t over the repeats."""
    figures = [each for cell in point.cells if (each := _cell_goodput(found, cell, limit_s))]
    if len(figures) < 2:
        return figures[0] if figures else Estimate()
    values = [each.value for each in figures if each.value is not None]
    low, high = t_interval(values) or (0.0, 0.0)
    return Estimate(fmean(values), max(0.0, low), high)


def _cell_goodput(found: _Rows, cell: CellSummary, limit_s: float | None) -> Estimate | None:
    ended = found.ended.get(cell.cell_id, [])
    start_s, end_s = cell.window_start_s, cell.window_end_s
    if limit_s is None or start_s is None or end_s is None:
        return None
    ends, solved, took = ([row[key] for row in ended] for key in ("end_s", "solved", "latency_s"))
    engines = max((row["n"] for row in found.engines.get(cell.cell_id, ())), default=1)
    good = goodput((ends, solved, took), limit_s, start_s, end_s, max(1, engines))
    return Estimate(good.per_engine_hour, good.low, good.high)


def _energy(found: _Rows, point: LoadPoint) -> Estimate:
    """Joules of the windows over what was solved in them, by batches of time."""
    joules: list[float] = []
    solved: list[int] = []
    for cell in point.cells:
        start_s, end_s = cell.window_start_s, cell.window_end_s
        metered = {row["batch"]: row["joules"] for row in found.energy.get(cell.cell_id, ())}
        if not metered or start_s is None or end_s is None:
            continue
        counts = [0] * BATCHES
        for row in found.ended.get(cell.cell_id, ()):
            batch = int((row["end_s"] - start_s) / (end_s - start_s) * BATCHES)
            counts[min(BATCHES - 1, batch)] += bool(row["solved"])
        joules += [metered.get(batch, 0.0) for batch in range(BATCHES)]
        solved += counts
    return _per_solved(joules, solved)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
