"""Metrics against brute force over all subsets, and refusals of what they are not for."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.scoring.metrics import (
    Bounds,
    Estimate,
    avg_at_n,
    best_of_k,
    bounds,
    majority_at_k,
    mean,
    pass_at_k,
    pass_hat_k,
)
from tutti.tasks.scoring.numeric import same_number

BINARY = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=6)


@settings(deadline=None)
@given(st.lists(BINARY, min_size=1, max_size=4), st.integers(1, 6))
def test_pass_at_k_and_pass_hat_k(groups: list[list[float]], k: int) -> None:
    k = min(k, *(len(group) for group in groups))
    some = [fmean(max(pick) for pick in itertools.combinations(group, k)) for group in groups]
    every = [fmean(min(pick) for pick in itertools.combinations(group, k)) for group in groups]
    assert pass_at_k(groups, k).value == pytest.approx(fmean(some))
    assert pass_hat_k(groups, k).value == pytest.approx(fmean(every))


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


def test_votes_go_by_answer_and_equivalence() -> None:
    """A reference system counted (answer, score) pairs: a noisy judge split the votes of one
    answer, and 1/2 and 0.5 were two."""
    noisy = [("a", 1.0), ("a", 0.0), ("a", 1.0), ("b", 0.0), ("b", 0.0)]
    assert majority_at_k([noisy], 5).value == pytest.approx(2 / 3)
    spelled = [("1/2", 1.0), ("0.5", 1.0), ("7", 0.0), ("7", 0.0), (".50", 1.0)]
    assert majority_at_k([spelled], 5).value == 0.0
    assert majority_at_k([spelled], 5, same_number).value == 1.0


def test_majority_of_many_trials_is_quick() -> None:
    draw = random.Random(0)
    group = [(str(draw.randrange(8)), float(draw.randrange(2))) for _ in range(64)]
    assert 0 <= majority_at_k([group], 32).value <= 1


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=6
    ),
    st.integers(1, 6),
)
def test_best_of_k(group: list[tuple[float, float]], k: int) -> None:
    k = min(k, len(group))
    values = []
    for pick in itertools.combinations(group, k):
        best = max(rank for rank, _ in pick)
        level = [score for rank, score in group if rank == best]
        picked = [score for rank, score in pick if rank == best]
        # Over all subsets together, trials of one rank are picked alike.
        values.append((fmean(picked), fmean(level)))
    assert best_of_k([group], k).value == pytest.approx(fmean(level for _, level in values))
    assert best_of_k([group], k).value == pytest.approx(fmean(picked for picked, _ in values))


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=2, max_size=8))
def test_mean_and_its_error(groups: list[list[float]]) -> None:
    means = [fmean(group) for group in groups]
    found = mean(groups)
    assert found.value == pytest.approx(fmean(means)) and found.n == len(groups)
    assert found.se == pytest.approx(stdev(means) / len(means) ** 0.5, abs=1e-9)
    alone = mean(groups, clusters=range(len(groups)))
    assert alone.se == pytest.approx(found.se)


def test_trials_are_not_questions() -> None:
    """The same question asked again and again, always alike, tells nothing new."""
    once, often = [[0.0], [1.0], [1.0]], [[0.0] * 50, [1.0] * 50, [1.0] * 50]
    assert mean(once) == mean(often)


def test_clusters_against_simulation() -> None:
    """Pairs of tasks that always go alike: the clustered error is the true one, not the other."""
    draw = random.Random(1)
    values, clustered, plain = [], [], []
    for _ in range(400):
        pairs = [float(draw.random() < 0.5) for _ in range(40)]
        groups = [[value] for value in pairs for _ in range(2)]
        found = mean(groups, [place // 2 for place in range(80)])
        values.append(found.value)
        clustered.append(found.se or 0.0)
        plain.append(mean(groups).se or 0.0)
    assert fmean(clustered) == pytest.approx(stdev(values), rel=0.1)
    assert fmean(plain) < 0.8 * stdev(values)


def test_refusals_and_edges() -> None:
    assert mean([[1.0]]) == Estimate(1.0, None, 1)
    assert avg_at_n([[1.0, 0.0], [1.0, 1.0]], 2).value == 0.75
    with pytest.raises(ValueError, match="task 1 has 1 trials"):
        avg_at_n([[1.0, 0.0], [1.0]], 2)
    with pytest.raises(ValueError):
        mean([])
    with pytest.raises(ValueError):
        mean([[]])
    with pytest.raises(ValueError):
        mean([[1.0]], clusters=["a", "b"])


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0]), max_size=8), st.integers(0, 8))
def test_bounds(scores: list[float], n_infra: int) -> None:
    found = bounds(scores, n_infra)
    assert (found.n, found.n_infra) == (len(scores), n_infra)
    if not scores and not n_infra:
        assert found == Bounds(0, 0, None, None, None)
        return
    assert found.low is not None and found.high is not None
    assert found.low == pytest.approx(fmean([*scores, *[0.0] * n_infra]))
    assert found.high == pytest.approx(fmean([*scores, *[1.0] * n_infra]))
    if scores:
        assert found.accuracy == pytest.approx(fmean(scores))
