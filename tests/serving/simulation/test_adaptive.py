"""`adaptive` on simulated engines: it holds where a lost prefix is dear, and nowhere else."""

from dataclasses import replace

import pytest

from tutti.tasks.serving.scheduling import make_policy
from tutti.tasks.serving.simulation.plan import POCKET, POCKET_WORK, SMALL, SMALL_WORK
from tutti.tasks.serving.simulation.simulate import simulate


@pytest.mark.parametrize("sessions", [8, 16])
def test_it_does_not_lose_to_plain_where_prefixes_are_worth_nothing(sessions: int) -> None:
    """A tiny model, contexts of a hundred tokens: what its calls show is noise, what an idle engine
    showed is enough."""
    work = replace(POCKET_WORK, programs=240)
    plain = simulate(work, sessions, [POCKET], make_policy("passthrough"))
    ours = simulate(work, sessions, [POCKET], make_policy("adaptive"))
    assert ours.steps_per_min > 0.97 * plain.steps_per_min


def test_it_beats_plain_where_prefixes_are_dear() -> None:
    """Three times as many programs as fit."""
    plain = simulate(SMALL_WORK, 48, [SMALL], make_policy("passthrough"))
    ours = simulate(SMALL_WORK, 48, [SMALL], make_policy("adaptive"))
    assert ours.steps_per_min > 1.7 * plain.steps_per_min
