"""Metrics over tasks with several trials: scores by task in, a mean over tasks with its 95 %
interval out.

Trials of a task must be exchangeable. All raise ValueError for no tasks, for a task with fewer than
k trials, and for scores that the metric is not defined for. The SQL macros of the same names
(`storage/sql`) give the same values.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

import numpy as np

from tutti.tasks.scoring.statistics.means import (
    MeanEstimate,
    Ratio,
    mean_interval,
    ratio_of_sums,
)

Groups = Sequence[Sequence[float]]
Vote = tuple[int, float]  # the number of trials that gave an answer, and the answer's score
PROFILES = 4096  # cached values of majority@k: most tasks of a benchmark share a few profiles


def pass_at_k(groups: Groups, k: int) -> MeanEstimate:
    """Probability that at least one of `k` trials is right: 1 - C(n-c, k) / C(n, k).

    Unbiased; for scores of 0 and 1 only. Source: Chen et al., "Evaluating large language models
    trained on code", 2021, equation 1.
    """
    counts = [_right_of(group, k) for group in groups]
    return _over_tasks([1 - math.comb(n - c, k) / math.comb(n, k) for n, c in counts])


def pass_hat_k(groups: Groups, k: int) -> MeanEstimate:
    """Probability that all of `k` trials are right (pass^k): C(c, k) / C(n, k).

    Unbiased; for scores of 0 and 1 only. Source: Yao et al., "τ-bench", 2024.
    """
    counts = [_right_of(group, k) for group in groups]
    return _over_tasks([math.comb(c, k) / math.comb(n, k) for n, c in counts])


def avg_at_n(groups: Groups) -> MeanEstimate:
    """Mean over tasks of the mean score of their trials (avg@n); scores in any unit."""
    return _over_tasks([fmean(group) for group in groups])


def best_of_k(groups: Groups, k: int) -> MeanEstimate:
    """Expected highest score of `k` trials, averaged over tasks; scores in any unit.

    Over all subsets of k of the n trials: Σ s_(i) C(i-1, k-1) / C(n, k) with s_(1) <= … <= s_(n).
    Unbiased. Source: the expectation of the largest of k drawn without replacement.
    """
    values = []
    for group in groups:
        _check_k(len(group), k)
        of_all = math.comb(len(group), k)
        shares = [math.comb(place, k - 1) / of_all for place in range(len(group))]
        values.append(math.fsum(s * share for s, share in zip(sorted(group), shares, strict=True)))
    return _over_tasks(values)


def majority_at_k(groups: Sequence[Sequence[tuple[str | None, float]]], k: int) -> MeanEstimate:
    """Expected score of the majority answer of `k` trials; groups of (answer, score).

    Over all subsets of k of the n trials, by counting. The score of an answer is the mean of the
    scores of its trials; a tie gives the mean of the tied answers' scores. None is a missing answer
    and never wins. Source: Wang et al., "Self-consistency", 2022; the subsets as in Chen et al.,
    2021.
    """
    values = []
    for group in groups:
        _check_k(len(group), k)
        scores: dict[str, list[float]] = {}
        for answer, score in group:
            if answer is not None:
                scores.setdefault(answer, []).append(score)
        votes = sorted((len(each), fmean(each)) for each in scores.values())
        values.append(_expected(tuple(votes), len(group), k))
    return _over_tasks(values)


def _over_tasks(values: Sequence[float]) -> MeanEstimate:
    return mean_interval(np.array(values, dtype=np.float64).reshape(-1, 1))


def _right_of(group: Sequence[float], k: int) -> tuple[int, int]:
    _check_k(len(group), k)
    if any(score not in (0, 1) for score in group):
        raise ValueError("pass@k and pass^k are for scores of 0 and 1")
    return len(group), int(sum(group))


def _check_k(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} of {n} trials")


@lru_cache(PROFILES)
def _expected(votes: tuple[Vote, ...], n: int, k: int) -> float:
    """Expected score of the majority of `k` of `n` trials, some of which may have no answer."""
    silent = n - sum(size for size, _ in votes)
    total = math.fsum(_won_with(votes, silent, k, most) for most in range(1, k + 1))
    return total / math.comb(n, k)


def _won_with(votes: Sequence[Vote], silent: int, k: int, most: int) -> float:
    """Sum of the tied answers' mean score over subsets of `k` whose largest vote is `most`."""
    # maps (trials chosen, answers tied at the top) to (subsets, summed scores of the tied answers)
    ways: dict[tuple[int, int], tuple[int, float]] = {
        (chosen, 0): (math.comb(silent, chosen), 0.0) for chosen in range(min(k, silent) + 1)
    }
    for size, score in votes:
        counts: dict[tuple[int, int], int] = {}
        sums: dict[tuple[int, int], float] = {}
        for (chosen, tied), (subsets, total) in ways.items():
            for taken in range(min(size, most, k - chosen) + 1):
                top = taken == most
                state = chosen + taken, tied + top
                picks = math.comb(size, taken)
                counts[state] = counts.get(state, 0) + picks * subsets
                sums[state] = sums.get(state, 0.0) + picks * (total + subsets * score * top)
        ways = {state: (counts[state], sums[state]) for state in counts}
    return math.fsum(
        total / tied for (chosen, tied), (_, total) in ways.items() if chosen == k and tied
    )


BIN = 100  # answers in a bin, as in HLE's own program


class Calibration(NamedTuple):
    """Two root-mean-square calibration errors of the same answers."""

    official: float | None
    """As HLE's own program counts: without its last bin, which has the most confident answers. None
    below BIN answers, where it fails; 0 below twice as many, where no bin is left."""
    whole: float  # with every bin
    n: int


def calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> Calibration:
    """√(Σ n_b/N (mean confidence - share right)²) over bins of BIN answers in order of confidence.

    The rest after the last full bin is joined to it. Confidences are 0 to 1. Source: Hendrycks et
    al., "Deep anomaly detection with outlier exposure", 2019, as used by Phan et al., "Humanity's
    Last Exam", 2025. ValueError for none, for sides of different length, and for a confidence
    outside 0 to 1.
    """
    if not confidences or len(confidences) != len(right):
        raise ValueError(f"{len(confidences)} confidences of {len(right)} answers")
    if not all(0 <= each <= 1 for each in confidences):
        raise ValueError("a confidence is not from 0 to 1")
    # Sorted by confidence alone, and stable: answers of one confidence stay in their order.
    ranked = sorted(zip(confidences, right, strict=True), key=lambda each: each[0])
    n = len(ranked)
    starts = list(range(0, n - n % BIN, BIN)) or [0]
    ends = [*starts[1:], n]
    terms = []
    for a, b in zip(starts, ends, strict=True):
        gap = math.fsum(confidence - is_right for confidence, is_right in ranked[a:b]) / (b - a)
        terms.append((b - a) / n * gap**2)
    official = math.sqrt(math.fsum(terms[:-1])) if n >= BIN else None
    return Calibration(official, math.sqrt(math.fsum(terms)), n)


def f1_of_attempted(tasks: Sequence[tuple[int, int, int]]) -> Ratio:
    """SimpleQA's F1 by task counts (right, attempted, all): 2 Σ right / (Σ attempted + Σ all).

    Its interval is Fieller's over tasks. Source: Wei et al., "Measuring short-form factuality in
    large language models", 2024. ValueError for no tasks.
    """
    top = [2.0 * right for right, _, _ in tasks]
    return ratio_of_sums(top, [float(attempted + n) for _, attempted, n in tasks])


def right_of_attempted(tasks: Sequence[tuple[int, int, int]]) -> Ratio:
    """Σ right / Σ attempted by task counts (right, attempted, all), with Fieller's interval."""
    return ratio_of_sums([float(right) for right, _, _ in tasks], [float(t[1]) for t in tasks])
