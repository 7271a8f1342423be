"""Tests of `adaptive` on simulated engines: it holds calls where a lost prefix is expensive, and
nowhere else."""

from dataclasses import replace

import pytest

from tests.serving.simulation.workloads import (
    POCKET,
    POCKET_WORK,
    SMALL,
    SMALL_WORK,
    simulate_work,
)
from tutti.tasks.serving.scheduling import make_policy


@pytest.mark.parametrize("sessions", [8, 16])
def test_it_does_not_lose_to_plain_where_prefixes_are_worth_nothing(sessions: int) -> None:
    """With a tiny model and contexts of a hundred tokens, its calls show only noise, and the
    measurement on the idle engine is sufficient."""
    work = replace(POCKET_WORK, programs=240)
    plain = simulate_work(work, sessions, [POCKET], make_policy("passthrough"))
    ours = simulate_work(work, sessions, [POCKET], make_policy("adaptive"))
    assert ours.steps_per_min > 0.97 * plain.steps_per_min


def test_it_beats_plain_where_prefixes_are_dear() -> None:
    plain = simulate_work(SMALL_WORK, 48, [SMALL], make_policy("passthrough"))
    ours = simulate_work(SMALL_WORK, 48, [SMALL], make_policy("adaptive"))
    assert ours.steps_per_min > 1.7 * plain.steps_per_min
