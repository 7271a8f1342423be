"""Gates: bounds that a sweep must meet, and how far it may fall behind a baseline.

In: a gate file (YAML) or the gates of a suite, a sweep, and a baseline where one is named. Out: an
`Outcome` for each set-up a gate is about, and rows in `verdicts`. A gate that finds nothing to
judge is inconclusive, never passed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tutti.storage import Catalog, content_hash
from tutti.storage import catalog as cat
from tutti.tasks.scoring import statistics
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
from tutti.tasks.sweeps.results import both, load_points, ratio, summarise
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
"""The unit of n where it is not tasks."""
NOTHING = "no set-up to judge: neither the sweep nor the baseline may lack it"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one gate at one set-up."""

    gate: Gate
    where: str = ""
    status: Status = "inconclusive"
    verdict: str = "inconclusive"
    """better, worse, same or inconclusive: than the bound, or than the baseline."""
    value: float | None = None
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

    @property
    def words(self) -> str:
        """The figures for alerts and pages; empty if nothing was measured.

        ``score 70.0 -> 49.0 % (n = 100, -21.0 points [-33.0, -9.0])``
        """
        metric, show = self.gate.metric, VALUES[self.gate.metric]
        if self.after is None:
            return ""
        n = f"n = {self.n:,}{COUNTED.get(metric, '')}" if self.n is not None else ""
        if self.before is None:
            return f"{metric} {show(self.after)}{self._interval(show)} ({n})"
        change = ""
        if self.value is not None:  # of scores in points, of others as a share
            unit = " points" if metric == "score" else " %"
            ends = self._interval(lambda value: f"{100 * value:+.1f}")
            change = f"{100 * self.value:+.1f}{unit}{ends}"
        details = ", ".join(filter(None, (n, change)))
        return f"{metric} {show(self.before)} -> {show(self.after)} ({details})"

    def _interval(self, show: Format) -> str:
        if self.low is None or self.high is None:
            return ""
        return f" [{show(self.low)}, {show(self.high)}]"


class _Figure(NamedTuple):
    value: float | None = None
    interval: statistics.Interval | None = None
    n: int = 0
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
    passes when the interval of the difference lies within it to the bad side, and fails when the
    difference is surely worse (Holm over the gate's set-ups). Without a baseline a margin is
    inconclusive where `lacking` says why there is none; else it raises GateError.
    """
    outcomes: list[Outcome] = []
    for gate in gates:
        cells = tuple(cell for cell in sweep.cells if _is_meant(gate, cell))
        meant = Side(sweep.name, sweep.kind, cells)
        if gate.margin is None:
            judged = _bounded(connection, gate, sweep)
        elif baseline is None and lacking is not None:
            judged = [Outcome(gate, reason=lacking, lacks_baseline=True)]
        elif baseline is None:
            raise GateError(f"gate {gate}: name the baseline, in the file or with --baseline")
        elif not cells:
            judged = []
        elif gate.metric in METRICS:
            rows = compare_sides(connection, baseline, meant, gate.metric, gate.margin)
            judged = [_judged_margin(gate, row) for row in rows]
        else:
            judged = _rates_against(connection, gate, meant, baseline)
        outcomes += judged or [Outcome(gate, reason=NOTHING)]
    return outcomes


def enter_verdicts(catalog: Catalog, sweep: Side, outcomes: Sequence[Outcome]) -> None:
    """Enter a row in `verdicts` for each; the same gates again on the same cells replace theirs."""
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
    points = _points(connection, gate, sweep)
    outcomes = []
    for key, cells in set_ups(sweep.cells, sweep.cells)[0].items():
        if not _is_meant(gate, dict(key)):
            continue
        if gate.metric in RATES:
            figure = next((points[cell] for cell in cells if cell in points), _Figure())
        else:
            figure = FIGURES[gate.metric](sampled(connection, cells))
        outcomes.append(_judged_bound(gate, named(key), figure, cells))
    return outcomes


def _judged_bound(gate: Gate, where: str, figure: _Figure, cells: Sequence[str]) -> Outcome:
    low, high = figure.interval or (None, None)
    bound = gate.at_least if gate.at_least is not None else gate.at_most
    assert bound is not None, "a gate without margin has a bound"
    status: Status = "inconclusive"
    verdict, reason = "inconclusive", "the 95 % interval holds the bound"
    if low is None or high is None:
        reason = figure.lacks
    elif low >= bound if gate.at_least is not None else high <= bound:
        status, verdict = "passed", "better"
        reason = "the 95 % interval lies on the good side"
    elif high < bound if gate.at_least is not None else low > bound:
        status, verdict = "failed", "worse"
        reason = "the 95 % interval lies on the bad side"
    outcome = Outcome(gate, where, status, verdict, figure.value, low, high, None, figure.n, reason)
    return replace(outcome, cells_b=tuple(cells), after=figure.value)


def _judged_margin(gate: Gate, row: CellComparison) -> Outcome:
    status, reason = _margin_status(gate, both(row.ci_low, row.ci_high), row.verdict)
    if row.lost_share > statistics.MOST_LOST or not row.n:
        status, reason = "inconclusive", row.reason
    figures = (row.difference, row.ci_low, row.ci_high, row.p_holm, row.n)
    outcome = Outcome(gate, row.where, status, row.verdict, *figures, reason)
    means: dict[str, Any] = {"before": row.mean_a, "after": row.mean_b}
    return replace(outcome, cells_a=row.cells_a, cells_b=row.cells_b, **means)


def _rates_against(
    connection: "DuckDBPyConnection", gate: Gate, meant: Side, baseline: Side
) -> list[Outcome]:
    """Compare rates as a ratio of independent intervals; pairing by task would not help."""
    of_a, of_b = set_ups(baseline.cells, meant.cells)
    points = _points(connection, gate, baseline) | _points(connection, gate, meant)
    outcomes = []
    for key in (key for key in of_a if key in of_b):
        a, b = (points.get(side[key][0], _Figure()) for side in (of_a, of_b))
        change, value = None, None
        if a.value and b.value:
            value = b.value / a.value - 1
            if a.interval and b.interval:
                change = less_one(ratio(b.value, b.interval, a.value, a.interval))
        verdict = _word(gate, change)
        status, reason = _margin_status(gate, change, verdict)
        low, high = change or (None, None)
        figures = (value, low, high, None, a.n + b.n)
        cells = (tuple(of_a[key]), tuple(of_b[key]))
        outcome = Outcome(gate, named(key), status, verdict, *figures, reason, *cells)
        outcomes.append(replace(outcome, before=a.value, after=b.value))
    return outcomes


def _margin_status(
    gate: Gate, change: statistics.Interval | None, verdict: str
) -> tuple[Status, str]:
    assert gate.margin is not None, "the caller saw to it"
    if change is None:
        return "inconclusive", "too little was measured for an interval"
    worst = change[0] if gate.metric in HIGHER_IS_BETTER else -change[1]
    if worst >= -gate.margin:
        return "passed", "the 95 % interval reaches no further than the margin"
    if verdict == "worse":
        return "failed", "worse, and by how much may be more than the margin"
    return "inconclusive", "the 95 % interval reaches beyond the margin"


def _word(gate: Gate, change: statistics.Interval | None) -> str:
    assert gate.margin is not None, "the caller saw to it"
    if change is None:
        return "inconclusive"
    if change[0] > 0 or change[1] < 0:
        return "better" if (change[0] > 0) == (gate.metric in HIGHER_IS_BETTER) else "worse"
    return "same" if -gate.margin <= change[0] and change[1] <= gate.margin else "inconclusive"


def _is_meant(gate: Gate, config: Mapping[str, Any]) -> bool:
    return all(str(config[axis]) == str(value) for axis, value in gate.where.items())


def _points(connection: "DuckDBPyConnection", gate: Gate, side: Side) -> dict[str, _Figure]:
    sweeps = dict.fromkeys(cell["sweep_id"] for cell in side.cells) if gate.metric in RATES else ()
    figures: dict[str, _Figure] = {}
    for point in (p for sweep in sweeps for p in load_points(summarise(connection, sweep))):
        value, ends = point.rate, point.rate_interval
        if gate.metric != "steps_per_min":
            value, ends = point.latency, point.latency_interval
        figures |= dict.fromkeys(point.cell_ids, _Figure(value, ends, point.steps))
    return figures


def accuracy_of(
    connection: "DuckDBPyConnection", cells: Sequence[str]
) -> tuple[float | None, float | None, float | None]:
    """The score of cells, repeats together, and the ends of its interval as gates judge it."""
    score = _score(sampled(connection, cells))
    return score.value, *(score.interval or (None, None))


def _score(samples: SampledTasks) -> _Figure:
    tasks = samples.by_task("score")
    if not tasks:
        return _Figure()
    mean = statistics.mean_interval(list(tasks.values()))
    is_known = samples.lost <= statistics.MOST_LOST * (samples.lost + len(samples.rows))
    return _Figure(mean.value, both(mean.low, mean.high) if is_known else None, mean.n)


def _mean_of(column: str, samples: SampledTasks) -> _Figure:
    if unknown := samples.unknown(column):
        return _Figure(lacks=unknown_words(column, unknown))
    means = [sum(values) / len(values) for values in samples.by_task(column).values()]
    if not means:
        return _Figure()
    return _Figure(statistics.spread(means).mean, statistics.bootstrap_mean(means), len(means))


def _cost_per_solved(samples: SampledTasks) -> _Figure:
    if unknown := samples.unknown("cost_usd"):
        return _Figure(lacks=unknown_words("cost_usd", unknown))
    cost, solved = samples.by_task("cost_usd"), samples.by_task("solved")
    if not cost:
        return _Figure()
    per = statistics.ratio_of_sums(
        [sum(each) for each in cost.values()], [sum(solved[t]) for t in cost]
    )
    return _Figure(per.value, both(per.low, per.high), per.n)


def _infra_share(samples: SampledTasks) -> _Figure:
    n = samples.lost + len(samples.rows)
    share = samples.lost / n if n else None
    return _Figure(share, statistics.wilson(samples.lost, n), n)


FIGURES: Mapping[str, Callable[[SampledTasks], _Figure]] = {
    "score": _score,
    "cost_usd": partial(_mean_of, "cost_usd"),
    "working_s": partial(_mean_of, "working_s"),
    "cost_per_solved": _cost_per_solved,
    "infra_share": _infra_share,
}
