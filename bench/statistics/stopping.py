"""False-alarm rates of early stopping of cells, by simulation.

In: a number of cells. Out: shares of cells that were stopped, by the same classes that sweeps use.
Part of ``make bench-statistics``.
"""

import heapq
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.tasks.sweeps.run.early_stop import AccuracyStop, LatencyStop

Array = NDArray[np.float64]

SLOTS = 16
ROUNDS = 60  # steps of each session in a cell
LIMIT_S, ABOVE_S, BELOW_S = 1.0, 2.0, 0.5
AT_THE_LIMIT = 1.6448536269514722  # the standard normal's 95th percentile
MEMORIES = {"none": 0.0, "one step of each session": 1.0, "two steps of each session": 2.0}
FAR_ABOVE = 0.5  # of the steps of an over-saturated cell

TASKS = 150
SESSIONS = 40
WRONG_TAKES = 5.0  # times as long as right ones: a failing attempt runs into its limits


class StopRates(NamedTuple):
    """Shares of cells that were stopped."""

    at_the_limit: dict[str, float]
    """By the autocorrelation of neighbouring steps, with the true p95 at the limit."""
    counted_singly: float
    """With an autocorrelation of one step, if every step were its own batch."""
    saturated: float
    """Cells with half of the steps above the limit: the share stopped."""
    median_steps: float
    """Median steps per session until then."""


class DecisionRates(NamedTuple):
    """Shares of A/A cells that were stopped as better or worse."""

    as_planned: float
    as_ended: float
    """Had tasks been taken in the order in which they ended."""


def stopped(cells: int, seed: int) -> StopRates:
    """Cells of `SLOTS` sessions under `LatencyStop`: at the limit, and far above it."""
    ended: dict[str, float] = {}
    singly = 0.0
    for place, (name, rounds) in enumerate(MEMORIES.items()):
        above = steps_above(cells, rounds * SLOTS, AT_THE_LIMIT, (seed, place))
        ended[name] = float(np.mean([ended_after(row) is not None for row in above]))
        if rounds == 1.0:
            singly = float(np.mean([ended_singly(row) for row in above]))
    found = [ended_after(row) for row in steps_above(cells // 4, float(SLOTS), 0.0, (seed, 9))]
    steps = [SLOTS * ROUNDS if n is None else n for n in found]
    share = 1 - found.count(None) / len(found)
    return StopRates(ended, singly, share, float(np.median(steps)) / SLOTS)


def steps_above(cells: int, memory: float, limit: float, seed: tuple[int, int]) -> NDArray[np.bool]:
    """Whether each step is above `limit`, shape (cells, steps): a normal AR(1), spread 1.

    What is remembered falls by a factor of e in `memory` steps; 0: steps know nothing of others.
    """
    random = np.random.default_rng(seed)
    keep = math.exp(-1 / memory) if memory else 0.0
    level = random.normal(size=cells)
    found = np.empty((cells, SLOTS * ROUNDS), dtype=np.bool)
    for place in range(found.shape[1]):
        found[:, place] = level > limit
        level = keep * level + math.sqrt(1 - keep**2) * random.normal(size=cells)
    return found


def ended_after(above: NDArray[np.bool]) -> int | None:
    """After how many steps the cell was ended; None where it ran whole."""
    watch = LatencyStop(LIMIT_S, SLOTS)
    for count, is_above in enumerate(above.tolist(), start=1):
        watch.step(ABOVE_S if is_above else BELOW_S)
        if watch.verdict() is not None:
            return count
    return None


def ended_singly(above: NDArray[np.bool], bet: float = 3.0) -> bool:
    """Whether the same bet on single steps would have ended it."""
    capital = np.cumsum(np.log1p(bet * (above[SLOTS:] - 0.05)))
    return bool(capital.max() >= math.log(20))


def decided(cells: int, seed: int) -> DecisionRates:
    """A/A cells of `TASKS` tasks, `SESSIONS` at once, in which wrong answers take longer."""
    as_planned = as_ended = 0
    names = [f"task-{n}" for n in range(TASKS)]
    for cell in range(cells):
        random = np.random.default_rng((seed, cell))
        chances = random.beta(0.8, 0.8, TASKS)
        reference = dict(zip(names, (random.random(TASKS) < chances).astype(float), strict=True))
        scores = dict(zip(names, (random.random(TASKS) < chances).astype(float), strict=True))
        ended = in_order_of_ends(scores, random)
        as_planned += is_decided(reference, names, scores, ended)
        as_ended += is_decided(reference, ended, scores, ended)
    return DecisionRates(as_planned / cells, as_ended / cells)


def in_order_of_ends(scores: dict[str, float], random: np.random.Generator) -> list[str]:
    """Tasks as they end; each session takes the next one when it has ended its own."""
    sessions, ended = [0.0] * SESSIONS, []
    for task, score in scores.items():
        end = heapq.heappop(sessions) + random.exponential(1.0 if score else WRONG_TAKES)
        heapq.heappush(sessions, end)
        ended.append((end, task))
    return [task for _, task in sorted(ended)]


def is_decided(
    reference: dict[str, float], order: list[str], scores: dict[str, float], ended: list[str]
) -> bool:
    """Whether the cell was ended as better or worse; no margin, so that `same` ends none."""
    watch = AccuracyStop(reference, order, 0.0)
    for task in ended:
        watch.sample(task, 0, scores[task])
    return watch.verdict() is not None
