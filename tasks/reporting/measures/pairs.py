"""The set-ups that a report compares, and the noise floor: one set-up measured twice.

In: cells. Out: `Pair`s of policies at each load and of models on each benchmark; one `Noise` a
set-up that was measured more than once: its A/A cell against the first repeat (same tasks, order
and seeds), and repeats among each other (other seeds).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from tutti.tasks.reporting.measures.numbers import at_once, number
from tutti.tasks.sweeps import results
from tutti.tasks.sweeps.analysis import Pair


def policy_pairs(cells: Sequence[results.CellSummary]) -> list[Pair]:
    """Pairs at each load of a benchmark and model: the baseline (or first policy) and each other.

    With one policy there is nothing to compare, and no pair.
    """
    groups: dict[tuple[str, str, int], list[results.LoadPoint]] = {}
    for point in results.load_points(cells):
        groups.setdefault((point.benchmark, point.model, point.concurrency), []).append(point)
    pairs = []
    for _, points in sorted(groups.items()):
        first = next((p for p in points if p.policy == results.BASELINE), points[0])
        where = setting(first, cells)
        pairs += [
            Pair(where, first.policy, first.cell_ids, other.policy, other.cell_ids)
            for other in points
            if other is not first
        ]
    return pairs


def model_pairs(cells: Sequence[results.CellSummary]) -> list[Pair]:
    """Pairs of the model measured first on a benchmark and each other, over all of their cells."""
    groups: dict[str, dict[str, list[str]]] = {}
    for cell in results.without_a_a(cells):
        groups.setdefault(cell.benchmark, {}).setdefault(cell.model, []).append(cell.cell_id)
    return [
        Pair(benchmark, first, tuple(models[first]), other, tuple(models[other]))
        for benchmark, models in groups.items()
        for first in list(models)[:1]
        for other in list(models)[1:]
    ]


def setting(point: results.LoadPoint, cells: Sequence[results.CellSummary]) -> str:
    return ", ".join([*results.differing(point, cells), at_once(point.concurrency)])


SAME_SEEDS, OTHER_SEEDS = "A/A", "repeats"


@dataclass(frozen=True)
class Noise:
    """Pairs of measurements of one set-up. None if no pair has the figure."""

    cell: results.CellSummary
    kind: str
    pairs: int
    times: float | None
    """Steps per minute, the faster over the slower: the median pair."""
    most_times: float | None
    points: float | None
    """Difference of accuracy, 0 to 1: the median pair."""
    most_points: float | None


def noise_floor(cells: Sequence[results.CellSummary]) -> list[Noise]:
    """The noise in the cells' order, A/A before repeats; empty where nothing was measured twice."""
    by_point: dict[tuple[str, str, str, int], list[results.CellSummary]] = {}
    for cell in cells:
        key = (cell.benchmark, cell.model, cell.policy, cell.concurrency)
        by_point.setdefault(key, []).append(cell)
    floor = []
    for alike in by_point.values():
        repeats = sorted(results.without_a_a(alike), key=lambda c: c.repeat)
        again = [(repeats[0], cell) for cell in alike if cell.repeat == results.A_A and repeats]
        for kind, pairs in ((SAME_SEEDS, again), (OTHER_SEEDS, list(combinations(repeats, 2)))):
            rates = [(a.steps_per_min, b.steps_per_min) for a, b in pairs]
            times = _middle_and_most([max(a / b, b / a) for a, b in rates if a and b])
            scores = [(a.accuracy, b.accuracy) for a, b in pairs]
            points = [abs(a - b) for a, b in scores if a is not None and b is not None]
            if pairs:
                cell = pairs[0][0]
                floor.append(Noise(cell, kind, len(pairs), *times, *_middle_and_most(points)))
    return floor


def _middle_and_most(values: Sequence[float]) -> tuple[float | None, float | None]:
    return (median(values), max(values)) if values else (None, None)


def noise_at(found: Sequence[Noise], cell: results.CellSummary) -> Noise | None:
    """The noise at a cell's benchmark, model and load: A/A first, the noisiest of several."""
    place = (cell.benchmark, cell.model, cell.concurrency)
    here = [n for n in found if (n.cell.benchmark, n.cell.model, n.cell.concurrency) == place]
    here = [each for each in here if each.kind == SAME_SEEDS] or here
    return max(here, key=lambda each: each.most_times or 0.0, default=None)


def noise_words(noise: Noise) -> str:
    """The largest difference: ``at most 1.02 times in steps/min and 0.4 points of score``."""
    parts = []
    if noise.most_times is not None:
        parts.append(f"{number(noise.most_times, 2)} times in steps/min")
    if noise.most_points is not None:
        parts.append(f"{number(noise.most_points * 100)} points of score")
    return "at most " + " and ".join(parts) if parts else "by nothing that was measured"
