"""The Pareto front of set-ups by cost and accuracy, with the uncertainty of each."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

Standing = Literal["on", "maybe", "off"]


class Point(NamedTuple):
    """One set-up: its cost (any unit, lower is better) and accuracy, each with its interval."""

    cost: float
    cost_low: float | None
    cost_high: float | None
    accuracy: float
    accuracy_low: float | None
    accuracy_high: float | None


class FrontPlace(NamedTuple):
    """A set-up's position relative to the front."""

    on_front: bool
    """By the point estimates: no other set-up is as cheap and as accurate, and better in one."""
    standing: Standing
    """on: no other set-up can dominate it, given the intervals; off: one surely does; maybe: the
    rest."""


def pareto_front(points: Sequence[Point]) -> list[FrontPlace]:
    """Each point's place, in order. An unknown end (None) excludes nothing.

    The statements `on` and `off` hold if all intervals hold; give them at 1 - 0.05 / (2 points) if
    all are to hold simultaneously. Source: interval dominance, as in Limbourg and Kochs,
    "Multi-objective optimization with imprecise objective functions", 2006. ValueError for a figure
    that is not finite or outside its interval.
    """
    boxes = [_box(point, place) for place, point in enumerate(points)]
    placed = []
    for i, point in enumerate(points):
        others = [j for j in range(len(points)) if j != i]
        beaten = any(_beats(points[j], point) for j in others)
        low, high, worst, best = boxes[i]
        surely_off = any(
            boxes[j].cost_high <= low and boxes[j].accuracy_low >= best and boxes[j] != boxes[i]
            for j in others
        )
        may_be_beaten = any(
            boxes[j].cost_low <= high and boxes[j].accuracy_high >= worst for j in others
        )
        standing: Standing = "off" if surely_off else "maybe" if may_be_beaten else "on"
        placed.append(FrontPlace(not beaten, standing))
    return placed


class _Box(NamedTuple):
    cost_low: float
    cost_high: float
    accuracy_low: float
    accuracy_high: float


def _box(point: Point, place: int) -> _Box:
    low, high = _ends(point.cost, point.cost_low, point.cost_high, place)
    return _Box(low, high, *_ends(point.accuracy, point.accuracy_low, point.accuracy_high, place))


def _ends(value: float, low: float | None, high: float | None, place: int) -> tuple[float, float]:
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    if not (math.isfinite(value) and least <= value <= most):
        raise ValueError(f"point {place}: {value} is not finite or not in {least} to {most}")
    return least, most


def _beats(one: Point, other: Point) -> bool:
    at_least = one.cost <= other.cost and one.accuracy >= other.accuracy
    return at_least and (one.cost < other.cost or one.accuracy > other.accuracy)
