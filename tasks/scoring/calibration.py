"""Calibration errors of stated confidences, and SimpleQA's F1; each docstring names its source.

In: confidences from 0 to 1 with whether the answer is right; or counts by task. Out: numbers.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tutti.tasks.scoring.statistics import Ratio, ratio_of_sums

BIN = 100  # answers in a bin, as in HLE's own program


class Calibration(NamedTuple):
    """Two root-mean-square calibration errors of the same answers."""

    official: float | None
    """As HLE's own program counts: without its last bin, which has the most confident answers. None
    below BIN answers, where it fails; 0 below twice as many, where no bin is left."""
    whole: float
    """With every bin."""
    n: int


def calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> Calibration:
    """√(Σ n_b/N (mean confidence - share right)²) over bins of BIN answers in order of confidence.

    What remains after the last full bin is joined to it. Confidences are 0 to 1. Source: Hendrycks
    et al., "Deep anomaly detection with outlier exposure", 2019, as used by Phan et al.,
    "Humanity's Last Exam", 2025. ValueError for none, for sides of different length, and for a
    confidence that is not from 0 to 1.
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
    terms = [_term(ranked[a:b], n) for a, b in zip(starts, ends, strict=True)]
    official = math.sqrt(math.fsum(terms[:-1])) if n >= BIN else None
    return Calibration(official, math.sqrt(math.fsum(terms)), n)


def _term(some: Sequence[tuple[float, bool]], n: int) -> float:
    """A bin's share of all answers times its squared gap."""
    gap = math.fsum(confidence - is_right for confidence, is_right in some) / len(some)
    return len(some) / n * gap**2


def f1_of_attempted(tasks: Sequence[tuple[int, int, int]]) -> Ratio:
    """SimpleQA's F1 by task counts (right, attempted, all): 2 Σ right / (Σ attempted + Σ all).

    That is the harmonic mean of the share right of those attempted and of all. Its interval is
    Fieller's over tasks. Source: Wei et al., "Measuring short-form factuality in large language
    models", 2024. ValueError for no tasks.
    """
    top = [2.0 * right for right, _, _ in tasks]
    return ratio_of_sums(top, [float(attempted + n) for _, attempted, n in tasks])


def right_of_attempted(tasks: Sequence[tuple[int, int, int]]) -> Ratio:
    """Σ right / Σ attempted by task counts (right, attempted, all), with Fieller's interval."""
    return ratio_of_sums([float(right) for right, _, _ in tasks], [float(t[1]) for t in tasks])
