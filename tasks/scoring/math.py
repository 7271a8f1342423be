r"""Mathematics: formulas that are equal, by math-verify and sympy in a process that can be killed.

Target: ``{"answer": LaTeX or list of alternatives}``. The attempt's formula is its answer, or the
last ``\boxed{}`` of its last message; without either it is wrong. Of a sentence that states it
("The final answer is 16.") it is what is stated; a full stop after it ("5.") is left out. "016" is
16, "1/2" equals 0.5, ``50\%`` equals both 0.5 and 50 (the library's rule: gold sets do not agree on
it).

A gold answer in words (``\text{east}``, "no solution") is compared as words, without case: read as
a formula, a word would be the product of its letters, and so equal to every anagram. That depends
on the gold answer alone. There is no other way out: a gold answer that cannot be read or evaluated,
an error inside the library, or a time-out is a ScorerFailed, never a wrong answer and never a
comparison of texts. An attempt's formula that cannot be read is wrong, and so is one that cannot be
evaluated (`9^{9^{9^9}}`; see `math_limits`): where a comparison comes to no end, each side is
evaluated alone, and it is the attempt's fault only if the gold answer can be and its own cannot.
The same formula as the gold answer's is right, however large.

What the library makes of an answer besides: several values ("16 or 17") are a set, which equals no
single one; of an equation it takes the right side where the gold answer is none ("x = 16", but also
"17 = 16"); two numbers side by side are added, as in a mixed number; decimals agree at six places.
It does not tell apart subscripts of number bases, nor (1, 2) as a point, an interval and a list.
"""

import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from tutti.tasks.agents import last_boxed
from tutti.tasks.scoring.children.workers import WorkerDied, WorkerLate, WorkerPool
from tutti.tasks.scoring.score import Attempted, Means, Needs, Score, ScorerFailed
from tutti.tasks.scoring.target import texts

TIMEOUT_S = 10.0
MAX_WORKERS = 4  # each holds about 100 MB; a formula takes milliseconds
LONGEST_CHARS = 2000  # no answer of a benchmark is a tenth of it
_ALONE: dict[str, Any] = {"evaluated": True}
_STATED = re.compile(
    r"(?:(?:so|thus|hence|therefore)\b,?\s*)?(?:(?:the|my|our)\s+)?(?:(?:final|correct|exact)\s+)*"
    r"(?:answer|result|solution|value|it)(?:\s+(?:to|for|of)\s+[^.:=\d]{1,60}?)?"
    r"\s*(?:\bis\b|\bequals\b|[:=])\s*:?\s*(?P<formula>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_BOLD = re.compile(r"\s*(\*{1,3}|`+)([^*`]+)\1\s*", re.DOTALL)
_FULL_STOP = re.compile(r"(?<=[^.\s])\s*\.(?=\s*(?:\$+|\\\)|\\\])?\s*$)")
_TEXT_WRAPPER = re.compile(r"\\(?:text|textbf|textit|mathrm|mbox)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"(?=.*[^\W\d_]{3})[^\W\d_]+(?:(?:\s+|[-'])[^\W\d_]+)*\.?")
_FUNCTIONS = frozenset(
    "sin cos tan cot sec csc log exp sqrt arcsin arccos arctan sinh cosh".split()
)


def pool() -> WorkerPool:
    """The workers of this process; a fork of it has its own."""
    return _pool_of(os.getpid())


@cache
def _pool_of(_process: int) -> WorkerPool:
    size = min(MAX_WORKERS, os.cpu_count() or 1)
    return WorkerPool([sys.executable, "-P", "-m", "tutti.tasks.scoring.children.math_child"], size)


def words_of(latex: str) -> str | None:
    """A gold answer in words, folded; None where it is a formula."""
    plain = _TEXT_WRAPPER.sub(r"\1", latex).strip().strip("$").strip()
    wrapped = _TEXT_WRAPPER.fullmatch(latex.strip()) is not None and not re.search(r"\d", plain)
    if wrapped or (_WORDS.fullmatch(plain) and _FUNCTIONS.isdisjoint(plain.split())):
        return " ".join(plain.strip(".()").split()).casefold()
    return None


def stated(text: str) -> str:
    """The formula that a short text states: "**The answer is 16.**" states 16."""
    bold = _BOLD.fullmatch(text)
    plain = bold[2] if bold else text
    match = _STATED.fullmatch(plain.strip())
    if match:
        bold = _BOLD.fullmatch(_FULL_STOP.sub("", match["formula"]))
        plain = bold[2] if bold else match["formula"]
    return _FULL_STOP.sub("", plain)


class Math:
    """The answer is a formula equal to the expected one."""

    name: str = "math"
    version: str = "2"
    needs: Needs = "pure"

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        """`timeout_s`: seconds for one comparison, after which its process is killed."""
        self.timeout_s = timeout_s

    async def score(self, target: Mapping[str, Any], attempted: Attempted, means: Means) -> Score:
        """Right if equal to one of the alternatives; the detail has how each side was read.

        Raises ScorerFailed: a gold answer that cannot be read or evaluated, an error, a time-out
        that is not the attempt's doing.
        """
        expected = texts(target, "answer")
        given = attempted.answer if attempted.answer is not None else last_boxed(attempted.text)
        if given is None or not given.strip() or len(given) > LONGEST_CHARS:
            detail = {"given": "too long" if given else None}
            return Score(self.name, self.version, 0.0, False, detail=detail)
        readings = []
        for gold in expected:
            readings.append(await self._compare(gold, given))
            if readings[-1]["equal"]:
                break
        correct = bool(readings[-1]["equal"])
        return Score(self.name, self.version, float(correct), correct, given, readings[-1])

    async def _compare(self, gold: str, given: str) -> dict[str, Any]:
        formula = stated(given)
        words = words_of(gold)
        if words is not None:
            said = " ".join(_TEXT_WRAPPER.sub(r"\1", formula).strip(" $.()").split()).casefold()
            return {"equal": said == words, "gold": words, "given": said}
        gold = _FULL_STOP.sub("", gold)
        answer = await self._ask({"gold": gold, "given": formula})
        if "unfinished" in answer:
            return await self._blame(gold, formula, answer)
        if answer["gold"] is None:
            raise ScorerFailed(f"math: the gold answer {gold!r} cannot be read")
        return answer

    async def _blame(self, gold: str, given: str, answer: dict[str, Any]) -> dict[str, Any]:
        """The given answer is wrong where it alone cannot be evaluated; else ScorerFailed."""
        why = answer["unfinished"]
        if await self._ask({"alone": gold}) != _ALONE:
            raise ScorerFailed(f"math: {why}: the gold answer {gold!r} is too large to evaluate")
        if not answer["certain"] and await self._ask({"alone": given}) == _ALONE:
            raise ScorerFailed(f"math: {why}, comparing {given[:80]!r} to {gold!r}")
        return {"equal": False, "gold": gold, "given": None, "too_large": f"given: {why}"}

    async def _ask(self, request: dict[str, str]) -> dict[str, Any]:
        """The worker's answer; ``unfinished`` says why there is none, ``certain`` whether it was
        for a number's size, which asking again would not change."""
        try:
            answer = await pool().ask(request, self.timeout_s)
        except (WorkerLate, WorkerDied) as error:
            return {"unfinished": str(error), "certain": False}
        if "too_large" in answer:
            return {"unfinished": answer["too_large"], "certain": True}
        if "error" in answer:
            raise ScorerFailed(f"math: {answer['error'][:200]}")
        return answer
