"""Metrics over tasks and trials, one estimator each; the source of each formula in its docstring.

In: scores grouped by task, ``[[score of trial 1, …] of task 1, …]``. Out: an `Estimate`. Trials of
a task must be interchangeable (drawn alike, with their own seeds). A group is what counts in
accuracy: attempts that ended in infra_error are left out before, and `bounds` says what that could
hide. All raise ValueError for no tasks, a task without trials, and scores the metric is not for.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from statistics import fmean
from typing import NamedTuple

from tutti.tasks.scoring.statistics.spread import spread

Groups = Sequence[Sequence[float]]


class Estimate(NamedTuple):
    """A mean over tasks."""

    value: float
    se: float | None
    """Standard error over tasks, or over clusters of them; None for fewer than two."""
    n: int
    """Tasks."""


class Bounds(NamedTuple):
    """An accuracy and what it could be had no attempt been lost."""

    n: int
    """Attempts that count."""
    n_infra: int
    """Attempts lost to infrastructure."""
    accuracy: float | None
    """Of those that count; None where none does."""
    low: float | None
    """If all lost ones were wrong."""
    high: float | None
    """If all lost ones were right."""


def mean(groups: Groups, clusters: Sequence[Hashable] | None = None) -> Estimate:
    """Mean over tasks of each task's mean, and its standard error at the level of questions.

    Without clusters: sd of the task means / √n. With `clusters` (one label a task: tasks that share
    a document or a template) as `statistics.spread`. Repeated trials lower the error by what they
    lower the task's own noise, and never count as more questions. For an interval:
    `statistics.mean_interval`.
    """
    return _over_tasks([fmean(_filled(group)) for group in groups], clusters)


def avg_at_n(groups: Groups, n: int, clusters: Sequence[Hashable] | None = None) -> Estimate:
    """The mean of exactly `n` trials a task, as published for small sets; ValueError otherwise."""
    for place, group in enumerate(groups):
        if len(group) != n:
            raise ValueError(f"task {place} has {len(group)} trials, not {n}")
    return mean(groups, clusters)


def pass_at_k(groups: Groups, k: int) -> Estimate:
    """Chance that at least one of `k` trials is right: 1 - C(n-c, k) / C(n, k), a mean over tasks.

    Unbiased; for scores of 0 and 1 only. Source: Chen et al., "Evaluating large language models
    trained on code", 2021, equation 1.
    """
    counts = [_right_of(group, k) for group in groups]
    return _over_tasks([1 - math.comb(n - c, k) / math.comb(n, k) for n, c in counts])


def pass_hat_k(groups: Groups, k: int) -> Estimate:
    """Chance that all of `k` trials are right (pass^k): C(c, k) / C(n, k), a mean over tasks.

    Unbiased; for scores of 0 and 1 only. Source: Yao et al., "τ-bench", 2024.
    """
    counts = [_right_of(group, k) for group in groups]
    return _over_tasks([math.comb(c, k) / math.comb(n, k) for n, c in counts])


def best_of_k(groups: Sequence[Sequence[tuple[float, float]]], k: int) -> Estimate:
    """Expected score of the trial that a judge ranks first among `k`; groups of (rank, score).

    Over all subsets of k of the n trials: with trials in order of rank, the i-th is first in
    C(i-1, k-1) / C(n, k) of them; trials of the same rank share their chance alike.
    Source: counting; the max-of-k estimator of Chen et al., 2021, with a judge in the place of
    tests.
    """
    return _over_tasks([_best_of(group, k) for group in groups])


def majority_at_k(
    groups: Sequence[Sequence[tuple[str | None, float]]],
    k: int,
    same: Callable[[str, str], bool] = lambda one, other: one == other,
) -> Estimate:
    """Expected score of the answer that most of `k` trials give; groups of (answer, score).

    Over all subsets of k of the n trials, by counting. Answers that are the `same` are one vote,
    whose score is the mean of their scores: the votes go by answer, never by how it was judged. A
    tie gives the mean of the tied answers; None is no answer and never wins; k times None gives 0.
    Source: Wang et al., "Self-consistency", 2022; the subsets as in Chen et al., 2021.
    """
    return _over_tasks([_majority_of(group, k, same) for group in groups])


def bounds(scores: Sequence[float], n_infra: int) -> Bounds:
    """The mean of `scores` (each 0 to 1), and the least and most it could be with those lost."""
    if any(not 0 <= score <= 1 for score in scores) or n_infra < 0:
        raise ValueError("bounds are for scores of 0 to 1")
    n, total = len(scores), math.fsum(scores)
    if n + n_infra == 0:
        return Bounds(0, 0, None, None, None)
    low, high = total / (n + n_infra), (total + n_infra) / (n + n_infra)
    return Bounds(n, n_infra, total / n if n else None, low, high)


def _over_tasks(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Estimate:
    known = spread(values, clusters)
    return Estimate(known.mean, known.se, known.n)


def _filled(group: Sequence[float]) -> Sequence[float]:
    if not group:
        raise ValueError("a task without trials")
    return group


def _right_of(group: Sequence[float], k: int) -> tuple[int, int]:
    """(trials, right ones)"""
    _check_k(len(group), k)
    if any(score not in (0, 1) for score in group):
        raise ValueError("pass@k and pass^k are for scores of 0 and 1")
    return len(group), int(sum(group))


def _check_k(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} of {n} trials")


def _best_of(group: Sequence[tuple[float, float]], k: int) -> float:
    n = len(group)
    _check_k(n, k)
    levels: dict[float, list[float]] = {}
    for rank, score in group:
        levels.setdefault(rank, []).append(score)
    total, below = 0.0, 0
    for rank in sorted(levels):
        scores = levels[rank]
        upto = below + len(scores)
        total += (math.comb(upto, k) - math.comb(below, k)) * fmean(scores)
        below = upto
    return total / math.comb(n, k)


def _majority_of(
    group: Sequence[tuple[str | None, float]], k: int, same: Callable[[str, str], bool]
) -> float:
    _check_k(len(group), k)
    classes: list[tuple[str, list[float]]] = []
    for answer, score in group:
        if answer is not None:
            known = next((scores for first, scores in classes if same(first, answer)), None)
            if known is None:
                classes.append((answer, [score]))
            else:
                known.append(score)
    sizes = [(len(scores), fmean(scores)) for _, scores in classes]
    silent = sum(answer is None for answer, _ in group)
    ways = math.fsum(_won_with(sizes, silent, k, most) for most in range(1, k + 1))
    return ways / math.comb(len(group), k)


def _won_with(sizes: Sequence[tuple[int, float]], silent: int, k: int, most: int) -> float:
    """Sum over subsets of `k` whose largest vote is `most` of the mean score of the answers tied.

    `sizes`: (trials, score) of each answer; `silent`: trials without one.
    """
    # (trials chosen, answers tied at the top) to (subsets, sum over them of the tied scores)
    ways: dict[tuple[int, int], tuple[int, float]] = {
        (chosen, 0): (math.comb(silent, chosen), 0.0) for chosen in range(min(k, silent) + 1)
    }
    for size, score in sizes:
        counts: dict[tuple[int, int], int] = {}
        sums: dict[tuple[int, int], float] = {}
        for (chosen, tied), (subsets, total) in ways.items():
            for votes in range(min(size, most, k - chosen) + 1):
                top = votes == most
                state = chosen + votes, tied + top
                picks = math.comb(size, votes)
                counts[state] = counts.get(state, 0) + picks * subsets
                sums[state] = sums.get(state, 0.0) + picks * (total + subsets * score * top)
        ways = {state: (counts[state], sums[state]) for state in counts}
    return math.fsum(
        total / tied for (chosen, tied), (_, total) in ways.items() if chosen == k and tied
    )
