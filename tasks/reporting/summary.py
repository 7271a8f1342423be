"""What a sweep's cells and families came to: one frozen row each, from SQL over the store.

In: a connection from `storage.connect()` and a sweep id. Out: `CellSummary`, `FamilyScore` and
`LoadPoint` rows. Rates, latencies and server figures are of the cell's window; accuracy, counts of
errors and cost are of the whole cell, since the score of a task does not depend on the window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tasks.reporting.intervals import Interval, rate_per_min, t_interval, wilson

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

END_S = 1e-6  # windows are half open; one microsecond more takes in what ends last

STEPS_SQL = """
with cell_steps as (
    select min(c.sent_at) as sent_at,
           greatest(max(c.ended_at), coalesce(max(t.ended_at), max(c.ended_at))) as ended_at
    from calls c left join tool_runs t using (attempt_id, step)
    where c.cell_id = $cell and c.role = 'orchestrator' and c.status = 'ok'
    group by c.attempt_id, c.step
),
zero as (select min(sent_at) as t0 from calls where cell_id = $cell)
select (epoch_us(ended_at) - epoch_us(t0)) / 1e6 as end_s,
       (epoch_us(ended_at) - epoch_us(sent_at)) / 1e6 as latency_s
from cell_steps, zero where ended_at is not null order by end_s, latency_s
"""
WHOLE_CELL_SQL = """
with ends as (
    select ended_at from calls where cell_id = $cell
    union all select ended_at from tool_runs where cell_id = $cell
    union all select ended_at from attempts where cell_id = $cell
)
select (epoch_us(max(ended_at)) - epoch_us((select min(sent_at) from calls where cell_id = $cell)))
       / 1e6 as end_s
from ends
"""
# Coalesce: a limit or model error without a score is a wrong answer, not an absent one.
SCORED_SQL = """
select count(*) filter (status in ('ok', 'limit', 'model_error')) as n,
       count(*) filter (status in ('ok', 'limit', 'model_error') and coalesce(correct, false))
           as correct,
       count(*) filter (status = 'infra_error') as n_infra, sum(cost_usd) as cost_usd
from attempts where cell_id = $cell
"""
# One task may be in several task sets, so its family is looked up once a task id.
FAMILY_SQL = """
with families as (
    select task_id, min(family) as family from tasks where family is not null group by task_id
),
scored as (
    select *, list_position($sweeps, sweep_id) as nth from attempts
    where list_contains($sweeps, sweep_id) and status in ('ok', 'limit', 'model_error')
),
models as (
    select model, min(nth) as nth, min(started_at) as began from scored group by model
)
select s.model, coalesce(f.family, 'unknown') as family, count(*) as n,
       count(*) filter (coalesce(s.correct, false)) as correct
from scored s left join families f using (task_id) join models m on m.model = s.model
group by s.model, f.family, m.nth, m.began order by m.nth, m.began, s.model, f.family
"""


@dataclass(frozen=True)
class CellSummary:
    """One cell. Shares are 0 to 1, times seconds; None is "not known", never 0."""

    cell_id: str
    benchmark: str
    model: str
    policy: str
    concurrency: int
    repeat: int
    status: str
    n: int
    """Attempts that count in accuracy: ok, limit and model_error."""
    correct: int
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    n_infra: int
    steps: int
    """Steps that ended in the window."""
    steps_per_min: float | None
    steps_per_min_low: float | None
    """Batch means over the window; None where the window is too short for them."""
    steps_per_min_high: float | None
    window_start_s: float | None
    """Since the cell's first request; None when the cell made none."""
    window_end_s: float | None
    window_reason: str
    step_latency_p50: float | None
    step_latency_p95: float | None
    step_latency_p99: float | None
    held_p95: float | None
    server_hit_ratio: float | None
    kv_usage_mean: float | None
    running_mean: float | None
    waiting_mean: float | None
    preemptions_per_s: float | None
    sessions_mean: float | None
    cost_usd: float | None

    @property
    def rate_interval(self) -> Interval | None:
        """Interval of steps_per_min, where there is one."""
        if self.steps_per_min_low is None or self.steps_per_min_high is None:
            return None
        return self.steps_per_min_low, self.steps_per_min_high


WINDOW_FIGURES = (
    "step_latency_p50",
    "step_latency_p95",
    "step_latency_p99",
    "held_p95",
    "server_hit_ratio",
    "kv_usage_mean",
    "running_mean",
    "waiting_mean",
    "preemptions_per_s",
    "sessions_mean",
)
CELL_KEYS = ("cell_id", "benchmark", "model", "policy", "concurrency", "repeat", "status")


@dataclass(frozen=True)
class FamilyScore:
    """A model's accuracy (0 to 1) on one family of tasks, with Wilson's 95 % interval."""

    model: str
    family: str
    n: int
    correct: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class LoadPoint:
    """The repeats of one (benchmark, model, policy, concurrency), pooled."""

    benchmark: str
    model: str
    policy: str
    concurrency: int
    cells: tuple[CellSummary, ...]
    rate: float | None
    """Steps per minute, the mean over the repeats."""
    rate_interval: Interval | None
    """Of one cell: its batch means. Of several: t over the repeats, which differ more than the
    batches of one run do."""
    n: int
    correct: int

    @property
    def steps(self) -> int:
        """Steps behind `rate`."""
        return sum(cell.steps for cell in self.cells)

    @property
    def accuracy_interval(self) -> Interval | None:
        """Wilson's interval of correct / n; None when nothing was scored."""
        return wilson(self.correct, self.n)


def summarise(connection: "DuckDBPyConnection", sweep_id: str) -> list[CellSummary]:
    """One row a cell of the sweep, in the order they were planned; empty for an unknown id."""
    sql = "select * from cells where sweep_id = $sweep order by position, cell_id"
    return [_summary(connection, row) for row in rows(connection, sql, sweep=sweep_id)]


def family_scores(connection: "DuckDBPyConnection", sweep_id: str) -> list[FamilyScore]:
    """Accuracy by model, in the order they ran, and family.

    The family of a task that the `tasks` table does not have is `unknown`.
    """
    return pooled_family_scores(connection, [sweep_id])


def pooled_family_scores(
    connection: "DuckDBPyConnection", sweep_ids: Sequence[str]
) -> list[FamilyScore]:
    """Like `family_scores` over several sweeps; a model in two of them has one row a family."""
    found = rows(connection, FAMILY_SQL, sweeps=list(sweep_ids))
    return [_score(row["model"], row["family"], row["n"], row["correct"]) for row in found]


def all_families(scores: Sequence[FamilyScore]) -> list[FamilyScore]:
    """One row a model, over all of its families."""
    totals: dict[str, tuple[int, int]] = {}
    for score in scores:
        n, correct = totals.get(score.model, (0, 0))
        totals[score.model] = n + score.n, correct + score.correct
    return [_score(model, "all families", *counts) for model, counts in totals.items()]


def load_points(cells: Sequence[CellSummary]) -> list[LoadPoint]:
    """Pool repeats; order: first seen policy, then concurrency."""
    groups: dict[tuple[str, str, str], dict[int, list[CellSummary]]] = {}
    for cell in cells:
        series = groups.setdefault((cell.benchmark, cell.model, cell.policy), {})
        series.setdefault(cell.concurrency, []).append(cell)
    return [
        _pooled(tuple(by_load[concurrency]))
        for by_load in groups.values()
        for concurrency in sorted(by_load)
    ]


def steps_of(connection: "DuckDBPyConnection", cell: CellSummary) -> list[tuple[float, float]]:
    """(end, latency) in seconds of each step that ended in the cell's window, by end."""
    if cell.window_start_s is None or cell.window_end_s is None:
        return []
    return _steps(connection, cell.cell_id, cell.window_start_s, cell.window_end_s)


def rows(connection: "DuckDBPyConnection", sql: str, **values: Any) -> list[dict[str, Any]]:
    """The rows of one statement with `$name` parameters, as dictionaries."""
    cursor = connection.execute(sql, values)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _summary(connection: "DuckDBPyConnection", row: dict[str, Any]) -> CellSummary:
    cell_id = row["cell_id"]
    scored = rows(connection, SCORED_SQL, cell=cell_id)[0]
    accuracy = scored["correct"] / scored["n"] if scored["n"] else None
    low, high = wilson(scored["correct"], scored["n"]) or (None, None)
    return CellSummary(
        **{key: row[key] for key in CELL_KEYS},
        **scored,
        accuracy=accuracy,
        accuracy_low=low,
        accuracy_high=high,
        **_window_figures(connection, cell_id),
    )


def _window_figures(connection: "DuckDBPyConnection", cell_id: str) -> dict[str, Any]:
    start_s, end_s, reason = _window(connection, cell_id)
    figures: dict[str, Any] = dict.fromkeys(WINDOW_FIGURES) | {"steps": 0, "steps_per_min": None}
    interval: Interval | None = None
    if start_s is not None and end_s is not None:
        sql = "select * from window_summary($cell, $start, $end)"
        found = rows(connection, sql, cell=cell_id, start=start_s, end=end_s)[0]
        figures = {name: found[name] for name in figures}
        ends = [end for end, _ in _steps(connection, cell_id, start_s, end_s)]
        interval = rate_per_min(ends, start_s, end_s)
    low, high = interval or (None, None)
    return figures | {
        "steps_per_min_low": low,
        "steps_per_min_high": high,
        "window_start_s": start_s,
        "window_end_s": end_s,
        "window_reason": reason,
    }


def _window(
    connection: "DuckDBPyConnection", cell_id: str
) -> tuple[float | None, float | None, str]:
    """The steady window, else the whole cell with the reason, else none."""
    found = rows(connection, "select * from steady_window($cell)", cell=cell_id)[0]
    start_s, end_s, reason = found["start_s"], found["end_s"], found["reason"]
    if start_s is not None and end_s is not None and start_s < end_s:
        return start_s, end_s, reason
    last_s = rows(connection, WHOLE_CELL_SQL, cell=cell_id)[0]["end_s"]
    if last_s is None or last_s <= 0:
        return None, None, "no requests"
    if start_s is not None:
        reason = "the steady window is empty"
    return 0.0, last_s + END_S, f"whole cell: {reason}"


def _steps(
    connection: "DuckDBPyConnection", cell_id: str, start_s: float, end_s: float
) -> list[tuple[float, float]]:
    found = connection.execute(STEPS_SQL, {"cell": cell_id}).fetchall()
    return [(end, latency) for end, latency in found if start_s <= end < end_s]


def _score(model: str, family: str, n: int, correct: int) -> FamilyScore:
    interval = wilson(correct, n)
    assert interval is not None, f"a group without rows: {model} {family}"
    return FamilyScore(model, family, n, correct, correct / n, *interval)


def _pooled(cells: tuple[CellSummary, ...]) -> LoadPoint:
    rates = [cell.steps_per_min for cell in cells if cell.steps_per_min is not None]
    interval = cells[0].rate_interval if len(cells) == 1 else t_interval(rates)
    if interval is not None:
        interval = max(0.0, interval[0]), interval[1]
    first = cells[0]
    return LoadPoint(
        first.benchmark,
        first.model,
        first.policy,
        first.concurrency,
        cells,
        fmean(rates) if rates else None,
        interval,
        sum(cell.n for cell in cells),
        sum(cell.correct for cell in cells),
    )
