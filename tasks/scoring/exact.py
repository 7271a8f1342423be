"""Exact match after normalising white space and quotes: answers here are Python's own output.

Target: ``{"answer": text or list of texts}``; any one of the list is right.
"""

from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScoringResources, Submission
from tutti.tasks.scoring.target import texts

EXACT = "exact"
VERSION = "1"


def score_exact(answer: str | None, expected: str) -> Score:
    """1.0 if the answers are equal after `normalise`, else 0.0; a missing answer is wrong."""
    correct = answer is not None and normalise(answer) == normalise(expected)
    return Score(EXACT, VERSION, float(correct), correct)


def normalise(text: str) -> str:
    """Collapse white space, except in quoted text, and use one kind of quote."""
    return " ".join(text.split()).replace('"', "'")


class Exact:
    """Checks that the answer equals the expected text."""

    name: str = EXACT
    version: str = VERSION
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if the answer is one of the target's. Raises ScorerFailed."""
        scores = [score_exact(submission.answer, expected) for expected in texts(target, "answer")]
        return max(scores, key=lambda score: score.value)
