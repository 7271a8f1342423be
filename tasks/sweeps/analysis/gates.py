"""Gates: what a sweep must reach, and how far it may fall behind a baseline.

In: a gate file (YAML) or the gates of a suite, a sweep, and a baseline where one is named. Out: an
`Outcome` for each set-up a gate is about, and rows in `verdicts`. A gate that finds nothing to
judge is inconclusive, never passed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tutti.storage import Catalog, content_hash
from tutti.storage import catalog as cat
from tutti.tasks.scoring.statistics import (
    MOST_LOST,
    Interval,
    bootstrap_mean,
    mean_interval,
    ratio_of_sums,
    spread,
    wilson,
)
from tutti.tasks.sweeps import GateError
from tutti.tasks.sweeps.analysis.compare import (
    METRICS,
    CellComparison,
    SampledTasks,
    Side,
    compare_sides,
    less_one,
    named,
    sampled,
    set_ups,
    unknown_words,
)
from tutti.tasks.sweeps.results import LoadPoint, load_points, ratio, summarise
from tutti.tasks.sweeps.spec import Gate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Status = Literal["passed", "failed", "inconclusive"]
HIGHER_IS_BETTER = frozenset({"score", "steps_per_min"})
RATES = frozenset({"steps_per_min", "step_latency_p95"})
Format = Callable[[float], str]
PERCENT: Format = lambda value: f"{100 * value:.1f} %"  # noqa: E731
VALUES: dict[str, Format] = {
    "score": PERCENT,
    "infra_share": PERCENT,
    "cost_usd": lambda value: f"{value:.4g} USD",
    "cost_per_solved": lambda value: f"{value:.4g} USD",
    "working_s": lambda value: f"{value:.1f} s",
    "step_latency_p95": lambda value: f"{value:.2f} s",
    "steps_per_min": lambda value: f"{value:,.0f}",
}
COUNTED = {"steps_per_min": " steps", "step_latency_p95": " steps"}
"""What n counts where it is not tasks."""
NOTHING = "no set-up to judge: neither the sweep nor the baseline may lack it"


@dataclass(frozen=True)
class Outcome:
    """One gate at one set-up."""

    gate: Gate
    where: str = ""
    status: Status = "inconclusive"
    verdict: str = "inconclusive"
    """better, worse, same or inconclusive: than the bound, or than the baseline."""
    value: float | None = None
    """The figure, or its difference from the baseline."""
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int | None = None
    """Tasks behind it; of rates the steps."""
    reason: str = ""
    cells_a: tuple[str, ...] = ()
    """The baseline's; empty for a bound."""
    cells_b: tuple[str, ...] = ()
    lacks_baseline: bool = False
    """Whether it is a margin, and there is no baseline to judge it by."""
    before: float | None = None
    """The baseline's figure; None for a bound."""
    after: float | None = None
    """The sweep's figure."""

    @property
    def words(self) -> str:
        """Its figures for alerts and pages; empty where nothing was measured.

        ``score 70.0 -> 49.0 % (n = 100, -21.0 points [-33.0, -9.0])``
        """
        metric, value = self.gate.metric, VALUES[self.gate.metric]
        if self.after is None:
            return ""
        n = f"n = {self.n:,}{COUNTED.get(metric, '')}" if self.n is not None else ""
        if self.before is None:
            return f"{metric} {value(self.after)}{self._interval(value)} ({n})"
        change = ", ".join(each for each in (n, self._change) if each)
        return f"{metric} {value(self.before)} -> {value(self.after)} ({change})"

    @property
    def _change(self) -> str:
        """The difference from the baseline: of scores in points, of others as a share."""
        if self.value is None:
            return ""
        unit = " points" if self.gate.metric == "score" else " %"
        ends = self._interval(lambda value: f"{100 * value:+.1f}")
        return f"{100 * self.value:+.1f}{unit}{ends}"

    def _interval(self, value: Format) -> str:
        if self.low is None or self.high is None:
            return ""
        return f" [{value(self.low)}, {value(self.high)}]"


class _Figure(NamedTuple):
    value: float | None
    interval: Interval | None
    n: int
    lacks: str = "too little was measured for an interval, or too much lost to infrastructure"
    """Why there is no interval, if there is none."""


def check_gates(
    connection: "DuckDBPyConnection",
    gates: Sequence[Gate],
    sweep: Side,
    baseline: Side | None,
    lacking: str | None = None,
) -> list[Outcome]:
    """Judge every gate at every set-up of `sweep` it is about.

    A bound passes when the 95 % interval lies on its good side, fails when on the other. A margin
    passes when the interval of the difference reaches no further than the margin to the bad side,
    and fails when the difference is surely for the worse (Holm over the gate's set-ups). A margin
    without a baseline is inconclusive where `lacking` says why there is none; else it raises
    GateError.
    """
    found: list[Outcome] = []
    for gate in gates:
        if gate.margin is None:
            outcomes = _bounded(connection, gate, sweep)
        elif baseline is None and lacking is not None:
            outcomes = [Outcome(gate, reason=lacking, lacks_baseline=True)]
        elif baseline is None:
            raise GateError(f"gate {gate}: name the baseline, in the file or with --baseline")
        elif gate.metric in METRICS:
            outcomes = _against(connection, gate, sweep, baseline)
        else:
            outcomes = _rates_against(connection, gate, sweep, baseline)
        found += outcomes or [Outcome(gate, reason=NOTHING)]
    return found


def enter_verdicts(catalog: Catalog, sweep: Side, outcomes: Sequence[Outcome]) -> None:
    """A row in `verdicts` for each; the same gates again on the same cells replace theirs."""
    sweep_id = sweep.cells[0]["sweep_id"]
    with catalog.transaction() as connection:
        for each in outcomes:
            named = [sweep_id, str(each.gate), each.where, each.cells_a, each.cells_b]
            detail = asdict(each) | {"gate": each.gate.model_dump(exclude_none=True)}
            row = {
                "verdict_id": f"verdict:{content_hash(named)}",
                "sweep_id": sweep_id,
                "cell_a": ",".join(each.cells_a),
                "cell_b": ",".join(each.cells_b),
                "metric": each.gate.metric,
                "n": each.n,
                "difference": each.value,
                "ci_low": each.low,
                "ci_high": each.high,
                "p": each.p,
                "verdict": each.verdict,
                "reason": f"{each.status}: {each.gate}: {each.reason}",
                "detail": json.dumps(detail),
                "created_at": cat.now(),
            }
            cat.upsert(connection, cat.verdicts, row)


def _bounded(connection: "DuckDBPyConnection", gate: Gate, sweep: Side) -> list[Outcome]:
    points = {p.cells[0].cell_id: p for p in _points(connection, sweep)} if _is_rate(gate) else {}
    found = []
    for key, cells in set_ups(sweep.cells, sweep.cells)[0].items():
        if _is_meant(gate, dict(key)):
            point = next((points[cell] for cell in cells if cell in points), None)
            figure = (
                _of_point(gate, point)
                if _is_rate(gate)
                else FIGURES[gate.metric](sampled(connection, cells))
            )
            found.append(_judged_bound(gate, named(key), figure, cells))
    return found


def _judged_bound(gate: Gate, where: str, figure: _Figure, cells: Sequence[str]) -> Outcome:
    low, high = figure.interval or (None, None)
    bound = gate.at_least if gate.at_least is not None else gate.at_most
    assert bound is not None, "a gate without margin has a bound"
    status: Status = "inconclusive"
    reason = "the 95 % interval holds the bound"
    if low is None or high is None:
        reason = figure.lacks
    elif low >= bound if gate.at_least is not None else high <= bound:
        status, reason = "passed", "the 95 % interval lies on the good side"
    elif high < bound if gate.at_least is not None else low > bound:
        status, reason = "failed", "the 95 % interval lies on the bad side"
    verdict = {"passed": "better", "failed": "worse"}.get(status, status)
    ends = (figure.value, low, high, None, figure.n)
    cells_b, after = tuple(cells), figure.value
    return Outcome(gate, where, status, verdict, *ends, reason, cells_b=cells_b, after=after)


def _against(
    connection: "DuckDBPyConnection", gate: Gate, sweep: Side, baseline: Side
) -> list[Outcome]:
    assert gate.margin is not None, "the caller saw to it"
    meant = Side(sweep.name, sweep.kind, tuple(c for c in sweep.cells if _is_meant(gate, c)))
    if not meant.cells:
        return []
    rows = compare_sides(connection, baseline, meant, gate.metric, gate.margin)
    return [_judged_margin(gate, row) for row in rows]


def _judged_margin(gate: Gate, row: CellComparison) -> Outcome:
    interval = None if row.ci_low is None or row.ci_high is None else (row.ci_low, row.ci_high)
    status, reason = _margin_status(gate, interval, row.verdict)
    if row.lost_share > MOST_LOST or not row.n:
        status, reason = "inconclusive", row.reason
    figures = (row.difference, row.ci_low, row.ci_high, row.p_holm)
    cells, before, after = (row.cells_a, row.cells_b), row.mean_a, row.mean_b
    judged = (gate, row.where, status, row.verdict)
    return Outcome(*judged, *figures, row.n, reason, *cells, before=before, after=after)


def _rates_against(
    connection: "DuckDBPyConnection", gate: Gate, sweep: Side, baseline: Side
) -> list[Outcome]:
    """Rates of two runs share no tasks' luck worth pairing: a ratio of independent intervals."""
    meant = [cell for cell in sweep.cells if _is_meant(gate, cell)]
    of_a, of_b = set_ups(baseline.cells, meant)
    points = {
        cell.cell_id: point
        for side in (baseline, sweep)
        for point in _points(connection, side)
        for cell in point.cells
    }
    found = []
    for key in of_a:
        if key not in of_b:
            continue
        a, b = (_of_point(gate, points.get(side[key][0])) for side in (of_a, of_b))
        both = None
        if a.value and b.value and a.interval and b.interval:
            both = ratio(b.value, b.interval, a.value, a.interval)
        change = less_one(both)
        value = b.value / a.value - 1 if a.value and b.value else None
        verdict = _word(gate, change)
        status, reason = _margin_status(gate, change, verdict)
        low, high = change or (None, None)
        figures = (value, low, high, None, a.n + b.n)
        judged, cells = (gate, named(key), status, verdict), (tuple(of_a[key]), tuple(of_b[key]))
        before, after = a.value, b.value
        found.append(Outcome(*judged, *figures, reason, *cells, before=before, after=after))
    return found


def _margin_status(gate: Gate, change: Interval | None, verdict: str) -> tuple[Status, str]:
    assert gate.margin is not None, "the caller saw to it"
    if change is None:
        return "inconclusive", "too little was measured for an interval"
    worst = change[0] if gate.metric in HIGHER_IS_BETTER else -change[1]
    if worst >= -gate.margin:
        return "passed", "the 95 % interval reaches no further than the margin"
    if verdict == "worse":
        return "failed", "worse, and by how much may be more than the margin"
    return "inconclusive", "the 95 % interval reaches beyond the margin"


def _word(gate: Gate, change: Interval | None) -> str:
    if change is None:
        return "inconclusive"
    if change[0] > 0 or change[1] < 0:
        return "better" if (change[0] > 0) == (gate.metric in HIGHER_IS_BETTER) else "worse"
    assert gate.margin is not None, "the caller saw to it"
    return "same" if -gate.margin <= change[0] and change[1] <= gate.margin else "inconclusive"


def _is_rate(gate: Gate) -> bool:
    return gate.metric in RATES


def _is_meant(gate: Gate, config: Mapping[str, Any]) -> bool:
    return all(str(config[axis]) == str(value) for axis, value in gate.where.items())


def _points(connection: "DuckDBPyConnection", side: Side) -> list[LoadPoint]:
    sweeps = dict.fromkeys(cell["sweep_id"] for cell in side.cells)
    return [p for sweep in sweeps for p in load_points(summarise(connection, sweep))]


def _of_point(gate: Gate, point: LoadPoint | None) -> _Figure:
    if point is None:
        return _Figure(None, None, 0)
    if gate.metric == "steps_per_min":
        return _Figure(point.rate, point.rate_interval, point.steps)
    return _Figure(point.latency, point.latency_interval, point.steps)


def accuracy_of(
    connection: "DuckDBPyConnection", cells: Sequence[str]
) -> tuple[float | None, Interval | None]:
    """The score of cells, repeats together, and its interval as gates judge it."""
    found = _score(sampled(connection, cells))
    return found.value, found.interval


def _score(found: SampledTasks) -> _Figure:
    tasks = found.by_task("score")
    if not tasks:
        return _Figure(None, None, 0)
    mean = mean_interval(list(tasks.values()))
    ends = None if mean.low is None or mean.high is None else (mean.low, mean.high)
    if found.lost > MOST_LOST * (found.lost + len(found.rows)):
        ends = None
    return _Figure(mean.value, ends, mean.n)


def _mean_of(column: str) -> Callable[[SampledTasks], _Figure]:
    def figure(found: SampledTasks) -> _Figure:
        if unknown := found.unknown(column):
            return _Figure(None, None, 0, unknown_words(column, unknown))
        means = [sum(values) / len(values) for values in found.by_task(column).values()]
        if not means:
            return _Figure(None, None, 0)
        return _Figure(spread(means).mean, bootstrap_mean(means), len(means))

    return figure


def _cost_per_solved(found: SampledTasks) -> _Figure:
    if unknown := found.unknown("cost_usd"):
        return _Figure(None, None, 0, unknown_words("cost_usd", unknown))
    cost, solved = found.by_task("cost_usd"), found.by_task("solved")
    if not cost:
        return _Figure(None, None, 0)
    per = ratio_of_sums([sum(each) for each in cost.values()], [sum(solved[t]) for t in cost])
    ends = None if per.low is None or per.high is None else (per.low, per.high)
    return _Figure(per.value, ends, per.n)


def _infra_share(found: SampledTasks) -> _Figure:
    n = found.lost + len(found.rows)
    return _Figure(found.lost / n if n else None, wilson(found.lost, n), n)


FIGURES: Mapping[str, Callable[[SampledTasks], _Figure]] = {
    "score": _score,
    "cost_usd": _mean_of("cost_usd"),
    "working_s": _mean_of("working_s"),
    "cost_per_solved": _cost_per_solved,
    "infra_share": _infra_share,
}
