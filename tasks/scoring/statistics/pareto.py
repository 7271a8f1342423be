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

    on_front: bool  # by the point estimates
    standing: Standing  # on: nothing can dominate it, given the intervals; off: one surely does


def pareto_front(points: Sequence[Point]) -> list[FrontPlace]:
    """Each point's place, in order. An unknown end (None) excludes nothing.

    The statements `on` and `off` hold if all intervals hold; give them at 1 - 0.05 / (2 points) if
    all are to hold simultaneously. Source: interval dominance, as in Limbourg and Kochs,
    "Multi-objective optimization with imprecise objective functions", 2006. ValueError for a figure
    that is not finite or outside its interval.
    """
    boxes = [_box(point, place) for place, point in enumerate(points)]
    placed = []
    for place, (point, (cheapest, dearest, worst, best)) in enumerate(
        zip(points, boxes, strict=True)
    ):
        beaten = any(
            each.cost <= point.cost
            and each.accuracy >= point.accuracy
            and (each.cost, each.accuracy) != (point.cost, point.accuracy)
            for each in points
        )
        others = boxes[:place] + boxes[place + 1 :]
        surely_off = any(
            box[1] <= cheapest and box[2] >= best and box != boxes[place] for box in others
        )
        may_be_beaten = any(box[0] <= dearest and box[3] >= worst for box in others)
        standing: Standing = "off" if surely_off else "maybe" if may_be_beaten else "on"
        placed.append(FrontPlace(not beaten, standing))
    return placed


def _box(point: Point, place: int) -> tuple[float, float, float, float]:
    bounds: list[float] = []
    for value, low, high in (point[:3], point[3:]):
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        if value is None or not (math.isfinite(value) and least <= value <= most):
            raise ValueError(f"point {place}: {value} is not finite or not in {least} to {most}")
        bounds += [least, most]
    return bounds[0], bounds[1], bounds[2], bounds[3]
