"""Short answers out of a text: a number, a name, a term. Target: ``{"answer": text or texts}``.

An attempt's answer is what follows its last ``Answer:``, on that line; without one, its last
``\\boxed{}``; else its whole last message.

Where the expected answer is one number and nothing else, the attempt's answer must hold one number,
equal to it (read as by `numeric`). Otherwise both are compared as text: in lower case, without
articles and punctuation at the ends, white space as single spaces (the rule of SQuAD, Rajpurkar et
al. 2016, except that punctuation within an answer counts: `--size` in a term, a path's slashes).
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from tutti.tasks.agents import last_boxed
from tutti.tasks.scoring.numeric import numbers
from tutti.tasks.scoring.score import Needs, Score, ScoringResources, Submission
from tutti.tasks.scoring.target import said, texts

STATED = re.compile(r"answer[*_`]{0,3}:[*_`]{0,3}[ \t]?([^\n]*)", re.I)
NUMBER = re.compile(r"[-+]?[$€£]?[\d.,]+(?:[eE][-+]?\d+)?")
ARTICLE = re.compile(r"(?:the|an?) ")
AROUND = " \t.,;:!?\"'`*_()[]\u2018\u2019\u201c\u201d"


def stated_answer(text: str) -> str:
    """What a text gives as its answer."""
    found = STATED.findall(text)
    if found:
        return str(found[-1])
    boxed = last_boxed(text)
    return text if boxed is None else boxed


def plain_answer(text: str) -> str:
    """A short text as it is compared."""
    flat = " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(AROUND)
    return ARTICLE.sub("", flat, count=1) if ARTICLE.match(flat) else flat


def is_number(text: str) -> bool:
    """Whether an expected answer is a number and nothing else."""
    return NUMBER.fullmatch(text.strip()) is not None and len(numbers(text)) == 1


class ShortAnswer:
    """Checks that the answer is the expected number or text."""

    name: str = "short_answer"
    version: str = "2"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if the answer is one of the target's. Raises ScorerFailed."""
        expected = texts(target, "answer")
        given = stated_answer(said(submission))
        correct = any(_agree(given, each) for each in expected)
        answer = given.strip()[:200]
        return Score(
            self.name, self.version, float(correct), correct, answer, found_answer=bool(answer)
        )


def _agree(given: str, expected: str) -> bool:
    if is_number(expected):
        return numbers(given) == numbers(expected)
    return plain_answer(given) == plain_answer(expected)
