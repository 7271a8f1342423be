"""The reward of an attempt's length, and the error of rewards that are not defined."""

from tutti.errors import TuttiError


class RewardError(TuttiError, ValueError):
    """A reward was asked of values that it is not defined for."""


def overlong(tokens: int, most: int, buffer: int) -> float:
    """DAPO's soft punishment of long answers: 0 up to most - buffer, -1 above most, linear between.

    Source: arXiv 2503.14476, eq. 13. Raises RewardError for a buffer that is not in (0, most].
    """
    if not 0 < buffer <= most:
        raise RewardError(f"buffer: {buffer} tokens of {most}; it must be from 1 to {most}")
    if tokens <= most - buffer:
        return 0.0
    return max(-1.0, (most - buffer - tokens) / buffer)
