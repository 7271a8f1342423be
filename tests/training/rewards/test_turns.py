"""Tests of EPO's turns: the published weights as published, and ours without their defects."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.rewards.published import published_weights
from tutti.tasks.training.jobs.rewards import (
    Dialogue,
    RewardError,
    turn_advantages,
    turn_returns,
)


def dialogue(outcome: float, turns: int, *picked: int) -> Dialogue:
    return Dialogue(outcome, tuple(nth in picked for nth in range(turns)))


def test_the_published_numbers() -> None:
    """In the released code, a failure with two picks weighs up to 1.0, like a success."""
    success = [0.98, 0.99, 1.0, 0.662, 0.669, 0.676, 0.334, 0.338, 0.341, 0.345]
    failure = [0.98, 0.99, 1.0, 0.497, 0.502, 0.508, 0.0, 0.0, 0.0, 0.0]
    weights = published_weights(dialogue(1.0, 10, 2, 5))
    assert weights == pytest.approx(success, abs=6e-4)
    assert published_weights(dialogue(0.0, 10, 2, 5)) == pytest.approx(failure, abs=6e-4)


def test_a_failure_with_picks_is_pushed_down_by_ours() -> None:
    success, failure = turn_advantages([dialogue(1.0, 10, 2, 5), dialogue(0.0, 10, 2, 5)])
    assert all(a > 0 for a in success) and all(a < 0 for a in failure)


def test_a_picked_last_turn_keeps_its_outcome() -> None:
    """As published it gets 1.0 in place of the outcome, so a failure is hidden."""
    good, bad = (turn_returns(dialogue(outcome, 3, 2))[-1] for outcome in (1.0, 0.0))
    assert good - bad == pytest.approx(1.0)
    assert published_weights(dialogue(1.0, 3, 2)) == published_weights(dialogue(0.0, 3, 2))


picks = st.lists(st.booleans(), min_size=1, max_size=12).map(tuple)


@given(picks, st.floats(0, 1), st.integers(2, 6))
def test_equal_dialogues_weigh_nothing(picked: tuple[bool, ...], outcome: float, n: int) -> None:
    for advantages in turn_advantages([Dialogue(outcome, picked)] * n):
        assert advantages == pytest.approx([0.0] * len(picked), abs=1e-9)


@given(picks, st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_with_equal_picks_failure_never_weighs_more_than_success(
    picked: tuple[bool, ...], outcomes: list[float]
) -> None:
    group = [Dialogue(outcome, picked) for outcome in sorted(outcomes)]
    every = turn_advantages(group)
    for worse, better in itertools.pairwise(every):
        assert all(a <= b + 1e-9 for a, b in zip(worse, better, strict=True))


@given(st.lists(picks, min_size=1, max_size=6), st.floats(0, 1))
def test_every_turn_has_an_advantage(every: list[tuple[bool, ...]], outcome: float) -> None:
    """This also holds in dialogues of different lengths."""
    group = [Dialogue(outcome, picked) for picked in every]
    assert [len(a) for a in turn_advantages(group)] == [len(picked) for picked in every]


def test_dialogues_of_different_lengths_are_matched_from_the_end() -> None:
    """With discount one half, returns are 0.5, 1 and 0.2, 0, 0; if the shorter has no turn, its
    outcome is discounted once more. A dialogue without turns is not used as a baseline."""
    short, long, empty = dialogue(1.0, 2), dialogue(0.0, 3, 0), dialogue(1.0, 0)
    expected = [pytest.approx([0.5, 1.0]), pytest.approx([-0.05, -0.5, -1.0])]
    assert turn_advantages([short, long], 0.5, 0.2) == expected
    assert turn_advantages([short, empty, long], 0.5, 0.2) == [expected[0], [], expected[1]]
    others = turn_advantages([short, short, long], 0.5, 0.2)
    assert others[0] == pytest.approx([0.25, 0.5]) and others[2] == expected[1]


def test_an_outcome_is_from_0_to_1() -> None:
    with pytest.raises(RewardError, match="outcome"):
        turn_returns(dialogue(7.0, 2))


@given(st.lists(st.integers(1, 12), min_size=2, max_size=6), st.floats(0, 1))
def test_equal_outcomes_without_picks_weigh_nothing_whatever_their_lengths(
    lengths: list[int], outcome: float
) -> None:
    """A dialogue is not penalised for taking more turns to the same outcome."""
    group = [Dialogue(outcome, (False,) * length) for length in lengths]
    assert turn_advantages(group) == [[0.0] * length for length in lengths]
