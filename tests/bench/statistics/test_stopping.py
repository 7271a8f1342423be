"""Tests of the bench of early stopping: its true values are correct."""

import numpy as np
import pytest

from bench.statistics import stopping


@pytest.mark.parametrize("memory", [0.0, 16.0])
def test_the_share_above_the_limit_is_exact(memory: float) -> None:
    """One step in twenty is above the limit, with and without memory."""
    above = stopping.steps_above(400, memory, stopping.AT_THE_LIMIT, (0, 0))
    assert above.mean() == pytest.approx(0.05, abs=0.005)
    alike = np.mean(above[:, 1:] & above[:, :-1]) / 0.05
    assert alike > 0.5 if memory else alike < 0.1


def test_wrong_answers_end_later() -> None:
    """All tasks are present, and the first half to end has more correct answers."""
    random = np.random.default_rng(0)
    scores = {f"t{n}": float(n % 2) for n in range(200)}
    ended = stopping.in_order_of_ends(scores, random)
    assert set(ended) == set(scores)
    assert sum(scores[task] for task in ended[:60]) > 36


def test_few_cells_give_all_shares() -> None:
    """Cells far above the limit are stopped."""
    found = stopping.stopped(8, 0)
    assert (found.saturated, set(found.at_the_limit)) == (1.0, set(stopping.MEMORIES))
    assert 0 <= stopping.decided(4, 0).as_planned <= 1
