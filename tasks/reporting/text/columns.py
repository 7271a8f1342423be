"""Columns of the report's tables: each function formats one column of a row as text.

In: rows of the report. Out: one string a column, an absent value as a dash; `html` and `terminal`
make tables of them.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from tutti.tasks.reporting.anatomy import PARTS, Anatomy
from tutti.tasks.reporting.efficiency import Efficiency, Figure
from tutti.tasks.reporting.failures import Failure, Fault
from tutti.tasks.reporting.families import FamilyScore, all_families
from tutti.tasks.reporting.noise import Noise
from tutti.tasks.reporting.paired import COST, RATE, SCORE, SetupComparison
from tutti.tasks.reporting.scores.headline import ACCURACY, MEAN_SCORE
from tutti.tasks.reporting.summary import A_A, UNKNOWN_LOAD, CellSummary
from tutti.tasks.reporting.text.numbers import (
    ABSENT,
    count,
    number,
    number_range,
    p_value,
    rate,
    rate_range,
    score,
    score_range,
    seconds,
    seconds_range,
    share,
    share_range,
    usd,
    usd_range,
)
from tutti.tasks.reporting.trials import TrialScores

Row = TypeVar("Row")

CellColumns = Mapping[str, Callable[[CellSummary], str]]
ComparisonColumns = Mapping[str, Callable[[SetupComparison], str]]


def window(cell: CellSummary) -> str:
    """The cell's window in seconds since its first request."""
    if cell.window_start_s is None:
        return ABSENT
    return number_range(cell.window_start_s, cell.window_end_s)


def headline_value(cell: CellSummary) -> str:
    """The cell's headline score: a share, or a mean score."""
    return (score if cell.measure == MEAN_SCORE else share)(cell.accuracy)


def headline_range(cell: CellSummary) -> str:
    """The interval of the cell's headline score."""
    words = score_range if cell.measure == MEAN_SCORE else share_range
    return words(cell.accuracy_low, cell.accuracy_high)


IDENTITY: CellColumns = {
    "policy": lambda c: c.policy,
    "at once": lambda c: str(c.concurrency) if c.concurrency != UNKNOWN_LOAD else ABSENT,
    "repeat": lambda c: "A/A" if c.repeat == A_A else str(c.repeat),
}
OUTCOME: CellColumns = {
    "status": lambda c: c.status.replace("_", " "),
    "client": lambda c: "slow" if c.client_fault else "",
    "n": lambda c: count(c.n),
    "accuracy": lambda c: headline_value(c),
    "95 %, acc.": lambda c: headline_range(c),
    "infra errors": lambda c: count(c.n_infra),
    "steps": lambda c: count(c.steps),
    "steps/min": lambda c: rate(c.steps_per_min),
    "95 %, steps/min": lambda c: rate_range(c.steps_per_min_low, c.steps_per_min_high),
    "step p50 s": lambda c: seconds(c.step_latency_p50),
    "step p95 s": lambda c: seconds(c.step_latency_p95),
    "95 %, p95": lambda c: seconds_range(c.p95_low, c.p95_high),
    "step p99 s": lambda c: seconds(c.step_latency_p99),
    "cost USD": lambda c: usd(c.cost_usd),
}
TRIALS: dict[str, Callable[[TrialScores], str]] = {
    "k": lambda t: count(t.k),
    "tasks": lambda t: count(t.n),
    "left out": lambda t: count(t.n_left_out),
    "pass@k": lambda t: share(t.pass_at_k),
    "95 %, pass@k": lambda t: share_range(t.pass_at_k_low, t.pass_at_k_high),
    "pass^k": lambda t: share(t.pass_hat_k),
    "95 %, pass^k": lambda t: share_range(t.pass_hat_k_low, t.pass_hat_k_high),
    "majority@k": lambda t: share(t.majority_at_k),
    "95 %, majority": lambda t: share_range(t.majority_at_k_low, t.majority_at_k_high),
}
GRADED_TRIALS: dict[str, Callable[[TrialScores], str]] = {
    "avg@n": lambda t: score(t.avg_at_n),
    "95 %, avg": lambda t: score_range(t.avg_at_n_low, t.avg_at_n_high),
    "best of k": lambda t: score(t.best_of_k),
    "95 %, best": lambda t: score_range(t.best_of_k_low, t.best_of_k_high),
}
"""Beside `TRIALS` where a cell reports its mean score."""
REACHED: CellColumns = {
    "sessions": lambda c: number(c.sessions_mean),
    "calls in flight": lambda c: number(c.calls_in_flight_mean),
    "tools running": lambda c: number(c.tools_running_mean, 2),
    "late p50 s": lambda c: seconds(c.reached.late_p50_s),
    "late p95 s": lambda c: seconds(c.reached.late_p95_s),
    "sent p50 s": lambda c: seconds(c.step_latency_p50),
    "sent p95 s": lambda c: seconds(c.step_latency_p95),
    "intended p50 s": lambda c: seconds(c.reached.intended_p50_s),
    "intended p95 s": lambda c: seconds(c.reached.intended_p95_s),
    "client lag p99 ms": lambda c: _ms(c.reached.lag_p99_s),
    "client lag max ms": lambda c: _ms(c.reached.lag_max_s),
    "client CPU": lambda c: share(c.reached.cpu_share),
    "client": OUTCOME["client"],
}
SERVER: CellColumns = {
    "held p95 s": lambda c: seconds(c.held_p95),
    "prefix hits": lambda c: share(c.server_hit_ratio),
    "KV use": lambda c: share(c.kv_usage_mean),
    "running": lambda c: number(c.running_mean),
    "waiting": lambda c: number(c.waiting_mean),
    "preempt./s": lambda c: number(c.preemptions_per_s, 2),
    "window s": window,
    "window rule": lambda c: c.window_reason,
}
ORIGIN: CellColumns = {
    "status": OUTCOME["status"],
    "why": lambda c: c.reason or "",
    "n": lambda c: count(c.n),
    "tasks": lambda c: count(c.tasks),
    "infra errors": lambda c: count(c.n_infra),
    "window s": window,
    "task set": lambda c: c.task_set_id,
    "index": lambda c: c.index_id,
    "engine": lambda c: c.engine_id or ABSENT,
    "cell": lambda c: c.cell_id,
}
EFFICIENCY: Mapping[str, Callable[[Efficiency], str]] = {
    "solved": lambda e: count(e.solved),
    "front": lambda e: e.standing,
    "solved an engine hour": lambda e: number(e.goodput.value, 0),
    "95 %, engine hour": lambda e: _ends(e.goodput, rate_range),
    "USD/solved": lambda e: usd(e.usd.value),
    "95 %, USD": lambda e: _ends(e.usd, usd_range),
    "J/solved": lambda e: rate(e.joules.value),
    "95 %, J": lambda e: _ends(e.joules, rate_range),
    "working s/solved": lambda e: seconds(e.working_s.value),
    "95 %, working s": lambda e: _ends(e.working_s, seconds_range),
    "s an attempt": lambda e: seconds(e.seconds.value),
}
EFFICIENCY_WITHOUT_FRONT = {name: show for name, show in EFFICIENCY.items() if name != "front"}
NOISE: Mapping[str, Callable[[Noise], str]] = {
    "measured twice": lambda n: n.kind,
    "pairs": lambda n: count(n.pairs),
    "steps/min, typical": lambda n: _times(n.times),
    "steps/min, most": lambda n: _times(n.most_times),
    "points, typical": lambda n: _points(n.points),
    "points, most": lambda n: _points(n.most_points),
}
FAMILIES: Mapping[str, Callable[[FamilyScore], str]] = {
    "family": lambda s: s.family,
    "model": lambda s: s.model,
    "n": lambda s: count(s.n),
    "correct": lambda s: count(s.correct),
    "accuracy": lambda s: (score if s.measure == MEAN_SCORE else share)(s.accuracy),
    "95 %": lambda s: (score_range if s.measure == MEAN_SCORE else share_range)(s.low, s.high),
}
MESSAGE_CHARACTERS = 120
FAILURES: Mapping[str, Callable[[Failure], str]] = {
    "side": lambda f: f.side,
    "status": lambda f: f.status,
    "stop reason": lambda f: f.stop_reason,
    "error": lambda f: f.error,
    "latest message": lambda f: textwrap.shorten(
        f.message or "", MESSAGE_CHARACTERS, placeholder=" …"
    ),
    "n": lambda f: count(f.n),
    "cells": lambda f: count(f.cells),
}
FAULTS: Mapping[str, Callable[[Fault], str]] = {
    "what": lambda f: f.kind,
    "role or tool": lambda f: f.name,
    "status": lambda f: f.status,
    "error": lambda f: f.detail,
    "n": lambda f: count(f.n),
    "of": lambda f: count(f.of_all),
    "share": lambda f: share(f.n / f.of_all),
}
COMPARISONS: ComparisonColumns = {
    "where": lambda c: c.where,
    "judged": lambda c: c.name_b,
    "against": lambda c: c.name_a,
    "figure": lambda c: c.figure,
    "n": lambda c: count(c.n),
    "left out": lambda c: count(c.left_out),
    "value": lambda c: _value(c, c.mean_b),
    "was": lambda c: _value(c, c.mean_a),
    "change": lambda c: _change(c, c.change),
    "95 %": lambda c: _range(c),
    "p (Holm)": lambda c: p_value(c.p),
    "verdict": lambda c: c.verdict,
}
WORDS = frozenset(
    {"policy", "model", "benchmark", "family", "status", "window rule", "stop reason", "error"}
    | {"what", "role or tool", "where", "judged", "against", "figure", "verdict"}
    | {"task set", "index", "engine", "cell", "field", "in A", "in B", "subset", "measure"}
    | {"client", "why", "front", "measured twice", "twice", "side", "latest message"}
)
"""Columns of words; the others hold numbers and are aligned right."""
WRAPPED = ("window rule", "where", "error", "figure", "why", "latest message")


def identity(cells: Sequence[CellSummary]) -> CellColumns:
    """Columns that tell the cells apart; benchmark and model only where they differ."""
    columns: dict[str, Callable[[CellSummary], str]] = {}
    if len({cell.benchmark for cell in cells}) > 1:
        columns["benchmark"] = lambda c: c.benchmark
    if len({cell.model for cell in cells}) > 1:
        columns["model"] = lambda c: c.model
    columns |= IDENTITY
    if all(cell.repeat == cells[0].repeat for cell in cells):
        del columns["repeat"]
    return columns


def outcome_of(cells: Sequence[CellSummary]) -> CellColumns:
    """`OUTCOME`, its score named by what the cells' benchmarks report; where that is a mean score,
    the share of attempts that are right in full stands beside it."""
    if all(cell.measure == ACCURACY for cell in cells):
        return OUTCOME
    alike = all(cell.measure == MEAN_SCORE for cell in cells)
    names = {
        "accuracy": MEAN_SCORE if alike else "score",
        "95 %, acc.": "95 %, score",
    }
    columns: dict[str, Callable[[CellSummary], str]] = {}
    for name, show in OUTCOME.items():
        columns[names.get(name, name)] = show
        if name == "95 %, acc.":
            columns["right in full"] = lambda c: share(c.correct / c.n if c.n else None)
    return columns


def outcome(cells: Sequence[CellSummary]) -> CellColumns:
    """`outcome_of`; for cells with several trials a task also avg@n, pass@k, pass^k and majority@k.

    k is the highest that every cell with several trials reaches.
    """
    columns = dict(outcome_of(cells))
    most = [cell.trials[-1].k for cell in cells if cell.trials]
    if most:
        k = min(most)
        columns["avg@n"] = lambda c: _avg_at_n(c)
        columns[f"pass@{k}"] = _at_k(k, lambda t: t.pass_at_k)
        columns[f"pass^{k}"] = _at_k(k, lambda t: t.pass_hat_k)
        columns[f"majority@{k}"] = _at_k(k, lambda t: t.majority_at_k)
    return columns


def _avg_at_n(cell: CellSummary) -> str:
    first = cell.trials[0] if cell.trials else None
    show = score if cell.measure == MEAN_SCORE else share
    return show(first.avg_at_n if first else None)


def _at_k(k: int, value_of: Callable[[TrialScores], float]) -> Callable[[CellSummary], str]:
    return lambda cell: share(next((value_of(t) for t in cell.trials if t.k == k), None))


def efficiency(found: Sequence[Efficiency]) -> Mapping[str, Callable[[Efficiency], str]]:
    """`EFFICIENCY`; without the front where all rows, or none, are on it: that tells nothing."""
    alike = len({each.standing for each in found}) < 2
    return EFFICIENCY_WITHOUT_FRONT if alike else EFFICIENCY


def trial_rows(cells: Sequence[CellSummary]) -> list[tuple[CellSummary, TrialScores]]:
    """A row for each cell and k, of the cells with several trials a task."""
    return [(cell, scores) for cell in cells for scores in cell.trials]


def trial_columns(
    found: Sequence[tuple[CellSummary, TrialScores]],
) -> Mapping[str, Callable[[tuple[CellSummary, TrialScores]], str]]:
    """`identity` of a row's cell and `TRIALS`."""
    named = identity([cell for cell, _ in found])
    columns: dict[str, Callable[[tuple[CellSummary, TrialScores]], str]] = {}
    for name, of_cell in named.items():
        columns[name] = lambda row, show=of_cell: show(row[0])  # type: ignore[misc]
    graded = any(cell.measure == MEAN_SCORE for cell, _ in found)
    for name, of_trials in (TRIALS | (GRADED_TRIALS if graded else {})).items():
        columns[name] = lambda row, show=of_trials: show(row[1])  # type: ignore[misc]
    return columns


def family_columns(found: Sequence[FamilyScore]) -> Mapping[str, Callable[[FamilyScore], str]]:
    """`FAMILIES`, with the score named by what the benchmarks report."""
    named = {each.measure for each in found}
    if MEAN_SCORE not in named:
        return FAMILIES
    name = MEAN_SCORE if len(named) == 1 else "score"
    return {name if key == "accuracy" else key: show for key, show in FAMILIES.items()}


def subset_columns(found: Sequence[FamilyScore]) -> Mapping[str, Callable[[FamilyScore], str]]:
    """`family_columns` of subsets."""
    return {
        "subset" if key == "family" else key: show for key, show in family_columns(found).items()
    }


def family_rows(scores: Sequence[FamilyScore]) -> list[FamilyScore]:
    """Scores by family, so that a family's models stand together; all families last, where there
    are several."""
    several = len({each.family for each in scores}) > 1
    return sorted(scores, key=lambda s: s.family) + (all_families(scores) if several else [])


class OfCell(Protocol):
    """A row about a cell."""

    @property
    def cell(self) -> CellSummary:
        """The cell that the row describes."""
        ...


def which(found: Sequence[OfCell]) -> Mapping[str, Callable[[OfCell], str]]:
    """`identity` for rows about cells."""
    return {
        name: lambda row, show=show: show(row.cell)  # type: ignore[misc]
        for name, show in identity([each.cell for each in found]).items()
    }


def anatomy_columns(found: Sequence[Anatomy]) -> Mapping[str, Callable[[Anatomy], str]]:
    """Seconds a step by part; parts that no cell has are left out."""
    columns: dict[str, Callable[[Anatomy], str]] = dict(which(found))
    for part in PARTS:
        if any(each.seconds[part] > 0 for each in found):
            columns[part] = lambda a, part=part: seconds(a.seconds[part])  # type: ignore[misc]
    return columns | {"all": lambda a: seconds(a.total)}


def with_values(
    columns: Mapping[str, Callable[[Row], str]], found: Sequence[Row]
) -> dict[str, Callable[[Row], str]]:
    """The columns that at least one row has a value in."""
    return {
        name: show
        for name, show in columns.items()
        if any(show(row) not in (ABSENT, "") for row in found)
    }


def _value(compared: SetupComparison, value: float | None) -> str:
    if compared.figure == SCORE.name:
        return share(value)
    return {RATE: rate, COST.name: usd}.get(compared.figure, seconds)(value)


def _range(compared: SetupComparison) -> str:
    if compared.low is None or compared.high is None:
        return ABSENT
    if compared.figure == RATE:
        return f"{compared.low:.2f} to {compared.high:.2f}"
    return f"{_change(compared, compared.low)} to {_change(compared, compared.high)}"


def _change(compared: SetupComparison, value: float | None) -> str:
    if value is None:
        return ABSENT
    if compared.figure == RATE:
        return f"{value:.2f} times"
    if compared.figure == SCORE.name:
        return f"{value * 100:+.1f}"
    text = (usd if compared.figure == COST.name else seconds)(value)
    return text if value < 0 else f"+{text}"


def _ends(figure: Figure, show: Callable[[float | None, float | None], str]) -> str:
    return show(figure.low, figure.high)


def _ms(value: float | None) -> str:
    return number(None if value is None else value * 1000)


def _times(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f} times"


def _points(value: float | None) -> str:
    return ABSENT if value is None else f"{value * 100:.1f}"
