"""Tests of ending over-saturated cells: certain ones end, those at the limit do not, for any
correlation of steps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.sweeps.run.early_stop import (
    BETS,
    LEAST_STEPS,
    ROUNDS,
    TAIL,
    LatencyStop,
)


def steps_until_the_end(latencies_s: list[float], slots: int = 4) -> int | None:
    """Return the number of steps of a watched cell, or None if it was not ended early."""
    watch = LatencyStop(2.0, slots)
    for count, latency_s in enumerate(latencies_s, start=1):
        watch.step(latency_s)
        if watch.verdict() is not None:
            return count
    return None


def test_a_cell_far_above_the_limit_ends_and_says_why() -> None:
    """The reason has text and numbers, for the steps after each session's first."""
    watch = LatencyStop(2.0, slots=4)
    for latency_s in [9.0] * 4 + [1.0, 3.0] * 200:
        watch.step(latency_s)
        if watch.verdict():
            break
    said = "over-saturated: 60 of 120 steps took longer than 2 s (5 % would be allowed)"
    assert watch.verdict() == said
    for _ in range(1_000):
        watch.step(0.1)
    assert watch.verdict() == said, "said once, it stays"


def test_a_step_at_the_limit_is_not_above_it() -> None:
    """No number of latencies below the limit ends the cell."""
    assert steps_until_the_end([2.0] * 5_000) is None


def test_the_first_step_of_each_session_is_left_out() -> None:
    """All sessions start at once on an empty engine, which is not representative."""
    assert steps_until_the_end([99.0] * 300 + [1.0] * 5_000, slots=300) is None
    assert steps_until_the_end([99.0] * 5_000, slots=300) is not None


def test_a_batch_is_four_steps_of_each_session() -> None:
    """Two batches above the limit are sufficient: 20 first steps, and 2 x 4 x 20."""
    assert steps_until_the_end([99.0] * 5_000, slots=20) == 20 + 2 * 4 * 20


def test_scores_are_of_no_interest() -> None:
    """The watch implements the whole interface of a cell's watches."""
    watch = LatencyStop(2.0)
    watch.sample("task", 0, 0.0)
    assert watch.verdict() is None


def test_the_capital_by_hand() -> None:
    """The cell ends at the batch where the averaged product of (1 + bet (share - TAIL)) reaches
    20."""
    shares = [0.3, 0.0, 0.3, 0.5, 0.2, 0.5, 0.3, 0.6]
    size = max(LEAST_STEPS, ROUNDS * 10)
    capital = [
        np.mean([math.prod(1 + bet * (x - TAIL) for x in shares[:n]) for bet in BETS])
        for n in range(1, len(shares) + 1)
    ]
    ends = next(n for n, amount in enumerate(capital, start=1) if amount >= 20)
    assert 1 < ends < len(shares)
    steps = [9.0] * 10
    for share in shares:
        above = round(share * size)
        steps += [9.0] * above + [0.0] * (size - above)
    assert steps_until_the_end(steps, slots=10) == 10 + ends * size


@settings(max_examples=settings().max_examples // 2)
@given(st.integers(1, 64), st.integers(0, 2**32 - 1))
def test_a_share_within_what_is_allowed_never_ends_a_cell(slots: int, seed: int) -> None:
    """Every batch has at most a twentieth of its steps above the limit, at any positions."""
    random = np.random.default_rng(seed)
    size = max(LEAST_STEPS, ROUNDS * slots)
    steps: list[float] = [1.0] * slots
    for _ in range(12):
        above = int(random.integers(0, int(TAIL * size) + 1))
        batch = np.array([9.0] * above + [1.0] * (size - above))
        steps += random.permutation(batch).tolist()
    assert steps_until_the_end(steps, slots) is None


def test_cells_at_the_limit_are_seldom_ended() -> None:
    """There are 300 cells whose true p95 is the limit, with runs of similar neighbours; counted one
    by one, such steps would alarm far more often."""
    alarms = naive = 0
    slots, memory = 8, 8.0
    for run in range(300):
        random = np.random.default_rng(run)
        keep = math.exp(-1 / memory)
        level, latencies = random.normal(), []
        for noise in random.normal(0, math.sqrt(1 - keep**2), 480):
            level = keep * level + noise
            latencies.append(9.0 if level > 1.6449 else 1.0)  # the 95th percentile
        alarms += steps_until_the_end(latencies, slots) is not None
        counted = np.cumsum([math.log1p(3.0 * ((x > 2) - TAIL)) for x in latencies[slots:]])
        naive += bool(counted.max() >= math.log(20))
    assert alarms <= 0.05 * 300 < naive


@pytest.mark.parametrize(("limit_s", "slots"), [(0.0, 1), (-1.0, 1), (math.nan, 1), (1.0, 0)])
def test_refusals(limit_s: float, slots: int) -> None:
    """Errors are raised for no limit and no slots."""
    with pytest.raises(ValueError, match="above 0"):
        LatencyStop(limit_s, slots)
