"""ROUGE-L of the Python package ``rouge`` 1.0.1, which differs from that of ``rouge-score``.

Sentences end at each full stop; words are what single spaces separate, as written. Each reference
sentence is aligned with each sentence of the answer (longest common subsequence), and the *set* of
words so found in all alignments is counted against the sets of words of reference and answer.
F = 2PR / (P + R + 1e-8).

API-Bank rounds F to 4 digits and scores an empty answer 0.

Target: ``{"response": text}``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScoringResources, Submission
from tutti.tasks.scoring.target import needed, said

_EPSILON = 1e-8
MAX_WORDS = 4_000  # of one sentence: the table of an alignment grows with the square


def rouge_l(answer: str, reference: str) -> float:
    """F of ROUGE-L, 0 to 1; 0 if one of the texts has no sentence."""
    given, wanted = _sentences(answer), _sentences(reference)
    if not given or not wanted:
        return 0.0
    common: set[str] = set()
    for sentence in wanted:
        for other in given:
            common |= _aligned(sentence, other)
    precision = len(common) / len({word for each in given for word in each})
    recall = len(common) / len({word for each in wanted for word in each})
    return 2 * precision * recall / (precision + recall + _EPSILON)


def _sentences(text: str) -> list[list[str]]:
    """The words of each sentence; one of blanks alone counts as one empty word, as there."""
    parts = (" ".join(part.split()) for part in text.split(".") if part)
    return [part.split(" ")[:MAX_WORDS] for part in parts]


def _aligned(one: Sequence[str], other: Sequence[str]) -> set[str]:
    """The words of a longest common subsequence; of several the one that package walks to."""
    length = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, word in enumerate(one, 1):
        for j, its in enumerate(other, 1):
            best = max(length[i - 1][j], length[i][j - 1])
            length[i][j] = length[i - 1][j - 1] + 1 if word == its else best
    found, i, j = set(), len(one), len(other)
    while i and j:
        if one[i - 1] == other[j - 1]:
            found.add(one[i - 1])
            i, j = i - 1, j - 1
        elif length[i - 1][j] > length[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found


class RougeL:
    """Overlap of the reply with the reference's, as API-Bank measures its answers."""

    name: str = "rouge_l"
    version: str = "1"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """F, rounded to 4 digits; correct only if it is 1. Raises ScorerFailed."""
        reference = needed(target, "response", str)
        value = round(rouge_l(said(submission), reference), 4)
        return Score(self.name, self.version, value, value == 1.0)
