"""Rewards of a whole attempt: its score, its cost, its latency, its length, its form.

Each is a pure function of what is in `attempts` and `scores`. Cheaper and faster never earn less.
"""

from collections.abc import Sequence

from tutti.errors import TuttiError


class RewardError(TuttiError, ValueError):
    """A reward was asked of values that it is not defined for."""


def outcome(score: float) -> float:
    """The score itself, 0 to 1. Raises RewardError outside."""
    if not 0.0 <= score <= 1.0:
        raise RewardError(f"score: {score!r} is not from 0 to 1")
    return score


def linear_cost(cost_usd: float, most_usd: float) -> float:
    """1 for nothing, 0 from `most_usd` on, linear between. Raises RewardError below 0."""
    return 1.0 - _share("cost_usd", cost_usd, most_usd)


def linear_latency(seconds: float, most_s: float) -> float:
    """1 at once, 0 from `most_s` on, linear between. Raises RewardError below 0."""
    return 1.0 - _share("seconds", seconds, most_s)


def overlong(tokens: int, most: int, buffer: int) -> float:
    """DAPO's soft punishment of long answers: 0 up to most - buffer, -1 above most, linear between.

    Source: arXiv 2503.14476, eq. 13. Raises RewardError for a buffer that is not in (0, most].
    """
    if not 0 < buffer <= most:
        raise RewardError(f"buffer: {buffer} tokens of {most}; it must be from 1 to {most}")
    if tokens <= most - buffer:
        return 0.0
    return max(-1.0, (most - buffer - tokens) / buffer)


def form(valid: Sequence[bool]) -> float:
    """Share of an attempt's turns whose form was valid (its tool calls could be read); 1 without
    turns."""
    return sum(valid) / len(valid) if valid else 1.0


def _share(name: str, value: float, most: float) -> float:
    if value < 0 or not most > 0:
        raise RewardError(f"{name}: {value!r} of at most {most!r}; both are amounts")
    return min(1.0, value / most)
