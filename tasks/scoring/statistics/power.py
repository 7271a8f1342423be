"""Power analysis: the differences that a planned comparison can detect."""

import math

from tutti.tasks.scoring.statistics.intervals import CONFIDENCE
from tutti.tasks.scoring.statistics.quantiles import noncentral_shift, t_quantile

POWER = 0.8
ALIKE = 0.5
"""Assumed correlation of two trials of one task: halfway between tasks that are all equally hard
and tasks that are always or never solved."""


def minimum_detectable(
    n: int, sd: float, confidence: float = CONFIDENCE, power: float = POWER
) -> float:
    """The smallest true difference that a paired t-test of `n` tasks detects with probability
    `power`.

    `sd`: of the differences by task, in the score's unit; the result has that unit too. Solved with
    the noncentral t, neglecting the far tail. Source: Cohen, "Statistical power analysis", 1988;
    Bloom, "Minimum detectable effects", Evaluation Review 19 (1995) 547. ValueError for n < 2, sd <
    0, shares outside 0 to 1.
    """
    if n < 2 or not 0 <= sd < math.inf:
        raise ValueError(f"two tasks and a finite spread are needed, not {n} and {sd}")
    if not (0 < confidence < 1 and 0 < power < 1):
        raise ValueError(f"confidence and power are between 0 and 1, not {confidence} and {power}")
    critical = t_quantile(0.5 + confidence / 2, n - 1)
    return noncentral_shift(power, critical, n - 1) * sd / math.sqrt(n)


def expected_sd(accuracy: float, trials: int = 1, alike: float = ALIKE) -> float:
    """Expected standard deviation of differences by task between two sides of about this accuracy.

    √(2 p (1 - p) (1 - alike) / trials): both sides find the same tasks hard, and the share `alike`
    of the variance of right and wrong lies between tasks. A side that is better at other tasks has
    a larger deviation, so this is a lower bound; if there are past cells, use their deviation.
    Source: the variance of a difference of two means of `trials` draws each within a task; Miller,
    "Adding error bars to evals", 2024, section 4. ValueError for shares outside 0 to 1, no trials.
    """
    if not (0 <= accuracy <= 1 and 0 <= alike <= 1) or trials < 1:
        raise ValueError(f"not shares and trials: {accuracy}, {alike}, {trials}")
    return math.sqrt(2 * accuracy * (1 - accuracy) * (1 - alike) / trials)
