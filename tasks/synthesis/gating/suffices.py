"""Gate: an agent that has only the user and the tools can learn every argument of the golden calls.

Each value within each argument must be given before its call: in the user's instructions, in the
result of an earlier golden call, in the policy or in an offered tool's description. Numbers match
by value (7 = seven, 0.05 = 5%), dates in any of the forms of `wording`, texts as whole words in any
case. The words of a text may come from several places. For a text that the agent writes itself (six
words or more) half of the words must be given, and every number that is not an integer up to
twenty, because an expression is calculated from known numbers. True, false and null need no source.
"""

import re

from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.gating.wording import NUMBER, leaves, spaced, words_of

NUMERALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()
OWN_WORDS = 6
"""Fewest words of a text that counts as the agent's own, as the summary of a case does."""


def source_fault(task: DomainTask, context: GateContext) -> str:
    """Return the first argument without a source, or an empty string. Raises LookupError for a task
    that was not replayed."""
    results = context.replay(task).results
    sources = _Sources(task.world.scenario.text, context.shown(task))
    calls = zip(task.world.actions, results, strict=True)
    for number, (action, result) in enumerate(calls, 1):
        for name, leaf in ((n, leaf) for n, v in action.arguments.items() for leaf in leaves(v)):
            if not (isinstance(leaf, bool | None) or sources.have(leaf)):
                call = f"call {number}, {action.name}"
                return f"{name} {leaf!r} of {call}, is nowhere: neither user nor results give it"
        sources.raw.append(result.text)
    return ""


class _Sources:
    """The texts given so far, as written and `spaced`; the latter is computed on demand."""

    def __init__(self, *texts: str) -> None:
        self.raw = list(texts)
        self._spaced: list[str] = []

    def have(self, value: str | float) -> bool:
        """Whether a value is given."""
        if isinstance(value, str):
            return self._have_text(value)
        return self._have_number(abs(value))

    def _have_text(self, text: str) -> bool:
        # Most values are copied unchanged, which is ten times as fast to check.
        if any(_bounded(text, raw) for raw in self.raw):
            return True
        words = words_of(text)
        if not words or self._phrase(f" {' '.join(words)} "):
            return True
        lacking = [word for word in words if not self._have_word(word)]
        if len(words) >= OWN_WORDS:
            return 2 * len(lacking) <= len(words) and not any(map(_is_fact, lacking))
        return len(words) > 1 and not lacking

    def _have_word(self, word: str) -> bool:
        return self._phrase(f" {word} ") or (
            word.replace(".", "", 1).isdigit() and self._have_number(float(word))
        )

    def _have_number(self, value: float) -> bool:
        digits = spaced(_written(value)).strip()
        pattern = re.compile(rf"(?<![\w.]){re.escape(digits)}(?!\w|\.\d)")
        if any(pattern.search(text) for text in self._texts()):
            return True
        if value in range(len(NUMERALS)):
            return self._phrase(f" {NUMERALS[int(value)]} ")
        per_cent = f"{_written(round(value * 100, 8)).removesuffix('.0')}%"
        return 0 < value < 1 and any(_bounded(per_cent, raw) for raw in self.raw)

    def _phrase(self, phrase: str) -> bool:
        return any(phrase in text for text in self._texts())

    def _texts(self) -> list[str]:
        self._spaced += [spaced(raw) for raw in self.raw[len(self._spaced) :]]
        return self._spaced


def _is_fact(word: str) -> bool:
    """Whether a word is a number that must be given: all but integers up to twenty."""
    return NUMBER.fullmatch(word) is not None and float(word) not in range(len(NUMERALS))


def _bounded(text: str, within: str) -> bool:
    start = within.find(text) if text else 0
    while start > -1:
        end = start + len(text)
        before, after = within[start - 1 : start], within[end : end + 1]
        if not (_goes_on(before, text[:1]) or _goes_on(text[-1:], after)):
            return True
        start = within.find(text, start + 1)
    return False


def _goes_on(left: str, right: str) -> bool:
    return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")


def _written(value: float) -> str:
    text = repr(value)
    return f"{value:.10f}" if "e" in text else text
