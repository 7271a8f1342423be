"""Tests of metrics against brute force over all subsets, and of refused inputs."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.scoring.metrics import avg_at_n, best_of_k, majority_at_k, pass_at_k, pass_hat_k
from tutti.tasks.scoring.statistics import wilson

BINARY = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=6)


@settings(deadline=None)
@given(st.lists(BINARY, min_size=1, max_size=4), st.integers(1, 6))
def test_pass_at_k_and_pass_hat_k(groups: list[list[float]], k: int) -> None:
    k = min(k, *(len(group) for group in groups))
    some = [fmean(max(pick) for pick in itertools.combinations(group, k)) for group in groups]
    every = [fmean(min(pick) for pick in itertools.combinations(group, k)) for group in groups]
    assert pass_at_k(groups, k).value == pytest.approx(fmean(some))
    assert pass_hat_k(groups, k).value == pytest.approx(fmean(every))


@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=6), min_size=1, max_size=4),
    st.integers(1, 3),
)
def test_best_of_k(groups: list[list[float]], k: int) -> None:
    """The reference lists all subsets; the value rises with k, from the mean to the maximum."""
    listed = [fmean(max(some) for some in itertools.combinations(group, k)) for group in groups]
    assert best_of_k(groups, k).value == pytest.approx(fmean(listed), abs=1e-9)
    assert best_of_k(groups, 1).value == pytest.approx(avg_at_n(groups).value, abs=1e-9)
    assert best_of_k(groups, k).value >= best_of_k(groups, 1).value - 1e-9


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=8), min_size=1))
def test_best_of_k_of_right_and_wrong_is_pass_at_k(groups: list[list[float]]) -> None:
    assert best_of_k(groups, 3).value == pytest.approx(pass_at_k(groups, 3).value)
    with pytest.raises(ValueError, match="k = 9"):
        best_of_k(groups, 9)


@pytest.mark.parametrize("metric", [pass_at_k, pass_hat_k])
def test_pass_metrics_refuse(metric: object) -> None:
    """A fraction is refused: a reference system mixed two estimators in one mean over rows."""
    assert callable(metric)
    for groups, k in (([[0.5, 1.0]], 1), ([[1.0]], 2), ([[1.0]], 0), ([], 1), ([[]], 1)):
        with pytest.raises(ValueError):
            metric(groups, k)


VOTES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([0.0, 0.25, 1.0])),
    min_size=1,
    max_size=7,
)


def by_brute_force(group: Sequence[tuple[str | None, float]], k: int) -> float:
    scores = {
        answer: fmean(score for other, score in group if other == answer) for answer, _ in group
    }
    values = []
    for pick in itertools.combinations([answer for answer, _ in group], k):
        votes = Counter(answer for answer in pick if answer is not None)
        top = [answer for answer in votes if votes[answer] == max(votes.values())]
        values.append(fmean(scores[answer] for answer in top) if top else 0.0)
    return fmean(values)


@settings(deadline=None)
@given(VOTES, st.integers(1, 7))
def test_majority_at_k(group: list[tuple[str | None, float]], k: int) -> None:
    k = min(k, len(group))
    assert majority_at_k([group], k).value == pytest.approx(by_brute_force(group, k))


def test_votes_go_by_answer() -> None:
    """A reference system counted (answer, score) pairs, so a noisy judge split the votes for one
    answer."""
    noisy = [("a", 1.0), ("a", 0.0), ("a", 1.0), ("b", 0.0), ("b", 0.0)]
    assert majority_at_k([noisy], 5).value == pytest.approx(2 / 3)


def test_majority_of_many_trials_is_quick() -> None:
    draw = random.Random(0)
    group = [(str(draw.randrange(8)), float(draw.randrange(2))) for _ in range(64)]
    assert 0 <= majority_at_k([group], 32).value <= 1


def test_intervals_are_over_tasks() -> None:
    """Trials are not tasks: values of 0 or 1 have Wilson's interval over the tasks."""
    groups = [[float(task < 6)] * 4 for task in range(10)]
    found = pass_hat_k(groups, 4)
    assert (found.low, found.high) == pytest.approx(wilson(6, 10))
    assert (found.value, found.n) == (0.6, 10)
    assert pass_at_k([[1.0, 0.0]], 2)[:3] == (1.0, *(wilson(1, 1) or ()))
