"""The findings of a report as sentences, its gaps, and the headline of a load sweep.

In: summaries and comparisons. Out: plain text. Every verdict is one of better, worse, same within
the margin, and inconclusive.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from tutti.storage.catalog import ENDED_EARLY, FINISHED
from tutti.tasks.reporting.efficiency import Efficiency
from tutti.tasks.reporting.failures import Failure
from tutti.tasks.reporting.families import FamilyScore, all_families
from tutti.tasks.reporting.pairs import OTHER_SEEDS, SAME_SEEDS, Noise, noise_at, said, setting
from tutti.tasks.reporting.text.numbers import (
    MEAN_SCORE,
    Show,
    count,
    headline,
    p_value,
    rate,
    seconds,
    share,
    span,
    usd,
)
from tutti.tasks.scoring.statistics import Interval
from tutti.tasks.sweeps.analysis import CellComparison, Figure
from tutti.tasks.sweeps.results import (
    A_A,
    CellSummary,
    LoadPoint,
    differing,
    load_points,
    with_known_load,
    without_a_a,
)

DONE = (FINISHED, ENDED_EARLY)  # an early end is a result
SEEDS = {SAME_SEEDS: "A/A, same seeds", OTHER_SEEDS: "repeats, other seeds"}
UNWALLED = "limits"
NAMED = 6  # cells named in one sentence; of more, how many


def load_findings(
    cells: Sequence[CellSummary], compared: Sequence[CellComparison], noise: Sequence[Noise]
) -> list[str]:
    """Each benchmark and model's policies at the highest load, with the noise floor there; the
    verdicts over all loads."""
    sentences = []
    points = load_points(with_known_load(cells))
    for benchmark, model in dict.fromkeys((p.benchmark, p.model) for p in points):
        mine = [p for p in points if (p.benchmark, p.model) == (benchmark, model)]
        highest = max(p.concurrency for p in mine)
        sentences += _at_load([p for p in mine if p.concurrency == highest], cells, compared)
        sentences += _noise_at_load(mine, highest, cells, noise)
    return sentences + tally(compared)


def alarms(cells: Sequence[CellSummary]) -> list[str]:
    """Warnings that limit the validity of the whole report; shown first, in red."""
    unwalled = [cell for cell in cells if cell.sandbox == UNWALLED]
    if not unwalled:
        return []
    return [
        f"Unsafe sandbox: programs that models wrote ran without walls, so they could read and "
        f"change what this user may, and forge scores of code: {_names(unwalled, cells)}."
    ]


def cell_findings(cells: Sequence[CellSummary]) -> list[str]:
    """Cells that ended early, and those in which the client measured itself."""
    faults = [cell for cell in cells if cell.client_fault]
    sentences = [
        f"Ended early, counted as results, {reason}: {_names(found, cells)}."
        for reason, found in _by_reason(c for c in cells if c.status == ENDED_EARLY).items()
    ]
    if faults:
        why = f"{_name(faults[0], cells)}: {faults[0].client_fault}"
        sentences.append(
            f"The client was the bottleneck in {_names(faults, cells)} ({why}): latencies and "
            "rates there are partly its own."
        )
    return sentences


def efficiency_findings(found: Sequence[Efficiency]) -> list[str]:
    """The set-up of each benchmark that solves most in time, an engine and hour."""
    sentences = []
    for benchmark in dict.fromkeys(each.point.benchmark for each in found):
        of_it = [e for e in found if e.point.benchmark == benchmark and e.goodput.value]
        if len(of_it) < 2:
            continue
        best = max(of_it, key=lambda e: e.goodput.value or 0.0)
        interval = best.goodput.interval
        ends = f" [{span(rate, *interval)}]" if interval else ""
        where = setting(best.point, [each.cell for each in found])
        sentences.append(
            f"Most tasks solved within {seconds(best.limit_s)} s a step: {best.point.policy}, "
            f"{where}: {rate(best.goodput.value)} an engine-hour{ends}."
        )
    return sentences


def model_findings(scores: Sequence[FamilyScore], compared: Sequence[CellComparison]) -> list[str]:
    """Each model's accuracy over all families, and the models against the first of them."""
    totals = sorted(all_families(scores), key=lambda s: -s.accuracy)
    sentences = [
        f"{s.model}: {_family_score(s)} (n = {count(s.n)}) over all families." for s in totals
    ]
    return sentences + [against(c) for c in compared if c.metric == Figure.SCORE]


def _family_score(found: FamilyScore) -> str:
    name = "mean score " if found.measure == MEAN_SCORE else ""
    show = headline(found.measure)
    return f"{name}{show(found.accuracy)} [{span(show, found.low, found.high)}]"


def failure_findings(cells: Sequence[CellSummary], found: Sequence[Failure]) -> list[str]:
    """Attempts that count nowhere, and the most frequent failure."""
    void = [each for each in found if each.status == "infra_error"]
    sentences = []
    if void:
        n, scored = sum(each.n for each in void), sum(cell.n for cell in cells)
        sentences.append(
            f"{count(n)} attempts ended in infrastructure errors and are in no score "
            f"(n = {count(scored)} count)."
        )
    failed = [each for each in found if each.status not in ("ok", "infra_error", "")]
    if failed:
        most = max(failed, key=lambda each: each.n)
        words = " · ".join(part for part in (most.status, most.stop_reason, most.error) if part)
        sentences.append(f"Most frequent failure: {words} (n = {count(most.n)}).")
    return sentences


def against(compared: CellComparison) -> str:
    """One comparison as a sentence with its verdict."""
    c = compared
    who = f"{c.name_b} against {c.name_a}"
    if c.metric == Figure.RATE:
        both = f"{rate(c.mean_b)} against {rate(c.mean_a)} steps/min"
        times = "" if c.difference is None else f", {c.difference:.2f} times"
        interval = "" if c.ci_low is None else f" [{c.ci_low:.2f} to {c.ci_high:.2f}]"
        return f"{who}: {c.verdict}. {both}{times}{interval}{_corrected(c, 1.0)}."
    both = f"score {share(c.mean_b)} against {share(c.mean_a)}"
    if c.difference is None or c.ci_low is None or c.ci_high is None:
        return f"{who}: {c.verdict}. {both}; {c.reason}."
    gap = f"{c.difference * 100:+.1f} points [{c.ci_low * 100:+.1f} to {c.ci_high * 100:+.1f}]"
    p = (
        ""
        if c.p_holm is None
        else f", p {p_value(c.p_holm)}"
        if c.p_holm < 0.0001
        else f", p = {p_value(c.p_holm)}"
    )
    left = f", {c.left_out} tried on one side only" if c.left_out else ""
    paired = f"paired by task (n = {count(c.n)}{left})"
    return f"{who}: {c.verdict}. {both}, {gap}{p}, {paired}{_corrected(c, 0.0)}."


def _corrected(compared: CellComparison, no_effect: float) -> str:
    """Why a difference whose own interval excludes no effect is still inconclusive."""
    c = compared
    if c.verdict != "inconclusive" or c.ci_low is None or c.ci_high is None:
        return ""
    return f"; {c.reason}" if c.ci_low > no_effect or c.ci_high < no_effect else ""


def tally(compared: Sequence[CellComparison]) -> list[str]:
    """How many comparisons of each figure ended in each verdict; nothing for a single one."""
    sentences = []
    for figure in dict.fromkeys(c.metric for c in compared):
        verdicts = Counter(c.verdict for c in compared if c.metric == figure)
        if verdicts.total() < 2:
            continue
        # What is most often so, first; the rarest verdicts are the ones to look at in the table.
        counts = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common())
        sentences.append(f"Over all loads, {figure} against {_first(compared)}: {counts}.")
    return sentences


def gaps(cells: Sequence[CellSummary]) -> list[str]:
    """What is missing, and from which cells."""
    if not cells:
        return ["The load sweep has no cells."]
    checks = _by_reason(c for c in cells if c.status not in DONE)
    checks |= {
        "no requests, so no rates and no latencies": [c for c in cells if c.window_end_s is None],
        "no scored attempts, so no accuracy": [c for c in cells if not c.n],
        "cost of an attempt unknown, so no cost": [c for c in cells if c.n and c.cost_usd is None],
        "no server_metrics in the window": [
            c for c in cells if c.window_end_s is not None and c.running_mean is None
        ],
        "window too short for an interval of steps/min": [
            c for c in cells if c.steps_per_min is not None and c.rate_interval is None
        ],
        "no steady window, so figures are of the whole cell": [
            c for c in cells if c.window_end_s is not None and not c.steady
        ],
    }
    return [f"{what}: {_names(found, cells)}." for what, found in checks.items() if found]


def _by_reason(found: Iterable[CellSummary]) -> dict[str, list[CellSummary]]:
    """Cells by their state and its reason."""
    by_reason: dict[str, list[CellSummary]] = {}
    for cell in found:
        words = "" if cell.status == ENDED_EARLY else f"status {cell.status}"
        reason = ": ".join(part for part in (words, cell.reason or "") if part)
        by_reason.setdefault(reason or "no reason given", []).append(cell)
    return by_reason


def _noise_at_load(
    points: Sequence[LoadPoint],
    highest: int,
    cells: Sequence[CellSummary],
    noise: Sequence[Noise],
) -> list[str]:
    """What of the verdicts at a load could be noise."""
    point = next(p for p in points if p.concurrency == highest)
    known = noise_at(noise, point.cells[0])
    if known is None:
        return []
    pairs = "1 pair" if known.pairs == 1 else f"{known.pairs} pairs"
    which = f"{known.cell.policy} measured twice ({SEEDS[known.kind]}, {pairs})"
    return [f"{setting(point, cells)}: {which} differed by {said(known)}: less than that is noise."]


def _first(compared: Sequence[CellComparison]) -> str:
    names = {c.name_a for c in compared}
    return names.pop() if len(names) == 1 else "the first"


def _at_load(
    points: Sequence[LoadPoint], cells: Sequence[CellSummary], compared: Sequence[CellComparison]
) -> list[str]:
    where = setting(points[0], cells)
    found = [c for c in compared if c.where == where and c.metric in (Figure.RATE, Figure.SCORE)]
    measured = [p for p in points if p.rate is not None]
    if not measured:
        return [f"{where}: no steps per minute were measured."]
    if not found:
        rates = "; ".join(_rate(p) for p in measured)
        return [f"{where}: {rates}; there is no other policy to compare with."]
    return [f"{where}: {against(c)}" for c in sorted(found, key=lambda c: c.metric != Figure.RATE)]


def _rate(point: LoadPoint) -> str:
    interval = "no interval" if point.rate_interval is None else span(rate, *point.rate_interval)
    return (
        f"{point.policy} {rate(point.rate)} steps/min [{interval}] (n = {count(point.steps)} steps)"
    )


def _names(found: Sequence[CellSummary], cells: Sequence[CellSummary]) -> str:
    if len(found) == len(cells):
        return "the only cell" if len(cells) == 1 else f"all {len(cells)} cells"
    more = f" and {len(found) - NAMED} more of {len(cells)}" if len(found) > NAMED else ""
    return ", ".join(_name(cell, cells) for cell in found[:NAMED]) + more


def _name(cell: CellSummary, cells: Sequence[CellSummary]) -> str:
    """A cell by its policy and load, and by what else it differs from other cells in."""
    repeats = len({c.repeat for c in without_a_a(cells)}) > 1
    words = [*differing(cell, cells), cell.policy]
    return f"{' '.join(words)} at {cell.concurrency}{_repeat(cell, repeats)}"


def _repeat(cell: CellSummary, several: bool) -> str:
    """Which of `several` repeats, in brackets."""
    if cell.repeat == A_A:
        return " (A/A)"
    return f" (repeat {cell.repeat})" if several else ""


MOST_SERIES = 8
"""Series in the headline; a larger grid is in the table below it."""


def headlines(cells: Sequence[CellSummary]) -> list[str]:
    """One sentence for each benchmark, model and policy, in the order of the points."""
    series: dict[tuple[str, str, str], list[LoadPoint]] = {}
    for point in load_points(cells):
        if point.n or point.steps:
            key = (point.benchmark, point.model, point.policy)
            series.setdefault(key, []).append(point)
    named = [place for place in range(3) if len({key[place] for key in series}) > 1]
    names = {key: ", ".join(key[place] for place in named) or ", ".join(key) for key in series}
    said = [_headline(names[key], series[key]) for key in list(series)[:MOST_SERIES]]
    left = len(series) - MOST_SERIES
    return said + ([f"{left} more series are in the table below."] if left > 0 else [])


def _headline(who: str, points: Sequence[LoadPoint]) -> str:
    """`who`: in what the series differs from the others."""
    ordered = sorted(points, key=lambda point: point.concurrency)
    ends = ordered[:1] if len(ordered) == 1 else [ordered[0], ordered[-1]]
    levels = [str(point.concurrency) for point in ends]
    at = f"{levels[0]} at once" if len(levels) == 1 else f"from {levels[0]} to {levels[1]} at once"
    show = headline(ordered[0].measure)
    figures = [
        _figure(ordered[0].measure, show, [(p.score, p.accuracy_interval) for p in ends]),
        _figure("p95 of a step", seconds, [(p.latency, p.latency_interval) for p in ends], " s"),
        _figure("steps/min", rate, [(p.rate, p.rate_interval) for p in ends]),
        _figure("USD an attempt", usd, [(p.cost or None, p.cost_interval) for p in ends]),
    ]
    n = " and ".join(count(point.n) for point in ends)
    return f"{who}, {at}: {'; '.join(each for each in figures if each)} (n = {n})."


def _figure(
    name: str,
    show: Show,
    values: Sequence[tuple[float | None, Interval | None]],
    unit: str = "",
) -> str:
    """``name a -> b``; empty where a value is not known."""
    if any(value is None for value, _ in values):
        return ""
    shown = [
        f"{show(value)}{unit}" + (f" [{span(show, *interval)}]" if interval else "")
        for value, interval in values
    ]
    return f"{name} {' -> '.join(shown)}"
