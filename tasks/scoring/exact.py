"""Exact match after normalising white space and quotes: answers here are Python's own output."""

from dataclasses import dataclass

EXACT = "exact"
VERSION = "1"


@dataclass(frozen=True)
class Score:
    """What an answer is worth, by which scorer."""

    scorer: str
    version: str
    value: float
    correct: bool


def score_exact(answer: str | None, expected: str) -> Score:
    """1.0 when the answers agree after `normalise`, else 0.0; no answer is wrong."""
    correct = answer is not None and normalise(answer) == normalise(expected)
    return Score(EXACT, VERSION, float(correct), correct)


def normalise(text: str) -> str:
    """Collapse white space outside quotes' reach and use one kind of quote."""
    return " ".join(text.split()).replace('"', "'")
