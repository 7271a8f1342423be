"""Gate: the answer does not stand in what the agent sees before it acts.

Answers are the facts to communicate and the ids that golden calls need and the user does not give.
They must not stand in the policy, in tools' or parameters' names and descriptions or in the names
of tables and fields; the facts not in what the user says either, where the agent would only repeat
them (unless the sentence offers a choice, with "or").

Which answers count, so that no good task is dropped for a chance meeting:

* numbers with a fraction, and whole ones from 100, those below 1,000 not if they are round (150);
* texts of at least 3 characters but not yes, no, true, false, none, nor words of the domain's own
  vocabulary: values of a field's `one_of`, and texts that at least 5 records and 5 % of a table
  share in a field;
* of golden arguments only keys of records that have a digit or a capital: others name kinds
  ("savings", "born_in"), which tools must name, too.

Any other answer leaks only where the text presents it as one: "the answer is 21".
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tutti.tasks.synthesis.domains import Domain, DomainTask, TableSpec, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP, varied
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.synthesis.gating.wording import NUMBER, leaves, spaced
from tutti.tasks.task_sets import Verdict, verdict

COMMON = frozenset("yes no true false none null unknown done success".split())
LEAST_CHARS = 3
LEAST_WHOLE, SURELY_RARE, ROUND = 100, 1_000, 50
SHARED_BY, SHARE = 5, 0.05
PRESENTED = r" (?:answer|answers|result|solution)(?: is| was| will be| with| that)? "
NAMED = re.compile(r"[0-9A-Z]")
SENTENCE = re.compile(r"(?<=[.!?\n])\s")


@dataclass
class _Seen:
    """What agents see in a domain before they act, and what its answers are measured by."""

    domain: Domain
    policy: str
    """`spaced`."""
    names: str
    """Names of tables and fields, `spaced`."""
    vocabulary: frozenset[str]
    keys: frozenset[str]
    texts: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)
    """By the tools offered: where, and the text, `spaced`."""
    described: dict[str, str] = field(default_factory=dict)
    """What is read of each tool, `spaced`; tasks are offered the same ones in other choices."""

    def shown(self, task: DomainTask) -> dict[str, str]:
        """Where the agent reads what in a task."""
        if task.world.tools not in self.texts:
            self.texts[task.world.tools] = dict(self._shown(task))
        return self.texts[task.world.tools]

    def _shown(self, task: DomainTask) -> Iterator[tuple[str, str]]:
        yield "the policy", self.policy
        yield "the names of tables and fields", self.names
        for tool in self.domain.offered(task):
            if tool.name not in self.described:
                lines = [tool.name, tool.name.replace("_", " "), tool.about]
                lines += [f"{p.name} : {p.about}" for p in tool.parameters]
                self.described[tool.name] = spaced(" ; ".join(lines))
            yield f"the description of {tool.name}", self.described[tool.name]


def _seen(domain: Domain) -> _Seen:
    names = [table.name for table in domain.tables]
    names += [each.name for table in domain.tables for each in table.fields]
    both = [form for name in names for form in (name, name.replace("_", " "))]
    words = frozenset(word for table in domain.tables for word in _vocabulary(domain, table))
    keys = frozenset(key for keyed in domain.records.values() for key in keyed)
    return _Seen(domain, spaced(domain.policy), spaced(" ; ".join(both)), words, keys)


def _vocabulary(domain: Domain, table: TableSpec) -> Iterator[str]:
    """What records of a table share, `spaced`."""
    records = domain.records.get(table.name, {}).values()
    least = max(SHARED_BY, SHARE * len(records))
    for each in table.fields:
        yield from map(spaced, each.one_of)
        if each.kind == "text" and not each.refers_to:
            held = Counter(str(record.get(each.name)) for record in records)
            yield from (spaced(text) for text, times in held.items() if times >= least)


class Leak:
    """Searches what the agent reads for a task's answers."""

    name = "leak"
    about = "The answer stands neither in the policy, the tools' descriptions nor the user's words."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """The first answer found rejects a task."""
        seen = context.fact(_seen)
        return [verdict(next(_leaks(task, seen), "")) for task in tasks]

    def examples(self) -> Examples:
        """The title in a tool's description, a loan's id in the policy, the title in the user's
        mouth, a number presented as the answer."""
        _, look, extend = EXAMPLE.tools
        told = look.model_copy(update={"about": "Look up a loan, such as Harbours."})
        shown = extend.model_copy(update={"about": f"{extend.about} The answer is 21."})
        rule = EXAMPLE.rules[0].model_copy(update={"text": "No loan but L2 lasts over 30 days."})
        reason = "You forgot that you have Harbours."
        repeated = LOOKED_UP.world.scenario.model_copy(update={"reason": reason})
        choice = repeated.model_copy(update={"reason": "Is your book Harbours or Tides?"})
        return Examples(
            good=(
                (EXAMPLE, EXTENDED),
                (EXAMPLE, LOOKED_UP),
                (EXAMPLE, changed_task(LOOKED_UP, scenario=choice)),
                (EXAMPLE, changed_task(LOOKED_UP, communicate=("30",))),
            ),
            bad=(
                (varied(EXAMPLE, tools=(*EXAMPLE.tools[:1], told, extend)), LOOKED_UP),
                (varied(EXAMPLE, tools=(*EXAMPLE.tools[:2], shown)), EXTENDED),
                (varied(EXAMPLE, rules=(rule,)), LOOKED_UP),
                (EXAMPLE, changed_task(LOOKED_UP, scenario=repeated)),
            ),
        )


def _leaks(task: DomainTask, seen: _Seen) -> Iterator[str]:
    shown = seen.shown(task)
    said = spaced(task.world.scenario.text)
    for fact in task.world.communicate:
        phrase = spaced(fact)
        if not phrase.strip():
            continue
        counts = _counts(phrase, seen)
        where = next((w for w, text in shown.items() if _stands(phrase, text, counts)), None)
        if where is not None:
            yield f"the answer {fact!r} stands in {where}"
        if _stands(phrase, said, counts) and _repeated(phrase, task.world.scenario.text, counts):
            yield f"the answer {fact!r} stands in what the user is told"
    for value in _ids(task, seen.keys):
        phrase = spaced(value)
        if phrase in said:
            continue
        where = next((w for w, text in shown.items() if phrase in text), None)
        if where is not None:
            yield f"{value!r}, which a golden call needs, stands in {where}"


def _stands(phrase: str, text: str, counts: bool) -> bool:
    if phrase not in text:
        return False
    return counts or re.search(PRESENTED + re.escape(phrase.lstrip()), text) is not None


def _repeated(phrase: str, text: str, counts: bool) -> bool:
    """Whether a sentence has the answer without offering a choice."""
    sentences = (spaced(each) for each in SENTENCE.split(text))
    return any(" or " not in each for each in sentences if _stands(phrase, each, counts))


def _counts(phrase: str, seen: _Seen) -> bool:
    """Whether an answer is so rare that where it stands it is told."""
    bare = phrase.strip()
    if NUMBER.fullmatch(bare):
        if "." in bare:
            return True
        whole = int(bare)
        return whole >= SURELY_RARE or (whole >= LEAST_WHOLE and whole % ROUND != 0)
    return len(bare) >= LEAST_CHARS and bare not in COMMON and phrase not in seen.vocabulary


def _ids(task: DomainTask, keys: frozenset[str]) -> Iterator[str]:
    """Keys of records in golden calls."""
    for action in task.world.actions:
        for leaf in leaves(action.arguments):
            if isinstance(leaf, str) and leaf in keys and NAMED.search(leaf):
                yield leaf
