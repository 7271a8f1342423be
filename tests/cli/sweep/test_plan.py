"""Tests that `tutti sweep plan --json` has what the text has: the measure and the warnings."""

import pytest

from tests.sweeps.conftest import plan_of
from tutti.cli.sweep.plan import _content
from tutti.tasks.sweeps.plan import PlanEstimate
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.sweeps.spec.groups import Repetition, SamplingSettings


@pytest.mark.parametrize(("temperature", "warned"), [(0.0, 1), (0.7, 0)])
def test_the_warning_of_trials_at_temperature_0_is_in_the_json(
    temperature: float, warned: int
) -> None:
    """A program that reads the plan gets the warning, too."""
    sampling = SamplingSettings(temperature=temperature)
    suite = Suite(repetition=Repetition(trials=4), sampling=sampling)
    found = _content(PlanEstimate(plan_of(suite, count=1), (), "mean score", 0.5, None))
    assert len(found["warnings"]) == warned
    assert not warned or "4 trials of each task at temperature 0" in found["warnings"][0]
    assert (found["measure"], found["expected"], found["accuracy"]) == ("mean score", 0.5, 0.5)
