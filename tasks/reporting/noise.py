"""The noise floor: how far the same set-up, measured twice, differs from itself.

In: cells. Out: one `Noise` a set-up that was measured more than once: its A/A cell against the
first repeat (same tasks, order and seeds), and repeats among each other (other seeds). Nothing
smaller is an effect of anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from tutti.tasks.reporting.summary import A_A, CellSummary
from tutti.tasks.reporting.text.numbers import number

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
