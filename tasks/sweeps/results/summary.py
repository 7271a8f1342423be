"""Summaries of a sweep's cells: one frozen row for each cell, by SQL over the store.

In: a connection of `focus`, or one from `storage.connect()`, and a sweep id. Out: `CellSummary` and
`LoadPoint` rows. Rates, latencies and server figures are of the cell's window; accuracy, errors and
cost are of the whole cell. SQL macros such as `pass_at_k` give the values of `TrialScores`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tutti.tasks.scoring.metrics import avg_at_n, best_of_k, majority_at_k, pass_at_k, pass_hat_k
from tutti.tasks.scoring.statistics import Interval
from tutti.tasks.sweeps.results import intervals
from tutti.tasks.sweeps.results.reached import Reached, client_fault, reached_loads
from tutti.tasks.sweeps.results.tables import focus, rows, rows_by

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

EVERY_K = 8  # up to this every k has a row; above it powers of two and the number of trials
# Cells with one trial a task are left out.
TASKS_SQL = """
select cell_id, list(is_right::int::double) as right, list(headline_score) as scores,
       list(answer) as answers
from counted group by cell_id, task_id
qualify max(count(*)) over (partition by cell_id) > 1
"""


@dataclass(frozen=True)
class TrialScores:
    """Scores of `k` trials of a task: shares over the cell's tasks, with 95 % intervals.

    An interval is None for fewer than two tasks.
    """

    k: int
    n: int
    """Tasks with at least `k` counted trials."""
    n_left_out: int
    """Tasks with fewer; they are in no value."""
    pass_at_k: float
    pass_at_k_low: float | None
    pass_at_k_high: float | None
    pass_hat_k: float
    pass_hat_k_low: float | None
    pass_hat_k_high: float | None
    majority_at_k: float
    majority_at_k_low: float | None
    majority_at_k_high: float | None
    avg_at_n: float
    """Mean over the tasks of the mean headline score of all their trials."""
    avg_at_n_low: float | None
    avg_at_n_high: float | None
    best_of_k: float
    """Expected highest headline score of k trials; pass@k where that is right or wrong."""
    best_of_k_low: float | None
    best_of_k_high: float | None


Trial = tuple[str | None, float, float]


def trial_scores(focused: "DuckDBPyConnection") -> dict[str, tuple[TrialScores, ...]]:
    """Scores for k = 1, 2, … by cell; a cell with one trial per task is absent."""
    scores = {}
    for cell_id, tasks in rows_by(focused, "cell_id", TASKS_SQL).items():
        groups = [
            list(zip(row["answers"], row["right"], row["scores"], strict=True)) for row in tasks
        ]
        most = max(map(len, groups))
        powers = (2**i for i in range(most.bit_length()))
        levels = sorted({*range(1, min(most, EVERY_K) + 1), *powers, most})
        scores[cell_id] = tuple(_scores(groups, k) for k in levels)
    return scores


def _scores(groups: list[list[Trial]], k: int) -> TrialScores:
    counted = [group for group in groups if len(group) >= k]
    right = [[right for _, right, _ in group] for group in counted]
    scores = [[score for *_, score in group] for group in counted]
    votes = [[(answer, right) for answer, right, _ in group] for group in counted]
    estimates = (
        *(pass_at_k(right, k), pass_hat_k(right, k), majority_at_k(votes, k)),
        *(avg_at_n(scores), best_of_k(scores, k)),
    )
    ends: list[Any] = [end for estimate in estimates for end in estimate[:3]]
    return TrialScores(k, len(counted), len(groups) - len(counted), *ends)


A_A = -1  # the repeat of a cell measured once more with the same seeds
BASELINE = "passthrough"  # what the other policies are judged against
CELLS_SQL = """
select r.*, sandbox, reason, reason_code, reason_value, task_set_id, index_id, engine_id
from results r join cells using (cell_id)
where r.sweep_id = $sweep order by r.position, cell_id
"""
BINS_SQL = f"""
select cell_id, floor((ended_s - start_s) / (w.end_s - start_s) * {intervals.BINS})::bigint as bin,
       count(*) as n
from (select cell_id, end_s as ended_s from steps) s join cell_windows w using (cell_id)
where ended_s >= start_s and ended_s < w.end_s group by all
"""
LATENCIES_SQL = """
select latency_s from steps s join cell_windows w using (cell_id)
where cell_id = $cell and s.end_s >= w.start_s and s.end_s < w.end_s order by s.end_s
"""


@dataclass(frozen=True)
class CellSummary:
    """One cell. Shares are 0 to 1, times seconds; None means unknown, never 0."""

    cell_id: str
    sweep_id: str
    benchmark: str
    model: str
    policy: str
    concurrency: int
    """UNKNOWN_LOAD where an imported log does not say; then the cell has no rate."""
    repeat: int
    status: str
    sandbox: str | None
    """The isolation of its programs; None where that is not known."""
    reason: str | None
    """Why the cell ended as it did; None where it ran to its end."""
    reason_code: str | None
    reason_value: float | None
    """The limit, margin or budget that the reason means."""
    task_set_id: str
    index_id: str
    engine_id: str | None
    n: int
    tasks: int
    correct: int
    measure: str
    """The name of `accuracy`: ACCURACY, or MEAN_SCORE where answers can be right in part."""
    accuracy: float | None
    """The headline score: the mean over tasks of a task's mean."""
    accuracy_low: float | None
    accuracy_high: float | None
    n_infra: int
    steps: int
    steps_per_min: float | None
    steps_per_min_low: float | None
    """Batch means over the window; None where the window is too short for them."""
    steps_per_min_high: float | None
    window_start_s: float | None
    """Since the cell's first request; None when the cell made none."""
    window_end_s: float | None
    window_reason: str
    steady: bool
    """Whether the window is the steady one; else it is the whole cell."""
    last_s: float | None
    step_latency_p50: float | None
    step_latency_p95: float | None
    p95_low: float | None
    """Bounds of step_latency_p95 by batches of steps; None for fewer than 200."""
    p95_high: float | None
    step_latency_p99: float | None
    held_p95: float | None
    prefill_s_mean: float | None
    decode_s_mean: float | None
    server_hit_ratio: float | None
    kv_usage_mean: float | None
    running_mean: float | None
    waiting_mean: float | None
    preemptions_per_s: float | None
    sessions_mean: float | None
    calls_in_flight_mean: float | None
    tools_running_mean: float | None
    reached: Reached
    client_fault: str | None
    """Why the client was the bottleneck; the figures then describe the client, not the server."""
    cost_usd: float | None
    """Cost of all attempts; None where the cost of one that ended is unknown."""
    cost_mean: float | None
    cost_low: float | None
    cost_high: float | None
    trials: tuple[TrialScores, ...]
    """pass@k, pass^k and majority@k by k; empty where every task has one trial."""

    @property
    def rate_interval(self) -> Interval | None:
        return intervals.both(self.steps_per_min_low, self.steps_per_min_high)

    @property
    def latency_interval(self) -> Interval | None:
        return intervals.both(self.p95_low, self.p95_high)

    @property
    def cost_interval(self) -> Interval | None:
        return intervals.both(self.cost_low, self.cost_high)


UNKNOWN_LOAD, UNKNOWN_POLICY = 0, "unknown"  # of imported cells whose logs do not say
RENAMED = {
    "score": "accuracy",
    "score_low": "accuracy_low",
    "score_high": "accuracy_high",
    "p50_s": "step_latency_p50",
    "p95_s": "step_latency_p95",
    "p99_s": "step_latency_p99",
    "held_p95_s": "held_p95",
    "cost_mean_usd": "cost_mean",
    "is_steady": "steady",
}
"""Columns of `results` whose fields have other names."""


@dataclass(frozen=True)
class LoadPoint:
    """The repeats of one (benchmark, model, policy, concurrency), pooled.

    Intervals of rate, latency and cost: for one cell its own; for several, t over the repeats,
    which differ more than the parts of one run do.
    """

    benchmark: str
    model: str
    policy: str
    concurrency: int
    cells: tuple[CellSummary, ...]
    rate: float | None
    rate_interval: Interval | None
    latency: float | None
    """p95 of step latency in seconds, the mean over the repeats."""
    latency_interval: Interval | None
    cost: float | None
    cost_interval: Interval | None
    n: int
    correct: int

    @property
    def cell_ids(self) -> tuple[str, ...]:
        return tuple(cell.cell_id for cell in self.cells)

    @property
    def steps(self) -> int:
        return sum(cell.steps for cell in self.cells)

    @property
    def measure(self) -> str:
        return self.cells[0].measure

    @property
    def score(self) -> float | None:
        """The headline score, the mean over the repeats; None when nothing was scored."""
        total = sum(c.accuracy * c.n for c in self.cells if c.accuracy is not None)
        return total / self.n if self.n else None

    @property
    def accuracy_interval(self) -> Interval | None:
        """The mean of the repeats' own intervals, because their tasks are the same; None when
        nothing was scored."""
        scored = [cell for cell in self.cells if cell.n]
        lows = [c.accuracy_low for c in scored if c.accuracy_low is not None]
        highs = [c.accuracy_high for c in scored if c.accuracy_high is not None]
        is_known = scored and len(lows) == len(highs) == len(scored)
        return (fmean(lows), fmean(highs)) if is_known else None


def summarise(connection: "DuckDBPyConnection", sweep_id: str) -> list[CellSummary]:
    """Return one row per cell of the sweep, in planned order; empty for an unknown id."""
    with focus(connection, [sweep_id]) as focused:
        return cells_of(focused, sweep_id)


def cells_of(focused: "DuckDBPyConnection", sweep_id: str) -> list[CellSummary]:
    """Run `summarise` on a connection of `focus`."""
    bins: dict[str, list[int]] = {}
    for row in rows(focused, BINS_SQL):
        counts = bins.setdefault(row["cell_id"], [0] * intervals.BINS)
        counts[min(intervals.BINS - 1, row["bin"])] += row["n"]
    reached, trials = reached_loads(focused), trial_scores(focused)
    cells = []
    for row in rows(focused, CELLS_SQL, sweep=sweep_id):
        cell_id = row["cell_id"]
        row = {RENAMED.get(name, name): value for name, value in row.items()}
        row |= {"policy": row["policy"] or UNKNOWN_POLICY}
        row |= {"concurrency": row["concurrency"] or UNKNOWN_LOAD}
        load = row["reached"] = reached.get(cell_id, Reached())
        at_most = (row["concurrency"], row["sessions_mean"], row["step_latency_p95"])
        row |= {"trials": trials.get(cell_id, ()), "client_fault": client_fault(load, *at_most)}
        row |= _intervals(focused, row, bins.get(cell_id, [0]))
        cells.append(CellSummary(**{each.name: row[each.name] for each in fields(CellSummary)}))
    return cells


def in_order(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Sort by benchmark, model, load and policy, the baseline first; not by time."""

    def key(c: CellSummary) -> tuple[str, str, int, bool, str, int]:
        return c.benchmark, c.model, c.concurrency, c.policy != BASELINE, c.policy, c.repeat

    return sorted(cells, key=key)


def without_a_a(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells without the A/A cells."""
    return [cell for cell in cells if cell.repeat != A_A]


def load_points(cells: Sequence[CellSummary]) -> list[LoadPoint]:
    """Pool repeats; order: first seen policy, then concurrency. A/A cells are in no point."""
    groups: dict[tuple[str, str, str], dict[int, list[CellSummary]]] = {}
    for cell in without_a_a(cells):
        series = groups.setdefault((cell.benchmark, cell.model, cell.policy), {})
        series.setdefault(cell.concurrency, []).append(cell)
    return [
        pooled(tuple(by_load[concurrency]))
        for by_load in groups.values()
        for concurrency in sorted(by_load)
    ]


def with_known_load(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells without imported ones whose logs lack the number of concurrent sessions."""
    return [cell for cell in cells if cell.concurrency != UNKNOWN_LOAD]


def _intervals(
    focused: "DuckDBPyConnection", row: Mapping[str, Any], bins: Sequence[int]
) -> dict[str, float | None]:
    speed, tail, cost = None, None, None
    if row["window_start_s"] is not None:
        if row["concurrency"] != UNKNOWN_LOAD:
            speed = intervals.rate_per_min(bins, row["window_end_s"] - row["window_start_s"])
        steps = focused.execute(LATENCIES_SQL, {"cell": row["cell_id"]}).fetchnumpy()
        tail = intervals.tail_interval(steps["latency_s"])
    if row["cost_deviation_usd"] is not None:
        cost = intervals.mean_interval(row["cost_mean"], row["cost_deviation_usd"], row["n"])
        cost = cost and (max(0.0, cost[0]), cost[1])
    ends: dict[str, float | None] = {}
    for name, interval in (("steps_per_min", speed), ("p95", tail), ("cost", cost)):
        ends[f"{name}_low"], ends[f"{name}_high"] = interval or (None, None)
    return ends


def differing(item: CellSummary | LoadPoint, cells: Sequence[CellSummary]) -> list[str]:
    """Return the benchmark and model of a cell or point, each if the cells differ in it."""
    several = [key for key in ("benchmark", "model") if len({getattr(c, key) for c in cells}) > 1]
    return [getattr(item, key) for key in several]


def pooled(cells: tuple[CellSummary, ...]) -> LoadPoint:
    """Pool cells of one set-up into one point."""
    first = cells[0]
    return LoadPoint(
        first.benchmark,
        first.model,
        first.policy,
        first.concurrency,
        cells,
        *_over_repeats([(c.steps_per_min, c.rate_interval) for c in cells]),
        *_over_repeats([(c.step_latency_p95, c.latency_interval) for c in cells]),
        *_over_repeats([(c.cost_mean, c.cost_interval) for c in cells]),
        n=sum(cell.n for cell in cells),
        correct=sum(cell.correct for cell in cells),
    )


def _over_repeats(
    figures: Sequence[tuple[float | None, Interval | None]],
) -> tuple[float | None, Interval | None]:
    values = [value for value, _ in figures if value is not None]
    interval = figures[0][1] if len(figures) == 1 else intervals.t_interval(values)
    if interval is not None:
        interval = max(0.0, interval[0]), interval[1]
    return (fmean(values) if values else None), interval
