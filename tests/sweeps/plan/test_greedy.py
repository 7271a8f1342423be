"""Tests that several trials at temperature 0 are reported before anything runs."""

import pytest

from tests.sweeps.conftest import plan_of
from tutti.tasks.sweeps.plan.estimate import greedy_line
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.sweeps.spec.groups import Repetition, SamplingSettings


@pytest.mark.parametrize(
    ("trials", "temperature", "is_said"),
    [(4, 0.0, True), (4, 0.7, False), (1, 0.0, False)],
)
def test_trials_that_repeat_an_answer(trials: int, temperature: float, is_said: bool) -> None:
    suite = Suite(
        repetition=Repetition(trials=trials), sampling=SamplingSettings(temperature=temperature)
    )
    line = greedy_line(plan_of(suite, count=1))
    assert bool(line) is is_said
    assert not is_said or "4 trials of each task at temperature 0" in line
