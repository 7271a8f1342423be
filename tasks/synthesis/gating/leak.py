"""Gate: the answer is not in what the agent sees before it acts.

Answers are the facts to communicate, and the ids that golden calls need and the user does not give.
They must not be in the policy, in names and descriptions of tools and parameters, or in names of
tables and fields. Nor may the facts be in the user's instructions, where the agent would only
repeat them, unless the sentence offers a choice, with "or".

To keep good tasks with coincidental matches, only these answers count:

* numbers with a fraction, and integers from 100; those below 1,000 only if they are not round
 (150);
* texts of at least 3 characters, but not yes, no, true, false, none, nor words of the domain's own
 vocabulary: values of a field's `one_of`, and texts that at least 5 records and 5 % of a table
 share in a field;
* of golden arguments only keys of records that have a digit or a capital: others name kinds
 ("savings", "born_in"), which tools must name, too.

Any other answer leaks only if the text presents it as one: "the answer is 21".
"""

import re
from collections import Counter
from collections.abc import Iterator

from tutti.tasks.synthesis.domains import Domain, DomainTask, TableSpec
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.gating.wording import NUMBER, leaves, spaced

COMMON = frozenset("yes no true false none null unknown done success".split())
LEAST_CHARS = 3
LEAST_WHOLE, SURELY_RARE, ROUND = 100, 1_000, 50
SHARED_BY, SHARE = 5, 0.05
PRESENTED = r" (?:answer|answers|result|solution)(?: is| was| will be| with| that)? "
NAMED = re.compile(r"[0-9A-Z]")
SENTENCE = re.compile(r"(?<=[.!?\n])\s")


class _Texts:
    """The texts that agents see before they act, `spaced`, and the words of the records."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        names = [table.name for table in domain.tables]
        names += [each.name for table in domain.tables for each in table.fields]
        both = [form for name in names for form in (name, name.replace("_", " "))]
        self.common = {
            "the policy": spaced(domain.policy),
            "the names of tables and fields": spaced(" ; ".join(both)),
        }
        self.vocabulary = frozenset(
            word for table in domain.tables for word in _vocabulary(domain, table)
        )
        self.keys = frozenset(key for keyed in domain.records.values() for key in keyed)
        self.described: dict[str, str] = {}
        for tool in domain.tools:
            lines = [tool.name, tool.name.replace("_", " "), tool.about]
            lines += [f"{p.name} : {p.about}" for p in tool.parameters]
            self.described[tool.name] = spaced(" ; ".join(lines))
        self._shown: dict[tuple[str, ...], dict[str, str]] = {}

    def shown(self, task: DomainTask) -> dict[str, str]:
        """The texts that the agent reads in a task, by their place."""
        if task.world.tools not in self._shown:
            names = (tool.name for tool in self.domain.offered(task))
            tools = {f"the description of {name}": self.described[name] for name in names}
            self._shown[task.world.tools] = self.common | tools
        return self._shown[task.world.tools]

    def is_rare(self, phrase: str) -> bool:
        """Whether an answer is so rare that any text with it gives it away."""
        bare = phrase.strip()
        if not NUMBER.fullmatch(bare):
            is_long = len(bare) >= LEAST_CHARS
            return is_long and bare not in COMMON and phrase not in self.vocabulary
        if "." in bare or int(bare) >= SURELY_RARE:
            return True
        return int(bare) >= LEAST_WHOLE and int(bare) % ROUND != 0


def _vocabulary(domain: Domain, table: TableSpec) -> Iterator[str]:
    """Yield the texts that records of a table share, `spaced`."""
    records = domain.records.get(table.name, {}).values()
    least = max(SHARED_BY, SHARE * len(records))
    for each in table.fields:
        yield from map(spaced, each.one_of)
        if each.kind == "text" and not each.refers_to:
            held = Counter(str(record.get(each.name)) for record in records)
            yield from (spaced(text) for text, times in held.items() if times >= least)


def leak_fault(task: DomainTask, context: GateContext) -> str:
    """Return the first answer in what the agent sees, and its place; empty if there is none."""
    return next(_leaks(task, context.fact(_Texts)), "")


def _leaks(task: DomainTask, texts: _Texts) -> Iterator[str]:
    shown, scenario = texts.shown(task), task.world.scenario.text
    told = spaced(scenario)
    for fact in task.world.communicate:
        phrase = spaced(fact)
        if not phrase.strip():
            continue
        is_rare = texts.is_rare(phrase)
        places = (place for place, text in shown.items() if _stands(phrase, text, is_rare))
        yield from (f"the answer {fact!r} stands in {place}" for place in places)
        if _stands(phrase, told, is_rare) and _repeated(phrase, scenario, is_rare):
            yield f"the answer {fact!r} stands in what the user is told"
    for action in task.world.actions:
        for leaf in leaves(action.arguments):
            if isinstance(leaf, str) and leaf in texts.keys and NAMED.search(leaf):
                phrase = spaced(leaf)
                places = (p for p, text in shown.items() if phrase in text and phrase not in told)
                yield from (f"{leaf!r}, which a golden call needs, stands in {p}" for p in places)


def _stands(phrase: str, text: str, is_rare: bool) -> bool:
    if phrase not in text:
        return False
    return is_rare or re.search(PRESENTED + re.escape(phrase.lstrip()), text) is not None


def _repeated(phrase: str, text: str, is_rare: bool) -> bool:
    """Whether a sentence has the answer without offering a choice."""
    sentences = (spaced(each) for each in SENTENCE.split(text))
    return any(" or " not in each for each in sentences if _stands(phrase, each, is_rare))
