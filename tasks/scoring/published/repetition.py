"""How far a response repeats a given text, as MRCR scores it. Target: ``{"answer": text,
"prefix": text}``.

Value: 0 for a response that does not begin with the prefix; else the similarity of what follows
with what follows in the answer, 2 M / T of Ratcliff and Obershelp (`difflib.SequenceMatcher`): M
matching characters of T in both. Correct: similarity 1. Source: the publisher's card of the data
set openai/mrcr.

A response much longer than the answer is compared in its first part only, since the method takes
time in the product of the lengths; its length still counts in T.
"""

from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScoringResources, Submission
from tutti.tasks.scoring.target import needed

LONGER = 4  # times the answer's length that is compared


class Repetition:
    """The share of a text that a response repeats."""

    name: str = "repetition"
    version: str = "1"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Compare the whole last message. Raises ScorerFailed for a target without text."""
        answer, prefix = needed(target, "answer", str), needed(target, "prefix", str)
        said = submission.text
        if not said.startswith(prefix):
            return Score(self.name, self.version, 0.0, False, detail={"prefix": False})
        wanted, given = answer.removeprefix(prefix), said.removeprefix(prefix)
        value = _similarity(wanted, given)
        return Score(self.name, self.version, value, value == 1.0, detail={"prefix": True})


def _similarity(wanted: str, given: str) -> float:
    compared = given[: LONGER * max(1, len(wanted))]
    matcher = SequenceMatcher(None, compared, wanted)
    if len(compared) == len(given):
        return matcher.ratio()
    matches = sum(block.size for block in matcher.get_matching_blocks())
    return 2 * matches / (len(given) + len(wanted))
