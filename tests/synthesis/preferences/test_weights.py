"""Tests of weights: drawn ones are within bounds, every planted fault is refused, and splits share
no shape."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.synthesis.domains.offer import ACCURACY, AIMS, COST, LATENCY
from tutti.tasks.synthesis.preferences.weights import (
    UNITS,
    draw_weights,
    shape_of,
    weights_reason,
    weights_split,
)
from tutti.tasks.training.jobs import rewards

TOOLS = ("calculate", "find_rate", "search")


def test_the_reward_knows_the_aims_by_the_same_names() -> None:
    assert (rewards.ACCURACY, rewards.COST, rewards.LATENCY) == (ACCURACY, COST, LATENCY)


@given(st.integers())
def test_drawn_weights_are_right(seed: int) -> None:
    """Drawn weights are within bounds, in steps of 1/20, only for tools that may be preferred or
    avoided, and accepted by the reward."""
    weights = draw_weights(Random(seed), TOOLS[:2], TOOLS[1:])
    assert weights_reason(weights, TOOLS) == ""
    assert weights == draw_weights(Random(seed), TOOLS[:2], TOOLS[1:])
    for name, weight in weights.items():
        assert abs(weight * UNITS - round(weight * UNITS)) < 1e-9 and abs(weight) >= 0.1
        assert name in AIMS or name in (TOOLS[:2] if weight > 0 else TOOLS[1:])
        assert rewards.weight_reason(name, weight) == ""


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"accuracy": 0.5, "x_ray": 0.5}, "weights.x_ray: no such tool is offered"),
        ({"accuracy": 0.5, "cost": -0.5}, "weights.cost: -0.5 is negative; cost and latency"),
        ({"accuracy": 0.5, "latency": -0.5}, "weights.latency: -0.5 is negative"),
        ({"accuracy": -0.5, "cost": 0.5}, "weights.accuracy: -0.5 is negative; it must"),
        ({"accuracy": 1.5}, "weights.accuracy: 1.5 is not from -1 to 1"),
        ({"accuracy": float("nan")}, "is not from -1 to 1"),
        ({"accuracy": 0.5, "search": -1.5}, "weights.search: -1.5 is not from -1 to 1"),
        ({"cost": 1.0}, "weights.accuracy: must be above 0"),
        ({"accuracy": 0.5, "cost": 0.4}, "their sizes sum to 0.900, not to 1"),
        ({"accuracy": 0.5, "search": -0.6}, "their sizes sum to 1.100, not to 1"),
        ({}, "weights.accuracy: must be above 0"),
    ],
)
def test_planted_faults_are_refused(weights: dict[str, float], said: str) -> None:
    assert said in weights_reason(weights, TOOLS)


def test_the_names_of_tools_do_not_decide_the_split() -> None:
    """The same preference for other tools is in the same split."""
    one = {"accuracy": 0.5, "search": 0.3, "calculate": -0.2}
    other = {"accuracy": 0.5, "find_rate": -0.2, "calculate": 0.3}
    assert shape_of(one) == shape_of(other) and weights_split(one) == weights_split(other)
    splits = {weights_split(draw_weights(Random(n), TOOLS, TOOLS)) for n in range(60)}
    assert splits == {"train", "validation", "test"}
