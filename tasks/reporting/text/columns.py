"""Columns of the report's tables: each function formats one column of a row as text.

In: rows of the report. Out: columns for a `Table`, an absent value as a dash.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from tutti.tasks.reporting.measures.anatomy import PARTS, Anatomy
from tutti.tasks.reporting.measures.efficiency import Efficiency
from tutti.tasks.reporting.measures.failures import Failure, Transcript
from tutti.tasks.reporting.measures.families import FamilyScore, all_families
from tutti.tasks.reporting.measures.named import NamedMetric
from tutti.tasks.reporting.measures.numbers import (
    ABSENT,
    ACCURACY,
    MEAN_SCORE,
    Show,
    count,
    headline,
    number,
    p_value,
    rate,
    score,
    seconds,
    share,
    span,
    usd,
)
from tutti.tasks.reporting.measures.pairs import Noise
from tutti.tasks.reporting.measures.table import Columns, Row, Table, tabulate, texts
from tutti.tasks.sweeps.analysis import CellComparison, Figure
from tutti.tasks.sweeps.results import A_A, UNKNOWN_LOAD, CellSummary, TrialScores

OUTCOME_NOTE = (
    "n: attempts that count in accuracy (ok, limit, model_error); infrastructure errors are never "
    "wrong answers and stand beside it. Steps, rates and latencies are of the cell's window; "
    "accuracy, errors and cost are of the whole cell. Percentiles are of the steps counted; "
    "intervals of rates and of p95 are by batches of steps, since neighbouring steps are alike."
)
TRIALS_NOTE = (
    "Means over the tasks with at least k counted trials; left out: tasks with fewer. pass@k: at "
    "least one of k trials is right; pass^k: all are. majority@k: the expected score of the answer "
    "that most of k trials give. best of k: the expected highest score. Intervals are over tasks."
)
REACHED_NOTE = (
    "Means over the window, beside the sessions asked for (at once). late: how long after it was "
    "due an attempt of an open loop started. sent: a step's latency from its send; intended: from "
    "when its session could have sent it, so with what the client itself added. slow: the client "
    "was the bottleneck (docs/report.md has the rule)."
)
EFFICIENCY_NOTE = (
    "Solved in time: no step slower than the suite's limit on step latency, else than twice the "
    "baseline's p95 at the lowest load; of the windows, as are joules, which are of all GPUs. Cost "
    "and working seconds: of all attempts of the cells, failed ones too, over the right answers; "
    "intervals are Fieller's, over tasks, of joules over tenths of the windows."
)
FRONT_NOTE = (
    "front: on: no other set-up of the benchmark can be as cheap and as good, as far as the "
    "intervals go; off: one surely is; maybe: the rest."
)
NOISE_NOTE = (
    "A/A: the first policy measured once more with the same tasks, order and seeds; in no other "
    "figure. Repeats have other seeds, so their scores differ by more than the engine's noise."
)
SERVER_NOTE = (
    "Means over the window. Prefix hits: tokens found in the cache over tokens looked up, by the "
    "server's counters. The window is in seconds since the cell's first request."
)
COMPARED_NOTE = (
    "Scores, seconds and cost: paired by task, repeats of a task averaged first; n: tasks tried on "
    "both sides. steps/min: a ratio of independent rates; n: steps. p is Holm's over the "
    "comparisons of one figure. same: the interval lies within 5 points of score, or 5 % of the "
    "value before; inconclusive: the data does not tell, or a window is too short."
)


CellColumns = Columns[CellSummary]


def window(cell: CellSummary) -> str:
    return span(number, cell.window_start_s, cell.window_end_s)


IDENTITY: CellColumns = {
    "policy": lambda c: c.policy,
    "at once": lambda c: str(c.concurrency) if c.concurrency != UNKNOWN_LOAD else ABSENT,
    "repeat": lambda c: "A/A" if c.repeat == A_A else str(c.repeat),
}
OUTCOME: CellColumns = {
    "status": lambda c: c.status.replace("_", " "),
    "client": lambda c: "slow" if c.client_fault else "",
    "n": lambda c: count(c.n),
    "accuracy": lambda c: headline(c.measure)(c.accuracy),
    "95 %, acc.": lambda c: span(headline(c.measure), c.accuracy_low, c.accuracy_high),
    "infra errors": lambda c: count(c.n_infra),
    "steps": lambda c: count(c.steps),
    "steps/min": lambda c: rate(c.steps_per_min),
    "95 %, steps/min": lambda c: span(rate, c.steps_per_min_low, c.steps_per_min_high),
    "step p50 s": lambda c: seconds(c.step_latency_p50),
    "step p95 s": lambda c: seconds(c.step_latency_p95),
    "95 %, p95": lambda c: span(seconds, c.p95_low, c.p95_high),
    "step p99 s": lambda c: seconds(c.step_latency_p99),
    "cost USD": lambda c: usd(c.cost_usd),
}
TRIALS: dict[str, Callable[[TrialScores], str]] = {
    "k": lambda t: count(t.k),
    "tasks": lambda t: count(t.n),
    "left out": lambda t: count(t.n_left_out),
    "pass@k": lambda t: share(t.pass_at_k),
    "95 %, pass@k": lambda t: span(share, t.pass_at_k_low, t.pass_at_k_high),
    "pass^k": lambda t: share(t.pass_hat_k),
    "95 %, pass^k": lambda t: span(share, t.pass_hat_k_low, t.pass_hat_k_high),
    "majority@k": lambda t: share(t.majority_at_k),
    "95 %, majority": lambda t: span(share, t.majority_at_k_low, t.majority_at_k_high),
}
GRADED_TRIALS: dict[str, Callable[[TrialScores], str]] = {
    "avg@n": lambda t: score(t.avg_at_n),
    "95 %, avg": lambda t: span(score, t.avg_at_n_low, t.avg_at_n_high),
    "best of k": lambda t: score(t.best_of_k),
    "95 %, best": lambda t: span(score, t.best_of_k_low, t.best_of_k_high),
}
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
    "client lag p99 ms": lambda c: _scaled("{:,.1f}", c.reached.lag_p99_s, 1000),
    "client lag max ms": lambda c: _scaled("{:,.1f}", c.reached.lag_max_s, 1000),
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
EFFICIENCY: Columns[Efficiency] = {
    "solved": lambda e: count(e.solved),
    "front": lambda e: e.standing,
    "solved an engine hour": lambda e: number(e.goodput.value, 0),
    "95 %, engine hour": lambda e: span(rate, e.goodput.low, e.goodput.high),
    "USD/solved": lambda e: usd(e.usd.value),
    "95 %, USD": lambda e: span(usd, e.usd.low, e.usd.high),
    "J/solved": lambda e: rate(e.joules.value),
    "95 %, J": lambda e: span(rate, e.joules.low, e.joules.high),
    "working s/solved": lambda e: seconds(e.working_s.value),
    "95 %, working s": lambda e: span(seconds, e.working_s.low, e.working_s.high),
    "s an attempt": lambda e: seconds(e.seconds.value),
}
NOISE: Columns[Noise] = {
    "measured twice": lambda n: n.kind,
    "pairs": lambda n: count(n.pairs),
    "steps/min, typical": lambda n: _scaled("{:.3f} times", n.times),
    "steps/min, most": lambda n: _scaled("{:.3f} times", n.most_times),
    "points, typical": lambda n: _scaled("{:.1f}", n.points, 100),
    "points, most": lambda n: _scaled("{:.1f}", n.most_points, 100),
}
FAMILIES: Columns[FamilyScore] = {
    "family": lambda s: s.family,
    "model": lambda s: s.model,
    "n": lambda s: count(s.n),
    "correct": lambda s: count(s.correct),
    "accuracy": lambda s: headline(s.measure)(s.accuracy),
    "95 %": lambda s: span(headline(s.measure), s.low, s.high),
}
MESSAGE_CHARACTERS = 120
NO_FAILURES = "No attempt failed or was wrong."
FAILURES: Columns[Failure] = {
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
FAULTS: Columns[Mapping[str, Any]] = {
    "what": lambda f: str(f["kind"]),
    "role or tool": lambda f: str(f["name"]),
    "status": lambda f: str(f["status"]),
    "error": lambda f: str(f["detail"]),
    "n": lambda f: count(f["n"]),
    "of": lambda f: count(f["of_all"]),
    "share": lambda f: share(f["n"] / f["of_all"]),
}
COMPARISONS: Columns[CellComparison] = {
    "where": lambda c: c.where,
    "judged": lambda c: c.name_b,
    "against": lambda c: c.name_a,
    "figure": lambda c: c.metric,
    "n": lambda c: count(c.n),
    "left out": lambda c: count(c.left_out),
    "value": lambda c: _value(c, c.mean_b),
    "was": lambda c: _value(c, c.mean_a),
    "change": lambda c: _change(c, c.difference),
    "95 %": lambda c: _range(c),
    "p (Holm)": lambda c: p_value(c.p_holm),
    "verdict": lambda c: c.verdict,
}
METRICS: Columns[NamedMetric] = {
    "measure": lambda m: m.name,
    "n": lambda m: count(m.n),
    "value": lambda m: share(m.value) if m.is_share else number(m.value, 2),
    "95 %": lambda m: span(share if m.is_share else number, m.low, m.high),
}


def identity(cells: Sequence[CellSummary]) -> CellColumns:
    """Return columns that distinguish the cells; benchmark and model only if they differ."""
    columns: dict[str, Callable[[CellSummary], str]] = {}
    if len({cell.benchmark for cell in cells}) > 1:
        columns["benchmark"] = lambda c: c.benchmark
    if len({cell.model for cell in cells}) > 1:
        columns["model"] = lambda c: c.model
    columns |= IDENTITY
    if all(cell.repeat == cells[0].repeat for cell in cells):
        del columns["repeat"]
    return columns


def score_name(measures: Iterable[str]) -> str:
    """Return the heading of headline scores with these measures."""
    named = set(measures)
    if MEAN_SCORE not in named:
        return ACCURACY
    return MEAN_SCORE if len(named) == 1 else "score"


def renamed(columns: Columns[Row], names: Mapping[str, str]) -> dict[str, Callable[[Row], str]]:
    return {names.get(name, name): show for name, show in columns.items()}


def outcome_of(cells: Sequence[CellSummary]) -> CellColumns:
    """Return `OUTCOME`, with its score named as the cells' benchmarks report it; for a mean score,
    the share of fully right attempts is a further column."""
    name = score_name(cell.measure for cell in cells)
    if name == ACCURACY:
        return OUTCOME
    columns = renamed(OUTCOME, {ACCURACY: name, "95 %, acc.": "95 %, score"})
    place = list(columns).index("95 %, score") + 1
    full: CellColumns = {"right in full": lambda c: share(c.correct / c.n if c.n else None)}
    every = [*columns.items()]
    return dict([*every[:place], *full.items(), *every[place:]])


def efficiency(found: Sequence[Efficiency]) -> Table:
    """Return `EFFICIENCY`, without the front if all rows, or none, are on it."""
    columns = named([each.cell for each in found]) | texts(EFFICIENCY, found)
    if len({each.standing for each in found}) < 2:
        del columns["front"]
    return Table(columns, "What it is worth").with_values()


def noise(found: Sequence[Noise], title: str) -> Table:
    """The noise floor: differences between repeated measurements of one set-up."""
    columns = named([each.cell for each in found]) | texts(NOISE, found)
    return Table(columns, title, NOISE_NOTE, missing="").with_values()


def families(found: Sequence[FamilyScore]) -> Columns[FamilyScore]:
    return renamed(FAMILIES, {ACCURACY: score_name(each.measure for each in found)})


def family_rows(scores: Sequence[FamilyScore]) -> list[FamilyScore]:
    """Return scores by family, so that a family's models are adjacent; all families last, if there
    are several."""
    several = len({each.family for each in scores}) > 1
    return sorted(scores, key=lambda s: s.family) + (all_families(scores) if several else [])


def anatomy(found: Sequence[Anatomy]) -> Table:
    parts = {
        part: [seconds(each.seconds[part]) for each in found]
        for part in PARTS
        if any(each.seconds[part] > 0 for each in found)
    }
    total = {"all": [seconds(each.total) for each in found]}
    return Table(named([each.cell for each in found]) | parts | total)


def subsets(found: Sequence[FamilyScore]) -> Table:
    ordered = sorted(found, key=lambda each: each.family)
    shown = renamed(families(ordered), {"family": "subset"})
    return tabulate(shown, ordered, "By subset", missing="")


def failures(found: Sequence[Failure], shown: Mapping[str, Transcript]) -> Table:
    nth = {attempt_id: place for place, attempt_id in enumerate(shown, 1)}
    link = Markup('<a href="#transcript-{0}">{0}</a>').format
    links = [
        Markup(", ").join(link(nth[each]) for each in failure.examples if each in nth) or ABSENT
        for failure in found
    ]
    return Table({**tabulate(FAILURES, found).texts, "transcripts": links}, missing=NO_FAILURES)


def of_cells(columns: CellColumns, cells: Sequence[CellSummary], title: str = "") -> Table:
    """One row per cell: its distinguishing fields, and those of these columns with values."""
    return Table(named(cells) | texts(columns, cells), title).with_values()


def named(cells: Sequence[CellSummary]) -> dict[str, list[str]]:
    return texts(identity(cells), cells)


def metrics(found: Sequence[NamedMetric], cells: Sequence[CellSummary]) -> Table:
    pairs = [(cell, each) for cell in cells for each in found if each.cell_id == cell.cell_id]
    shown = [each for _, each in pairs]
    columns = named([cell for cell, _ in pairs]) | texts(METRICS, shown)
    if any(each.left_out for each in shown):
        columns |= texts({"left out": lambda m: count(m.left_out)}, shown)
    return Table(columns, "What the benchmark reports besides", missing="")


def trials(cells: Sequence[CellSummary], every_k: bool = True) -> Table:
    """A row per cell and k, else for 1 and the largest; only cells with several trials per task."""
    pairs = [
        (cell, scores)
        for cell in cells
        for scores in cell.trials
        if every_k or scores.k in (1, cell.trials[-1].k)
    ]
    graded = any(cell.measure == MEAN_SCORE for cell, _ in pairs)
    columns = texts(TRIALS | (GRADED_TRIALS if graded else {}), [scores for _, scores in pairs])
    columns = named([cell for cell, _ in pairs]) | columns
    return Table(columns, "Several trials a task", TRIALS_NOTE, missing="")


SHOWN: Mapping[str, Show] = {Figure.RATE: rate, Figure.COST: usd, Figure.SCORE: share}


def _value(compared: CellComparison, value: float | None) -> str:
    return SHOWN.get(compared.metric, seconds)(value)


def _range(compared: CellComparison) -> str:
    if compared.ci_low is None or compared.ci_high is None:
        return ABSENT
    if compared.metric == Figure.RATE:
        return f"{compared.ci_low:.2f} to {compared.ci_high:.2f}"
    return f"{_change(compared, compared.ci_low)} to {_change(compared, compared.ci_high)}"


def _change(compared: CellComparison, value: float | None) -> str:
    if value is None:
        return ABSENT
    if compared.metric == Figure.RATE:
        return f"{value:.2f} times"
    if compared.metric == Figure.SCORE:
        return f"{value * 100:+.1f}"
    text = (usd if compared.metric == Figure.COST else seconds)(value)
    return text if value < 0 else f"+{text}"


def _scaled(form: str, value: float | None, scale: float = 1.0) -> str:
    return ABSENT if value is None else form.format(value * scale)
