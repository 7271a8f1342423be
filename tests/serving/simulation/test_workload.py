"""Policies on a command line, and the workloads of the simulator's tests."""

from dataclasses import replace

import pytest

from tests.serving.simulation.workloads import SMALL_WORK
from tutti.tasks.serving.simulation.workload import SimulationError, parse_policy


def test_programs_end_before_a_context_that_is_too_long() -> None:
    short = replace(SMALL_WORK, programs=1, max_context=1000, shape="rebuilt", kept_tokens=100)
    (plan,) = short.plans(0)
    assert [turn.prompt for turn in plan.turns] == [400, 600, 800]
    assert [turn.kept for turn in plan.turns] == [0, 100, 100]


def test_a_policy_is_a_word_with_its_options() -> None:
    assert parse_policy("cap:8").limit == 8  # type: ignore[attr-defined]
    assert parse_policy("cap:limit=3").limit == 3  # type: ignore[attr-defined]
    assert parse_policy("passthrough").name == "passthrough"
    for wrong in ("cap:0", "cap:x", "cap:size=3", "passthrough:3", "nobody"):
        with pytest.raises(SimulationError, match=wrong):
            parse_policy(wrong)
