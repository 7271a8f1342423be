"""Coverage of intervals and false-alarm rates by simulation: ``make bench-statistics``, under a
minute.

2,000 data sets of each kind are drawn from a known distribution. `coverage_min` and `coverage_max`
are over the kinds. For binary scores of few tasks, coverage depends on the true accuracy whatever
the interval, so the accuracy is drawn for each data set and coverage is averaged over it.
`false_alarm_rate` is that of A/A runs tested after every task and stopped at the first alarm;
`decided_alarm_rate` is the same through the class that ends cells of sweeps, where slow tasks end
late; `saturated_alarm_rate` is that of cells whose true p95 step latency is exactly at the limit,
the worst of several autocorrelations; `stated_alarm_rate` is the nominal rate of each.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.report import Report, Target
from bench.statistics.stopping import MEMORIES, TASKS, decided, stopped
from tutti.tasks.scoring.statistics import (
    CONFIDENCE,
    ConfidenceSequence,
    Finding,
    Interval,
    batch_interval,
    bootstrap_mean,
    compare_paired,
    judge,
    mean_interval,
    ratio_of_sums,
    simultaneous_confidence,
)
from tutti.tasks.scoring.statistics.means import t_tails

Draw = np.random.Generator
Array = NDArray[np.float64]
Kind = Callable[[Draw], tuple[float, Interval | None]]
"""One data set: the true value and its interval."""

COVERAGE = (0.93, 0.97)
STATED = round(1 - CONFIDENCE, 6)
PLANNED = 150  # tasks of a watched run at most
SURFACE = 12  # comparisons of one sweep


class SequentialTestRates(NamedTuple):
    """Results of testing after every task."""

    alarms: float
    """Share of A/A runs stopped for a difference: the false-alarm rate."""
    peeking: float
    """The same by a t-test after every task from the tenth on."""
    found: float
    """Power: share of runs with a true difference of `GAIN` that were stopped for it."""
    median_tasks: float
    """Median number of tasks at the end, including runs that were not stopped."""


GAIN = 0.1


def ends(low: float | None, high: float | None) -> Interval | None:
    """Both ends, or None."""
    return None if low is None or high is None else (low, high)


def trials_of(random: Draw, chances: Array, trials: int) -> Array:
    """Right (1) and wrong (0), shape (tasks, trials)."""
    return (random.random((len(chances), trials)) < chances[:, None]).astype(float)


def questions(tasks: int, trials: int, alike: float | None) -> Kind:
    """Binary scores of `tasks`; tasks differ in difficulty if `alike` (a Beta's weight) is set."""

    def draw(random: Draw) -> tuple[float, Interval | None]:
        truth = random.uniform(0.05, 0.95)
        chances = np.full(tasks, truth)
        if alike is not None:
            chances = random.beta(truth * alike, (1 - truth) * alike, tasks)
        found = mean_interval(trials_of(random, chances, trials))
        return truth, ends(found.low, found.high)

    return draw


def clustered(clusters: int, largest: int, trials: int) -> Kind:
    """Clusters of 1 to `largest` tasks that are equally hard."""

    def draw(random: Draw) -> tuple[float, Interval | None]:
        truth = random.uniform(0.05, 0.95)
        sizes = random.integers(1, largest + 1, clusters)
        labels = np.repeat(np.arange(clusters), sizes)
        chances = random.beta(truth * 2, (1 - truth) * 2, clusters)[labels]
        found = mean_interval(trials_of(random, chances, trials), labels.tolist())
        return truth, ends(found.low, found.high)

    return draw


def pairs(tasks: int, trials: int) -> Kind:
    """Two sides on the same tasks with repeated binary scores; the second solves more."""

    def draw(random: Draw) -> tuple[float, Interval | None]:
        gain = random.uniform(0.0, 0.2)
        chances = random.beta(0.8, 0.8, tasks) * (1 - gain)
        first, second = (trials_of(random, chances + more, trials) for more in (0, gain))
        found = compare_paired(first, second)
        return gain, ends(found.low, found.high)

    return draw


def paired_clusters(clusters: int, largest: int) -> Kind:
    """Clusters of tasks with correlated differences within a cluster."""

    def draw(random: Draw) -> tuple[float, Interval | None]:
        sizes = random.integers(1, largest + 1, clusters)
        labels = np.repeat(np.arange(clusters), sizes)
        first = random.uniform(0, 1, len(labels))
        moved = 0.05 + random.normal(0, 0.15, clusters)[labels]
        second = first + moved + random.normal(0, 0.1, len(labels))
        found = compare_paired(first[:, None], second[:, None], labels.tolist())
        return 0.05, ends(found.low, found.high)

    return draw


def per_solved(tasks: int) -> Kind:
    """Cost per solved task: skewed costs, and hard tasks that cost more."""

    def draw(random: Draw) -> tuple[float, Interval | None]:
        cost, solved = _costs(random, tasks)
        found = ratio_of_sums(cost, solved)
        return _cost_of_solved(), ends(found.low, found.high)

    return draw


def cost_ratio(tasks: int) -> Kind:
    """Two sides' costs on the same tasks; the second costs a fifth more."""

    def draw(random: Draw) -> tuple[float, Interval | None]:
        base = random.lognormal(0, 0.8, tasks)
        first, second = (base * scale * random.lognormal(0, 0.3, tasks) for scale in (1.0, 1.2))
        found = ratio_of_sums(second, first)
        return 1.2, ends(found.low, found.high)

    return draw


def mean_cost(tasks: int) -> Kind:
    """Skewed costs of tasks, by the bootstrap."""

    def draw(random: Draw) -> tuple[float, Interval | None]:
        cost = random.lognormal(0, 0.5, tasks)
        seed = int(random.integers(2**31))
        return float(np.exp(0.125)), bootstrap_mean(cost, draws=400, seed=seed)

    return draw


def throughput(bins: int, memory: float) -> Kind:
    """Steps per minute in bins of a window, with autocorrelation `memory`."""

    def draw(random: Draw) -> tuple[float, Interval | None]:
        noise = random.normal(0, 10, bins)
        noise[0] /= np.sqrt(1 - memory**2)
        for place in range(1, bins):
            noise[place] += memory * noise[place - 1]
        found = batch_interval(100 + noise)
        return 100.0, (found.low, found.high)

    return draw


KINDS: dict[str, Kind] = {
    "right or wrong, 12 tasks": questions(12, 1, None),
    "right or wrong, 100 tasks": questions(100, 1, 2.0),
    "10 tasks x 8 repeats": questions(10, 8, 2.0),
    "30 tasks x 4 repeats": questions(30, 4, 1.0),
    "8 clusters of 1 to 12 tasks": clustered(8, 12, 1),
    "30 clusters of 1 to 8 tasks x 4": clustered(30, 8, 4),
    "pairs, 40 tasks": pairs(40, 1),
    "pairs, 12 tasks x 8 repeats": pairs(12, 8),
    "pairs, 100 tasks x 4 repeats": pairs(100, 4),
    "pairs, 8 clusters of 1 to 8": paired_clusters(8, 8),
    "pairs, 30 clusters of 1 to 8": paired_clusters(30, 8),
    "cost per solved, 40 tasks": per_solved(40),
    "cost ratio, 20 tasks": cost_ratio(20),
    "mean cost, 40 tasks": mean_cost(40),
    "steps/min, 240 bins": throughput(240, 0.6),
}


def coverage(kind: Kind, runs: int, seed: int) -> float:
    """Coverage: the share of data sets whose interval contains the true value; a missing interval
    does not."""
    held = 0
    for random in _generators(runs, seed):
        truth, found = kind(random)
        held += found is not None and found[0] <= truth <= found[1]
    return held / runs


def watched(runs: int, seed: int) -> SequentialTestRates:
    """A/A runs and runs with a gain, tested after every task."""
    alarms = peeks = found = 0
    tasks: list[int] = []
    for random in _generators(runs, seed):
        nothing = _differences(random, 0.0)
        alarms += _stopped(nothing) is not None
        peeks += _peeked(nothing)
        if len(tasks) < runs // 4:  # a share is enough for a median
            stopped = _stopped(_differences(random, GAIN))
            found += stopped is not None
            tasks.append(PLANNED if stopped is None else stopped)
    return SequentialTestRates(
        alarms / runs, peeks / runs, found / len(tasks), float(np.median(tasks))
    )


def surface_alarms(runs: int, seed: int) -> float:
    """False-alarm rate of A/A sweeps with `SURFACE` comparisons: any verdict of better or worse."""
    alarmed = 0
    wide = simultaneous_confidence(SURFACE)
    for random in _generators(runs, seed):
        findings = []
        for _ in range(SURFACE):
            chances = random.beta(0.8, 0.8, 40)
            first, second = (trials_of(random, chances, 4) for _ in range(2))
            found = compare_paired(first, second)
            wider = compare_paired(first, second, confidence=wide)
            both = ends(found.low, found.high), ends(wider.low, wider.high)
            findings.append(Finding(found.difference, *both, found.p))
        words = {verdict.word for verdict in judge(findings, 0.05)}
        alarmed += bool(words & {"better", "worse"})
    return alarmed / runs


def _generators(runs: int, seed: int) -> list[Draw]:
    return [np.random.default_rng((seed, run)) for run in range(runs)]


def _differences(random: Draw, gain: float) -> Array:
    chances = random.beta(0.8, 0.8, PLANNED) * (1 - gain)
    first, second = (random.binomial(2, chances + more) / 2 for more in (0, gain))
    found: Array = second - first
    return found


def _stopped(differences: Array) -> int | None:
    looks = ConfidenceSequence(PLANNED)
    for n, each in enumerate(differences, 1):
        found = looks.add(float(each))
        if found.low >= 0 or found.high <= 0:
            return n
    return None


def _peeked(differences: Array) -> bool:
    for n in range(10, len(differences) + 1):
        seen = differences[:n]
        se = seen.std(ddof=1) / np.sqrt(n)
        if se > 0 and t_tails(seen.mean() / se, n - 1) < STATED:
            return True
    return False


def _costs(random: Draw, tasks: int) -> tuple[Sequence[float], Sequence[float]]:
    cost = random.lognormal(0, 0.5, tasks)
    chance = np.clip(0.8 - 0.15 * cost, 0.05, 0.95)
    return list(cost), list((random.random(tasks) < chance).astype(float))


@cache
def _cost_of_solved() -> float:
    """The true value, from the quantiles of the cost."""
    from scipy.special import ndtri  # type: ignore[import-untyped, unused-ignore]

    cost = np.exp(0.5 * ndtri((np.arange(200_000) + 0.5) / 200_000))
    return float(cost.mean() / np.clip(0.8 - 0.15 * cost, 0.05, 0.95).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=2000, help="data sets of each kind")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    report = Report("statistics", 1)
    found = {name: coverage(kind, given.runs, given.seed) for name, kind in KINDS.items()}
    report.figure("coverage_min", [min(found.values())], Target(COVERAGE[0], least=True))
    report.figure("coverage_max", [max(found.values())], Target(COVERAGE[1]))
    seen = watched(given.runs, given.seed)
    report.figure("false_alarm_rate", [seen.alarms], Target(STATED))
    report.figure("stated_alarm_rate", [STATED])
    report.figure("peeking_alarm_rate", [seen.peeking])
    surfaces = surface_alarms(given.runs // 2, given.seed)
    report.figure("surface_alarm_rate", [surfaces], Target(STATED))
    _add_stopping(report, given.runs, given.seed)
    for name, share in found.items():
        report.note(f"  {name:34} {share:.1%} of {given.runs:,} intervals hold the truth")
    report.note(
        f"watched: a true gain of {GAIN} was found in {seen.found:.0%} of runs, after "
        f"{seen.median_tasks:.0f} of {PLANNED} tasks (median); peeking: a t-test after every task; "
        f"surface: any of {SURFACE} A/A comparisons better or worse, by Holm."
    )
    report.show()


def _add_stopping(report: Report, runs: int, seed: int) -> None:
    """Add the figures of early stopping."""
    aa, cells = decided(runs, seed), stopped(runs, seed)
    report.figure("decided_alarm_rate", [aa.as_planned], Target(STATED))
    report.figure("saturated_alarm_rate", [max(cells.at_the_limit.values())], Target(STATED))
    shares = ", ".join(f"{name} {cells.at_the_limit[name]:.1%}" for name in MEMORIES)
    report.note(
        f"decided: A/A cells of {TASKS} tasks in which wrong answers take longer; judged in the "
        f"order in which tasks end, {aa.as_ended:.1%} would alarm.\n"
        f"saturated: cells at the limit that were ended, by what steps remember of those before: "
        f"{shares}; counted step by step, {cells.counted_singly:.1%}. With half of the steps above "
        f"it {cells.saturated:.0%} end, after {cells.median_steps:.0f} steps of each session."
    )


if __name__ == "__main__":
    main()
