"""What the numbers say, in sentences, and what is missing from them.

In: summaries. Out: plain text. A difference whose intervals overlap is called inconclusive.
"""

from collections.abc import Sequence

from tasks.reporting.intervals import difference, overlap, ratio, wilson
from tasks.reporting.summary import (
    CellSummary,
    FamilyScore,
    LoadPoint,
    all_families,
    load_points,
)
from tasks.reporting.terminal import rate, rate_range, share, share_range

BASELINE = "passthrough"
DONE = "finished"


def findings(cells: Sequence[CellSummary], scores: Sequence[FamilyScore]) -> list[str]:
    """The report's summary: policies at the highest load, then models."""
    return [*load_findings(cells), *model_findings(scores)]


def load_findings(cells: Sequence[CellSummary]) -> list[str]:
    """For each benchmark and model: the fastest policy at the highest load, against passthrough."""
    sentences = []
    points = load_points(cells)
    for benchmark, model in dict.fromkeys((p.benchmark, p.model) for p in points):
        mine = [p for p in points if (p.benchmark, p.model) == (benchmark, model)]
        highest = max(p.concurrency for p in mine)
        sentences += _at_load(model, [p for p in mine if p.concurrency == highest])
    return sentences


def model_findings(scores: Sequence[FamilyScore]) -> list[str]:
    """Each model's accuracy over all families, and the best against the next."""
    totals = sorted(all_families(scores), key=lambda s: -s.accuracy)
    sentences = [f"{s.model}: {_accuracy(s.correct, s.n)} over all families." for s in totals]
    if len(totals) < 2:
        return sentences
    best, second = totals[:2]
    interval = difference((best.correct, best.n), (second.correct, second.n))
    gap = f"{(best.accuracy - second.accuracy) * 100:.1f} points"
    if interval is not None:
        gap += f" [{share_range(*interval)}]"
    if overlap((best.low, best.high), (second.low, second.high)):
        verdict = f"Inconclusive: {best.model} and {second.model} differ by {gap}, but their "
        return [*sentences, verdict + "95 % intervals overlap."]
    return [*sentences, f"{best.model} is more accurate than {second.model} by {gap}."]


def gaps(cells: Sequence[CellSummary]) -> list[str]:
    """What is missing, and from which cells."""
    if not cells:
        return ["The load sweep has no cells."]
    statuses = dict.fromkeys(c.status for c in cells if c.status != DONE)
    checks = {f"status {status}": [c for c in cells if c.status == status] for status in statuses}
    checks |= {
        "no requests, so no rates and no latencies": [c for c in cells if c.window_end_s is None],
        "no scored attempts, so no accuracy": [c for c in cells if not c.n],
        "no server_metrics in the window": [
            c for c in cells if c.window_end_s is not None and c.running_mean is None
        ],
        "window too short for an interval of steps/min": [
            c for c in cells if c.steps_per_min is not None and c.rate_interval is None
        ],
        "no steady window, so figures are of the whole cell": [
            c for c in cells if c.window_reason.startswith("whole cell")
        ],
    }
    return [f"{what}: {_names(found, cells)}." for what, found in checks.items() if found]


def _at_load(model: str, points: Sequence[LoadPoint]) -> list[str]:
    where = f"{model}, {points[0].concurrency} at once"
    measured = sorted((p for p in points if p.rate is not None), key=lambda p: -(p.rate or 0))
    baseline = next((p for p in measured if p.policy == BASELINE), None)
    others = [p for p in measured if p.policy != BASELINE]
    if not measured:
        return [f"{where}: no steps per minute were measured."]
    if baseline is None or not others:
        lack = f"{BASELINE} was not measured" if baseline is None else "no other policy was"
        return [f"{where}: {_rate(measured[0])}; {lack}, so there is nothing to compare."]
    best = others[0]
    accuracies = "; ".join(f"{p.policy} {_accuracy(p.correct, p.n)}" for p in (best, baseline))
    return [f"{where}: {_comparison(best, baseline)}", f"Accuracy there: {accuracies}."]


def _comparison(best: LoadPoint, baseline: LoadPoint) -> str:
    assert best.rate is not None and baseline.rate is not None, f"unmeasured {best} {baseline}"
    both = f"{_rate(best)} against {_rate(baseline)}"
    if best.rate_interval is None or baseline.rate_interval is None:
        return f"inconclusive. {both}; without both intervals no ratio is judged."
    if not baseline.rate:
        return f"inconclusive. {both}; no ratio to zero."
    times = f"{best.rate / baseline.rate:.2f} times"
    interval = ratio(best.rate, best.rate_interval, baseline.rate, baseline.rate_interval)
    times += f" [{interval[0]:.2f} to {interval[1]:.2f}]" if interval else " [no interval]"
    # The best of several is picked after the fact; asking for disjoint intervals, which is
    # stricter than a ratio's interval without 1, pays for that choice.
    if overlap(best.rate_interval, baseline.rate_interval):
        return f"inconclusive. {both}: {times}, but the 95 % intervals overlap."
    if best.rate > baseline.rate:
        return f"{best.policy} is fastest, {times} {BASELINE}: {both}."
    return f"{BASELINE} is fastest; the next, {best.policy}, makes {times} its rate: {both}."


def _rate(point: LoadPoint) -> str:
    interval = "no interval" if point.rate_interval is None else rate_range(*point.rate_interval)
    return f"{point.policy} {rate(point.rate)} steps/min [{interval}] (n = {point.steps} steps)"


def _accuracy(correct: int, n: int) -> str:
    interval = wilson(correct, n)
    if interval is None:
        return "no scored attempts"
    return f"{share(correct / n)} [{share_range(*interval)}] (n = {n})"


def _names(found: Sequence[CellSummary], cells: Sequence[CellSummary]) -> str:
    if len(found) == len(cells):
        return f"all {len(cells)} cells"
    names = [f"{c.policy} at {c.concurrency}" for c in found]
    repeats = len({c.repeat for c in cells}) > 1
    if repeats:
        names = [f"{name} (repeat {c.repeat})" for name, c in zip(names, found, strict=True)]
    return ", ".join(names)
