"""Mathematics: equality of formulas, by math-verify and sympy in a process that can be killed.

Target: ``{"answer": LaTeX or list of alternatives}``. The attempt's formula is the last box of its
answer, else that answer. From a sentence that states the formula only the stated part is read. If
both sides have a unit of measurement, it must be the same. A gold answer in words is compared as
words: as a formula, a word would be the product of its letters. ``50%`` equals both 0.5 and 50 (the
library's rule: gold sets do not agree on it).

A gold answer that cannot be parsed or evaluated raises ScorerFailed; such an attempt's formula is
wrong. If a comparison does not terminate, the gold answer is evaluated alone; if that works, a late
comparison is tried once more.

The library's other rules: several values ("16 or 17") are a set, which equals no single value; of
an equation it uses the right side if the gold answer is not an equation; two adjacent numbers are
added, as in a mixed number; decimals are compared at six places. It does not distinguish subscripts
of number bases, nor (1, 2) as a point, an interval and a list.
"""

import re
from typing import Any

from tutti.tasks.agents import last_boxed
from tutti.tasks.scoring.children.workers import WorkerDied, WorkerLate, child_pool
from tutti.tasks.scoring.rules.score import (
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
    Target,
    texts,
)
from tutti.tasks.scoring.rules.short_answer import units_differ

TIMEOUT_S = 10.0
MAX_WORKERS = 4  # each takes about 100 MB; comparing a formula takes milliseconds
LONGEST_CHARS = 2000  # ten times the longest answer of any benchmark
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
_BLANK = r"(?:\\[,;! ]|\{,\}|[ ~\u00a0\u2009\u202f])"
_APART = re.compile(rf"(?<=[0-9]){_BLANK}(?=[0-9])")
_THOUSANDS = re.compile(rf"\s*\$?\s*-?[0-9]{{1,3}}(?:{_BLANK}[0-9]{{3}})+(?:\.[0-9]+)?\s*\$?\s*")
_SCIENTIFIC = re.compile(r"\s*\$?\s*(-?[0-9]+(?:\.[0-9]+)?)[eE]([-+]?[0-9]{1,3})\s*\$?\s*")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}\b")


def words_of(latex: str) -> str | None:
    """Return a gold answer in words, case-folded; None if it is a formula."""
    plain = _TEXT_WRAPPER.sub(r"\1", latex).strip().strip("$").strip()
    wrapped = _TEXT_WRAPPER.fullmatch(latex.strip()) is not None and not re.search(r"\d", plain)
    if wrapped or (_WORDS.fullmatch(plain) and _FUNCTIONS.isdisjoint(plain.split())):
        return " ".join(plain.strip(".()").split()).casefold()
    return None


def stated(text: str) -> str:
    """Return the formula stated by a short text: "**The answer is 16.**" states 16."""
    bold = _BOLD.fullmatch(text)
    plain = bold[2] if bold else text
    match = _STATED.fullmatch(plain.strip())
    if match:
        bold = _BOLD.fullmatch(_FULL_STOP.sub("", match["formula"]))
        plain = bold[2] if bold else match["formula"]
    return _FULL_STOP.sub("", plain)


def plain_number(formula: str) -> str:
    """Return a formula that is one number in the library's form; any other unchanged."""
    match = _SCIENTIFIC.fullmatch(formula)
    if match:
        return rf"{match[1]} \times 10^{{{match[2].removeprefix('+')}}}"
    return _APART.sub("", formula) if _THOUSANDS.fullmatch(formula) else formula


def is_prose(text: str) -> bool:
    return len([word for word in _WORD.findall(text) if word not in _FUNCTIONS]) > 1


class Math(Scorer):
    """Checks that the answer is a formula equal to the expected one."""

    name = "math"
    version = "4"

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        """`timeout_s`: time limit of one comparison, after which its process is killed."""
        self.timeout_s = timeout_s

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        expected, answer = texts(target, "answer"), submission.answer
        boxed = last_boxed(submission.text if answer is None else answer)
        given = answer if boxed is None else boxed
        if given is None or not given.strip() or len(given) > LONGEST_CHARS:
            detail: dict[str, Any] = {"given": "too long" if given else None}
            return self.result(False, detail=detail, found_answer=False)
        for gold in expected:
            detail = await self._compare(gold, given)
            if detail["equal"]:
                break
        correct, formula = bool(detail["equal"]), stated(given)
        found = correct or given != answer or not is_prose(formula)
        return self.result(correct, answer=formula, detail=detail, found_answer=found)

    async def _compare(self, gold: str, given: str) -> dict[str, Any]:
        formula = stated(given)
        words = words_of(gold)
        if words is not None:
            other = " ".join(_TEXT_WRAPPER.sub(r"\1", formula).strip(" $.()").split()).casefold()
            return {"equal": other == words, "gold": words, "given": other}
        if units_differ(formula, gold):
            return {"equal": False, "gold": gold, "given": formula}
        gold, formula = _FULL_STOP.sub("", gold), plain_number(formula)
        answer = await self._ask({"gold": gold, "given": formula})
        if "unfinished" in answer:
            alone = await self._ask({"alone": gold})
            if "unfinished" in alone:
                raise ScorerFailed(f"math: the gold answer {gold!r}: {alone['unfinished']}")
            if not answer["certain"]:
                answer = await self._ask({"gold": gold, "given": formula})
        if why := answer.get("unfinished"):
            return {"equal": False, "gold": gold, "given": None, "failed": f"given: {why}"}
        if answer["gold"] is None:
            raise ScorerFailed(f"math: the gold answer {gold!r} cannot be read")
        return answer

    async def _ask(self, request: dict[str, str]) -> dict[str, Any]:
        """The worker's answer, or why it is ``unfinished`` and whether a retry is useless."""
        try:
            answer = await child_pool("math_child", MAX_WORKERS).ask(request, self.timeout_s)
        except (WorkerLate, WorkerDied) as error:
            return {"unfinished": str(error), "certain": False}
        why = answer.get("too_large") or answer.get("error")
        return answer if why is None else {"unfinished": why[:200], "certain": True}
