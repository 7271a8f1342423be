"""Tests that a policy that has stopped exploring and earns less is stopped, but not one that solves
everything."""

from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tutti.tasks.training.policy.trainer import collapse

RULE: dict[str, Any] = {"steps": 3, "entropy": 0.02}


def alive(reward: float, entropy: float = 0.5) -> dict[str, Any]:
    return {"reward": reward, "entropy": entropy, "dead_group_share": 0.4}


def dead(reward: float) -> dict[str, Any]:
    """Return a step without sequences, for which the trainer has no measurements."""
    return {"reward": reward, "loss": None, "dead_group_share": 1.0}


def test_the_diagnosis_says_what_was_seen() -> None:
    steps = [alive(0.3), alive(0.5), alive(0.4, 0.015), *[dead(0.1)] * 3]
    assert collapse(steps, **RULE) == (
        "collapsed: entropy 0.015 nats, and no group with different rewards for 3 steps; "
        "mean reward 0.1, at best 0.4 before"
    )


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([alive(0.4), alive(0.4, 0.01), dead(0), dead(0)], "too few dead steps"),
        ([alive(0.4, 0.01), dead(0), alive(0.1, 0.01), dead(0), dead(0)], "not in a row"),
        ([alive(0.4, 0.01), alive(0.4, 0.3), *[dead(0)] * 3], "it still explores"),
        ([*[dead(0)] * 9], "never trained: its entropy is not known"),
        ([alive(0.5), alive(0.9, 0.01), *[dead(1.0)] * 3], "every task is solved"),
        ([alive(0.5, 0.01)] * 9, "groups still differ"),
        ([], "nothing is known"),
    ],
)
def test_what_is_no_collapse(steps: list[dict[str, Any]], why: str) -> None:
    assert collapse(steps, **RULE) is None, why


def test_one_lucky_step_is_no_best() -> None:
    """The reward is averaged over the number of steps that the rule considers."""
    steps = [alive(0.1), alive(0.9), alive(0.1), alive(0.1, 0.01), *[dead(0.5)] * 3]
    assert collapse(steps, **RULE) is None
    assert collapse([*steps[:-3], *[dead(0.3)] * 3], **RULE) is not None
