"""Tests of advantages: manually computed values, and properties of every group."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.training.jobs.rewards import (
    ADVANTAGES,
    RewardError,
    centred,
    decoupled,
    leave_one_out,
    mean_std,
    whitened,
)

GROUPS = st.lists(st.floats(-10, 10), min_size=1, max_size=16)


def test_by_hand() -> None:
    """Rewards 1, 0, 0, 0 have mean .25, deviation .5, and means of the others 0 or 1/3."""
    rewards = [1.0, 0.0, 0.0, 0.0]
    assert mean_std(rewards) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=4e-4)
    assert leave_one_out(rewards) == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert centred(rewards) == [0.75, -0.25, -0.25, -0.25]
    assert whitened([rewards, [1.0, 1.0]])[1] == [0.0, 0.0]


@given(GROUPS, st.sampled_from(sorted(ADVANTAGES)))
def test_they_sum_to_nothing(rewards: list[float], name: str) -> None:
    advantages = ADVANTAGES[name](rewards)
    assert math.fsum(advantages) == pytest.approx(0.0, abs=1e-6 * (1 + max(map(abs, advantages))))


@given(st.floats(-1e6, 1e6), st.integers(1, 20), st.sampled_from(sorted(ADVANTAGES)))
def test_equal_rewards_give_exactly_nothing(reward: float, n: int, name: str) -> None:
    assert ADVANTAGES[name]([reward] * n) == [0.0] * n


@given(GROUPS, st.randoms(), st.sampled_from(sorted(ADVANTAGES)))
def test_the_order_of_a_group_does_not_matter(rewards: list[float], rng: object, name: str) -> None:
    order = list(range(len(rewards)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    there = ADVANTAGES[name](rewards)
    mixed = ADVANTAGES[name]([rewards[nth] for nth in order])
    assert mixed == pytest.approx([there[nth] for nth in order], abs=1e-9)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=12), st.integers(10, 1000))
def test_grpo_does_not_see_the_scale_of_rewards(rewards: list[int], scale: int) -> None:
    """The small constant that prevents division by zero is the exception."""
    one, other = (
        mean_std([float(r) for r in rewards]),
        mean_std([float(r * scale) for r in rewards]),
    )
    assert other == pytest.approx(one, rel=2e-3)


@given(GROUPS)
def test_more_reward_is_never_less_advantage(rewards: list[float]) -> None:
    for rule in ADVANTAGES.values():
        ranked = sorted(zip(rewards, rule(rewards), strict=True))
        assert all(a[1] <= b[1] + 1e-9 for a, b in itertools.pairwise(ranked))


def test_parts_are_normalised_apart() -> None:
    """If they were summed first, (1, 0) and (0, 1) of parts with one scale would be equal."""
    parts = {"right": [1.0, 0.0, 0.0, 1.0], "short": [0.0, 0.01, 0.0, 0.01]}
    one, two, three, four = decoupled(parts, {"right": 1.0, "short": 0.5})
    assert four > one > two > three
    with pytest.raises(RewardError, match="do not match"):
        decoupled(parts, {"right": 1.0})


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(RewardError, match=r"rewards\[1\]"):
        mean_std([0.0, float("nan")])
