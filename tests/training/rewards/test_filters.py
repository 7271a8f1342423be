"""Tests that groups that teach nothing are left out with their reason, and infrastructure failures
are never scored 0."""

import pytest

from tutti.tasks.training.jobs.rewards import (
    RewardError,
    Rollout,
    filtered,
    overlong,
)


def group(*rewards: float | None, valid: bool = True) -> list[Rollout]:
    return [Rollout(f"attempt:{nth}", reward, valid) for nth, reward in enumerate(rewards)]


def test_each_group_has_its_reason() -> None:
    found = filtered(
        {
            "good": group(1.0, 0.0, None),
            "dead": group(1.0, 1.0),
            "down": group(None, None, 1.0),
            "flat": group(0.5, 0.51),
            "form": group(0.0, 1.0, valid=False),
            "open": [*group(1.0, 0.0), Rollout("attempt:2", 1.0, judged=False)],
        },
        least_deviation=0.1,
    )
    whys = {"dead": "dead", "down": "infra", "flat": "flat", "form": "invalid", "open": "unjudged"}
    assert found.dropped == whys
    assert [each.reward for each in found.kept["good"]] == [1.0, 0.0], "none of them 0 for infra"
    every = ("kept", "infra", "unjudged", "invalid", "dead", "flat")
    assert found.counts() == dict.fromkeys(every, 1)
    assert found.dead_share == pytest.approx(1 / 3), "of the groups with rewards"


def test_the_shape_of_a_lengths_reward() -> None:
    """With DAPO's numbers it is 0 up to most - buffer, then linear down to -1."""
    assert [overlong(n, 100, 20) for n in (80, 90, 100, 300)] == [0.0, -0.5, -1.0, -1.0]
    with pytest.raises(RewardError, match="buffer"):
        overlong(1, 10, 0)
