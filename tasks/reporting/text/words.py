"""The findings of a report as sentences, its gaps, and the headline of a load sweep.

In: summaries and comparisons. Out: plain text. Every verdict is one of better, worse, same within
the margin, and inconclusive.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from tutti.storage.catalog import ENDED_EARLY, FINISHED
from tutti.tasks.reporting.measures.failures import Failure
from tutti.tasks.reporting.measures.families import FamilyScore, all_families
from tutti.tasks.reporting.measures.numbers import (
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
from tutti.tasks.reporting.measures.pairs import (
    OTHER_SEEDS,
    SAME_SEEDS,
    Noise,
    noise_at,
    noise_words,
    setting,
)
from tutti.tasks.scoring.statistics import Interval
from tutti.tasks.sweeps import results
from tutti.tasks.sweeps.analysis import CellComparison, Figure

DONE = (FINISHED, ENDED_EARLY)  # an early end is a result
SEEDS = {SAME_SEEDS: "A/A, same seeds", OTHER_SEEDS: "repeats, other seeds"}
UNWALLED = "limits"
NAMED = 6  # cells named in one sentence; of more, how many


def load_findings(
    cells: Sequence[results.CellSummary], compared: Sequence[CellComparison], noise: Sequence[Noise]
) -> list[str]:
    """Return the findings about each benchmark and model's policies at the highest load, with the
    noise floor there, and the verdicts over all loads."""
    sentences = []
    points = results.load_points(results.with_known_load(cells))
    for benchmark, model in dict.fromkeys((p.benchmark, p.model) for p in points):
        mine = [p for p in points if (p.benchmark, p.model) == (benchmark, model)]
        highest = max(p.concurrency for p in mine)
        at_load = [p for p in mine if p.concurrency == highest]
        where = setting(at_load[0], cells)
        sentences += [f"{where}: {each}" for each in _at_load(where, at_load, compared)]
        if (known := noise_at(noise, at_load[0].cells[0])) is not None:
            pairs = "1 pair" if known.pairs == 1 else f"{known.pairs} pairs"
            which = f"{known.cell.policy} measured twice ({SEEDS[known.kind]}, {pairs})"
            differed = f"{which} differed by {noise_words(known)}"
            sentences.append(f"{where}: {differed}: less than that is noise.")
    return sentences + tally(compared)


def _at_load(
    where: str, points: Sequence[results.LoadPoint], compared: Sequence[CellComparison]
) -> list[str]:
    here = [c for c in compared if c.where == where and c.metric in (Figure.RATE, Figure.SCORE)]
    measured = [p for p in points if p.rate is not None]
    if not measured:
        return ["no steps per minute were measured."]
    if here:
        return [against(c) for c in sorted(here, key=lambda c: c.metric != Figure.RATE)]
    rates = []
    for p in measured:
        interval = "no interval" if p.rate_interval is None else span(rate, *p.rate_interval)
        rates.append(
            f"{p.policy} {rate(p.rate)} steps/min [{interval}] (n = {count(p.steps)} steps)"
        )
    return [f"{'; '.join(rates)}; there is no other policy to compare with."]


def alarms(cells: Sequence[results.CellSummary]) -> list[str]:
    """Return warnings that limit the validity of the whole report; shown first, in red."""
    unwalled = [cell for cell in cells if cell.sandbox == UNWALLED]
    if not unwalled:
        return []
    return [
        f"Unsafe sandbox: programs that models wrote ran without walls, so they could read and "
        f"change what this user may, and forge scores of code: {_names(unwalled, cells)}."
    ]


def cell_findings(cells: Sequence[results.CellSummary]) -> list[str]:
    """Return the cells that ended early, and those in which the client measured itself."""
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


def model_findings(scores: Sequence[FamilyScore], compared: Sequence[CellComparison]) -> list[str]:
    """Each model's accuracy over all families, and the comparison of the models with the first."""
    sentences = []
    for s in sorted(all_families(scores), key=lambda s: -s.accuracy):
        show, name = headline(s.measure), "mean score " if s.measure == MEAN_SCORE else ""
        figure = f"{name}{show(s.accuracy)} [{span(show, s.low, s.high)}]"
        sentences.append(f"{s.model}: {figure} (n = {count(s.n)}) over all families.")
    return sentences + [against(c) for c in compared if c.metric == Figure.SCORE]


def failure_findings(cells: Sequence[results.CellSummary], found: Sequence[Failure]) -> list[str]:
    """Return the uncounted attempts, and the most frequent failure."""
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


def against(c: CellComparison) -> str:
    """Return one comparison as a sentence with its verdict."""
    who = f"{c.name_b} against {c.name_a}: {c.verdict}."
    no_effect = 1.0 if c.metric == Figure.RATE else 0.0
    is_known = c.ci_low is not None and c.ci_high is not None
    excludes = is_known and not (c.ci_low or 0.0) <= no_effect <= (c.ci_high or 0.0)
    # Its own interval excludes no effect, and the correction for several comparisons does not.
    corrected = f"; {c.reason}" if excludes and c.verdict == "inconclusive" else ""
    if c.metric == Figure.RATE:
        both = f"{rate(c.mean_b)} against {rate(c.mean_a)} steps/min"
        times = "" if c.difference is None else f", {c.difference:.2f} times"
        interval = "" if c.ci_low is None else f" [{c.ci_low:.2f} to {c.ci_high:.2f}]"
        return f"{who} {both}{times}{interval}{corrected}."
    both = f"score {share(c.mean_b)} against {share(c.mean_a)}"
    if c.difference is None or c.ci_low is None or c.ci_high is None:
        return f"{who} {both}; {c.reason}."
    gap = f"{c.difference * 100:+.1f} points [{c.ci_low * 100:+.1f} to {c.ci_high * 100:+.1f}]"
    p = "" if c.p_holm is None else f", p = {p_value(c.p_holm)}".replace("= <", "<")
    left = f", {c.left_out} tried on one side only" if c.left_out else ""
    return f"{who} {both}, {gap}{p}, paired by task (n = {count(c.n)}{left}){corrected}."


def tally(compared: Sequence[CellComparison]) -> list[str]:
    """Return the number of comparisons of each figure by verdict; nothing for a single one."""
    sentences = []
    firsts = {c.name_a for c in compared}
    first = next(iter(firsts)) if len(firsts) == 1 else "the first"
    for figure in dict.fromkeys(c.metric for c in compared):
        verdicts = Counter(c.verdict for c in compared if c.metric == figure)
        if verdicts.total() < 2:
            continue
        # What is most often so, first; the rarest verdicts are the ones to look at in the table.
        counts = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common())
        sentences.append(f"Over all loads, {figure} against {first}: {counts}.")
    return sentences


def gaps(cells: Sequence[results.CellSummary]) -> list[str]:
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


def _by_reason(found: Iterable[results.CellSummary]) -> dict[str, list[results.CellSummary]]:
    by_reason: dict[str, list[results.CellSummary]] = {}
    for cell in found:
        words = "" if cell.status == ENDED_EARLY else f"status {cell.status}"
        reason = ": ".join(part for part in (words, cell.reason or "") if part)
        by_reason.setdefault(reason or "no reason given", []).append(cell)
    return by_reason


def _names(found: Sequence[results.CellSummary], cells: Sequence[results.CellSummary]) -> str:
    if len(found) == len(cells):
        return "the only cell" if len(cells) == 1 else f"all {len(cells)} cells"
    more = f" and {len(found) - NAMED} more of {len(cells)}" if len(found) > NAMED else ""
    return ", ".join(_name(cell, cells) for cell in found[:NAMED]) + more


def _name(cell: results.CellSummary, cells: Sequence[results.CellSummary]) -> str:
    several = len({c.repeat for c in results.without_a_a(cells)}) > 1
    repeat = f" (repeat {cell.repeat})" if several else ""
    which = " (A/A)" if cell.repeat == results.A_A else repeat
    return (
        f"{' '.join([*results.differing(cell, cells), cell.policy])} at {cell.concurrency}{which}"
    )


MOST_SERIES = 8


def headlines(cells: Sequence[results.CellSummary]) -> list[str]:
    """Return one sentence for each benchmark, model and policy, in the order of the points."""
    series: dict[tuple[str, str, str], list[results.LoadPoint]] = {}
    for point in results.load_points(cells):
        if point.n or point.steps:
            key = (point.benchmark, point.model, point.policy)
            series.setdefault(key, []).append(point)
    named = [place for place in range(3) if len({key[place] for key in series}) > 1]
    sentences = []
    for key, points in list(series.items())[:MOST_SERIES]:
        name = ", ".join(key[place] for place in named) or ", ".join(key)
        sentences.append(f"{name}, {_levels(points)}")
    left = len(series) - MOST_SERIES
    return sentences + ([f"{left} more series are in the table below."] if left > 0 else [])


def _levels(points: Sequence[results.LoadPoint]) -> str:
    ordered = sorted(points, key=lambda point: point.concurrency)
    ends = [ordered[0], ordered[-1]] if len(ordered) > 1 else ordered
    at = " to ".join(str(point.concurrency) for point in ends)
    at = f"from {at} at once" if len(ends) > 1 else f"{at} at once"
    measure = ordered[0].measure
    figures = [
        _figure(measure, headline(measure), [(p.score, p.accuracy_interval) for p in ends]),
        _figure("p95 of a step", seconds, [(p.latency, p.latency_interval) for p in ends], " s"),
        _figure("steps/min", rate, [(p.rate, p.rate_interval) for p in ends]),
        _figure("USD an attempt", usd, [(p.cost or None, p.cost_interval) for p in ends]),
    ]
    n = " and ".join(count(point.n) for point in ends)
    return f"{at}: {'; '.join(filter(None, figures))} (n = {n})."


def _figure(
    name: str, show: Show, values: Sequence[tuple[float | None, Interval | None]], unit: str = ""
) -> str:
    if any(value is None for value, _ in values):
        return ""
    shown = [
        f"{show(value)}{unit}" + (f" [{span(show, *interval)}]" if interval else "")
        for value, interval in values
    ]
    return f"{name} {' -> '.join(shown)}"
