"""Shared by the other modules: the confidence level, and Wilson's interval of a proportion."""

import math

from tutti.tasks.scoring.statistics.quantiles import normal_quantile

Interval = tuple[float, float]

CONFIDENCE = 0.95


def wilson(successes: float, n: float, confidence: float = CONFIDENCE) -> Interval | None:
    """Wilson's score interval of a proportion; None if `n` is 0.

    Assumes `n` independent trials; for clustered ones `n` is their effective number and need not be
    an integer. Source: Wilson, "Probable inference, the law of succession, and statistical
    inference", JASA 22 (1927) 209.
    """
    if n == 0:
        return None
    z = normal_quantile(0.5 + confidence / 2)
    share, z2 = successes / n, z * z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(max(0.0, share * (1 - share)) / n + z2 / (4 * n * n))
    # At 0 and n successes the formula gives exactly 0 and 1, but its rounding does not.
    low = 0.0 if successes <= 0 else max(0.0, centre - half)
    return low, 1.0 if successes >= n else min(1.0, centre + half)
