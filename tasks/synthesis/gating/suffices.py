"""Gate: whoever has only the user and the tools can find every argument of the golden calls.

Each value within each argument must be given before its call: in what the user is told, in the
result of an earlier golden call, in the policy or in an offered tool's description. Numbers count
by value (7 = seven, 0.05 = 5%), dates in any of the forms of `wording`, texts as whole words in any
case. A text of several words may be put together from several places; of one that the agent writes
itself (six words or more) half of the words must be given, and every number that is not a whole one
up to twenty: an expression is calculated from what is known. True, false and null need no source.
"""

import re
from collections.abc import Iterator, Sequence

from tutti.tasks.synthesis.domains import Action, Domain, DomainTask, Replay, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.synthesis.gating.wording import NUMBER, leaves, spaced, words_of
from tutti.tasks.task_sets import Verdict, verdict

NUMERALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()
OWN_WORDS = 6
"""From so many words on a text is the agent's own, as the summary of a case is."""


class Suffices:
    """Looks for the source of every golden argument. It comes after `executes`, whose replays it
    reads."""

    name = "suffices"
    about = "The user or an earlier result gives every argument of the golden calls."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """The first argument without a source rejects a task. Raises LookupError for a task that
        was not replayed."""
        static = context.fact(_Static)
        return [verdict(next(_unfounded(task, context, static), "")) for task in tasks]

    def examples(self) -> Examples:
        """No name, no number of days, a loan that no call showed."""
        scenario = EXTENDED.world.scenario
        nameless = scenario.model_copy(update={"known": ""})
        vague = scenario.model_copy(update={"reason": "You need your book for longer."})
        worded = scenario.model_copy(update={"reason": "You need your book for seven more days."})
        bad = (
            {"scenario": nameless},
            {"scenario": vague},
            {"actions": EXTENDED.world.actions[1:]},
        )
        return Examples(
            good=(
                (EXAMPLE, EXTENDED),
                (EXAMPLE, LOOKED_UP),
                (EXAMPLE, changed_task(EXTENDED, scenario=worded)),
            ),
            bad=[(EXAMPLE, changed_task(EXTENDED, **each)) for each in bad],
        )


class _Static:
    """What every agent of a domain reads, by the tools offered."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._texts: dict[tuple[str, ...], str] = {}

    def text(self, task: DomainTask) -> str:
        """The policy and the tools offered in a task."""
        if task.world.tools not in self._texts:
            lines = [self._domain.policy]
            for tool in self._domain.offered(task):
                lines += [tool.name, tool.about]
                lines += [f"{each.name} : {each.about}" for each in tool.parameters]
            self._texts[task.world.tools] = "\n".join(lines)
        return self._texts[task.world.tools]


class _Sources:
    """What is given so far, as written and `spaced`; the latter only once it is needed."""

    def __init__(self, *texts: str) -> None:
        self._raw = list(texts)
        self._spaced: list[str] = []

    def add(self, text: str) -> None:
        """One more source."""
        self._raw.append(text)

    def have(self, value: str | float) -> bool:
        """Whether a value is given."""
        if isinstance(value, str):
            return self._have_text(value)
        return self._have_number(abs(value))

    def _have_text(self, text: str) -> bool:
        # Most values are copied as they stand, which is ten times as fast to find out.
        if any(_bounded(text, raw) for raw in self._raw):
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
        return 0 < value < 1 and any(_bounded(per_cent, raw) for raw in self._raw)

    def _phrase(self, phrase: str) -> bool:
        return any(phrase in text for text in self._texts())

    def _texts(self) -> list[str]:
        self._spaced += [spaced(raw) for raw in self._raw[len(self._spaced) :]]
        return self._spaced


def _unfounded(task: DomainTask, context: GateContext, static: _Static) -> Iterator[str]:
    """Arguments that nothing gives, in order."""
    replay = _replay(task, context)
    sources = _Sources(task.world.scenario.text, static.text(task))
    for number, (action, result) in enumerate(
        zip(task.world.actions, replay.results, strict=True), 1
    ):
        for name, value in _values(action):
            if not sources.have(value):
                call = f"call {number}, {action.name}"
                yield f"{name} {value!r} of {call}, is nowhere: neither user nor results give it"
        sources.add(result.text)


def _is_fact(word: str) -> bool:
    """Whether a word is a number that nobody comes upon without having been told."""
    return NUMBER.fullmatch(word) is not None and float(word) not in range(len(NUMERALS))


def _values(action: Action) -> Iterator[tuple[str, str | float]]:
    """The texts and numbers within a call's arguments, with the arguments' names."""
    for name, value in action.arguments.items():
        for leaf in leaves(value):
            if isinstance(leaf, str | int | float) and not isinstance(leaf, bool):
                yield name, leaf


def _replay(task: DomainTask, context: GateContext) -> Replay:
    replay = context.replays.get(task.task_id)
    if replay is None:
        raise LookupError(f"{task.task_id} was not replayed: ask the gate `executes` first")
    return replay


def _bounded(text: str, within: str) -> bool:
    """Whether a text stands in another and no word goes on before or after it."""
    start = within.find(text) if text else 0
    while start > -1:
        end = start + len(text)
        before, after = within[start - 1 : start], within[end : end + 1]
        if not (_goes_on(before, text[:1]) or _goes_on(text[-1:], after)):
            return True
        start = within.find(text, start + 1)
    return False


def _goes_on(left: str, right: str) -> bool:
    """Whether a word goes on from one character to the next."""
    return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")


def _written(value: float) -> str:
    text = repr(value)
    return f"{value:.10f}" if "e" in text else text
