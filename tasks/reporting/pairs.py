"""Which set-ups a report compares, and the noise floor: one set-up measured twice.

In: cells. Out: `Pair`s of policies at each load and of models on each benchmark, which
`tutti.tasks.sweeps.analysis` compares; one `Noise` a set-up that was measured more than once: its
A/A cell against the first repeat (same tasks, order and seeds), and repeats among each other (other
seeds). Nothing smaller than the noise is an effect of anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from tutti.tasks.reporting.text.numbers import at_once, number
from tutti.tasks.sweeps.analysis import Pair
from tutti.tasks.sweeps.results import (
    A_A,
    BASELINE,
    CellSummary,
    LoadPoint,
    differing,
    ids_of,
    load_points,
    without_a_a,
)


def policy_pairs(cells: Sequence[CellSummary]) -> list[Pair]:
    """At each load of a benchmark and model: the baseline, else the first policy, and each other.

    With one policy there is nothing to compare, and no pair.
    """
    groups: dict[tuple[str, str, int], list[LoadPoint]] = {}
    for point in load_points(cells):
        groups.setdefault((point.benchmark, point.model, point.concurrency), []).append(point)
    pairs = []
    for _, points in sorted(groups.items()):
        first = next((p for p in points if p.policy == BASELINE), points[0])
        where = setting(first, cells)
        pairs += [
            Pair(where, first.policy, ids_of(first), other.policy, ids_of(other))
            for other in points
            if other is not first
        ]
    return pairs


def model_pairs(cells: Sequence[CellSummary]) -> list[Pair]:
    """On each benchmark the model measured first, and each other, over all of their cells."""
    groups: dict[str, dict[str, list[str]]] = {}
    for cell in without_a_a(cells):
        groups.setdefault(cell.benchmark, {}).setdefault(cell.model, []).append(cell.cell_id)
    return [
        Pair(benchmark, first, tuple(models[first]), other, tuple(models[other]))
        for benchmark, models in groups.items()
        for first in list(models)[:1]
        for other in list(models)[1:]
    ]


def setting(point: LoadPoint, cells: Sequence[CellSummary]) -> str:
    """A point's load, with benchmark and model in front where the cells differ in them."""
    return ", ".join([*differing(point, cells), at_once(point.concurrency)])


SAME_SEEDS, OTHER_SEEDS = "A/A", "repeats"


@dataclass(frozen=True)
class Noise:
    """Pairs of measurements of one set-up. None where no pair has the figure."""

    cell: CellSummary
    """The first of them, which says what they are."""
    kind: str
    """SAME_SEEDS or OTHER_SEEDS."""
    pairs: int
    times: float | None
    """Steps per minute, the faster over the slower: the median pair."""
    most_times: float | None
    points: float | None
    """Difference of accuracy, 0 to 1: the median pair."""
    most_points: float | None


def noise_floor(cells: Sequence[CellSummary]) -> list[Noise]:
    """In the cells' order, A/A before repeats; empty where nothing was measured twice."""
    by_point: dict[tuple[str, str, str, int], list[CellSummary]] = {}
    for cell in cells:
        key = (cell.benchmark, cell.model, cell.policy, cell.concurrency)
        by_point.setdefault(key, []).append(cell)
    found = []
    for alike in by_point.values():
        again = [cell for cell in alike if cell.repeat == A_A]
        repeats = sorted((c for c in alike if c.repeat != A_A), key=lambda c: c.repeat)
        for kind, pairs in (
            (SAME_SEEDS, [(repeats[0], cell) for cell in again if repeats]),
            (OTHER_SEEDS, list(combinations(repeats, 2))),
        ):
            if pairs:
                found.append(_noise(kind, pairs))
    return found


def noise_at(found: Sequence[Noise], cell: CellSummary) -> Noise | None:
    """What is known at a cell's benchmark, model and load: A/A first, the noisiest of several."""
    here = [
        each
        for each in found
        if (each.cell.benchmark, each.cell.model, each.cell.concurrency)
        == (cell.benchmark, cell.model, cell.concurrency)
    ]
    here = [each for each in here if each.kind == SAME_SEEDS] or here
    return max(here, key=lambda each: each.most_times or 0.0, default=None)


def said(noise: Noise) -> str:
    """How far it differed: ``at most 1.02 times in steps/min and 0.4 points of score``."""
    parts = []
    if noise.most_times is not None:
        parts.append(f"{number(noise.most_times, 2)} times in steps/min")
    if noise.most_points is not None:
        parts.append(f"{number(noise.most_points * 100)} points of score")
    return "at most " + " and ".join(parts) if parts else "by nothing that was measured"


def _noise(kind: str, pairs: Sequence[tuple[CellSummary, CellSummary]]) -> Noise:
    times = _of_pairs(pairs, lambda c: c.steps_per_min or None, lambda a, b: max(a / b, b / a))
    points = _of_pairs(pairs, lambda c: c.accuracy, lambda a, b: abs(a - b))
    return Noise(
        pairs[0][0],
        kind,
        len(pairs),
        median(times) if times else None,
        max(times, default=None),
        median(points) if points else None,
        max(points, default=None),
    )


def _of_pairs(
    pairs: Sequence[tuple[CellSummary, CellSummary]],
    figure: Callable[[CellSummary], float | None],
    gap: Callable[[float, float], float],
) -> list[float]:
    values = [(figure(a), figure(b)) for a, b in pairs]
    return [gap(a, b) for a, b in values if a is not None and b is not None]
