"""Short answers in words, compared as SQuAD does. Target: ``{"answer": text or list of aliases}``.

Both sides are folded: compatible characters made one (NFKC), lower case, no punctuation, no
articles, white space collapsed. Other than in SQuAD's own rule, a point or a sign within a number
stays ("3.5" is not "35", "-5" is not "5"), and a text that is nothing but articles or punctuation
keeps itself (the answer "A" is not empty). The value is exact match (0 or 1); the detail has the
best F1 over words, as SQuAD reports it.

Source: Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text", 2016.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.score import Attempted, Means, Needs, Score
from tutti.tasks.scoring.target import texts

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_IN_NUMBER = re.compile(r"(?<=\d)\.(?=\d)|(?<![\w.])-(?=\.?\d)|(?<!\w)\.(?=\d)")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def fold(text: str) -> str:
    """The text as it is compared; empty only where it was.

    What is taken away may be what made a point part of a number ("b:.0"), so it is done until
    nothing changes; each time something is taken away.
    """
    while (folded := _folded(text)) != text:
        text = folded
    return text


def _folded(text: str) -> str:
    lowered = unicodedata.normalize("NFKC", text).casefold().replace("\u2212", "-")
    lowered = _THOUSANDS.sub("", lowered)
    kept = {match.start() for match in _IN_NUMBER.finditer(lowered)}
    spaced = "".join(
        character
        for place, character in enumerate(lowered)
        if place in kept or not unicodedata.category(character).startswith("P")
    )
    folded = " ".join(_ARTICLES.sub(" ", spaced).split())
    return folded or " ".join(lowered.split())


def word_f1(answer: str, expected: str) -> float:
    """Harmonic mean of precision and recall over folded words, 0 to 1."""
    given, gold = Counter(fold(answer).split()), Counter(fold(expected).split())
    shared = (given & gold).total()
    return 2 * shared / (given.total() + gold.total()) if shared else 0.0


class ShortAnswer:
    """The answer is one of the aliases, but for case, articles and punctuation."""

    name: str = "short_answer"
    version: str = "2"
    needs: Needs = "pure"

    async def score(self, target: Mapping[str, Any], attempted: Attempted, means: Means) -> Score:
        """Right if the folded answer is a folded alias; no answer is wrong. Raises ScorerFailed."""
        aliases = texts(target, "answer")
        if attempted.answer is None:
            return Score(self.name, self.version, 0.0, False, detail={"f1": 0.0})
        given = fold(attempted.answer)
        correct = given != "" and given in {fold(alias) for alias in aliases}
        f1 = max(word_f1(attempted.answer, alias) for alias in aliases)
        return Score(self.name, self.version, float(correct), correct, given, {"f1": f1})
