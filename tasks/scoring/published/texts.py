"""Overlap of a response with a given text: MRCR's similarity, API-Bank's ROUGE-L, RULER's match."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from tutti.tasks.scoring.rules.score import (
    Score,
    Scorer,
    ScorerFailed,
    Submission,
    Target,
    needed,
    texts,
)

LONGER = 4  # times the answer's length that is compared


class Repetition(Scorer):
    """The similarity of a response with a given text, as MRCR scores it (card of openai/mrcr).

    Target: ``{"answer": text, "prefix": text}``. Value: 0 for a response that does not begin with
    the prefix; else the similarity of the rest with the rest of the answer
    (`difflib.SequenceMatcher`). Correct: 1. A response much longer than the answer is compared in
    its first part only, since the method takes time in the product of the lengths; its length still
    counts.
    """

    name = "repetition"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        answer, prefix = needed(target, "answer", str), needed(target, "prefix", str)
        if not submission.text.startswith(prefix):
            return self.result(False, detail={"prefix": False})
        wanted, given = answer.removeprefix(prefix), submission.text.removeprefix(prefix)
        compared = given[: LONGER * max(1, len(wanted))]
        matcher = SequenceMatcher(None, compared, wanted)
        value = matcher.ratio()
        if len(compared) < len(given):
            matches = sum(block.size for block in matcher.get_matching_blocks())
            value = 2 * matches / (len(given) + len(wanted))
        return self.result(value == 1.0, value, detail={"prefix": True})


_EPSILON = 1e-8
MAX_WORDS = 4_000  # of one sentence: the table of an alignment grows with the square


def rouge_l(answer: str, reference: str) -> float:
    """F of ROUGE-L, as in the Python package ``rouge`` 1.0.1, which differs from ``rouge-score``.

    Sentences end at each full stop; words are what single spaces separate. Each reference sentence
    is aligned with each sentence of the answer (longest common subsequence), and the *set* of words
    in all alignments is counted against the sets of words of both. F = 2PR / (P + R + 1e-8).
    """
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
    """Return the words of each sentence; as in the package, a blank sentence is one empty word."""
    parts = (" ".join(part.split()) for part in text.split(".") if part)
    return [part.split(" ")[:MAX_WORDS] for part in parts]


def _aligned(one: Sequence[str], other: Sequence[str]) -> set[str]:
    """The words of a longest common subsequence; of several, the one that the package returns."""
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


class RougeL(Scorer):
    """ROUGE-L of the reply, as API-Bank measures it: F to 4 digits. Target: ``{"response":
    text}``."""

    name = "rouge_l"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        value = round(rouge_l(submission.final_text, needed(target, "response", str)), 4)
        return self.result(value == 1.0, value)


class Ruler(Scorer):
    """RULER's string match. Target: ``{"references": [text, ...], "match": "all" | "any"}``.

    Value for ``all``: the share of the references that the response contains, case ignored; for
    ``any``: 1 if it contains one of them. Correct: 1. Source: Hsieh et al. 2024, arXiv 2404.06654,
    and the publisher's program.
    """

    name = "ruler"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        references, match = texts(target, "references"), target.get("match")
        if match not in ("all", "any"):
            raise ScorerFailed(f"the target's match is {match!r}; it must be 'all' or 'any'")
        response = submission.final_text.lower()
        missing = [one for one in references if one.lower() not in response]
        found = len(references) - len(missing)
        value = found / len(references) if match == "all" else float(found > 0)
        return self.result(value == 1.0, value, detail={"missing": missing})
