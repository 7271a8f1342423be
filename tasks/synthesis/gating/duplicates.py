"""Gate: no task repeats an earlier one, in the same words or in others.

Near duplicates have the same outcome (changing calls, facts to communicate, slots, entities) and a
MinHash similarity of at least `THRESHOLD`; see `seen`. The same template about another customer has
another outcome, and a task that names another choice of a field ("pending" for "delivered") is a
different task. Two tasks with identical user instructions are duplicates whatever their outcomes,
because one of them would be wrong.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tutti.tasks.synthesis.domains import Action, Domain, DomainTask
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.gating.seen import FACTS, WORDS, Fingerprint, Seen, hash64, min_hash
from tutti.tasks.synthesis.gating.wording import spaced, words_of
from tutti.tasks.task_sets import PASSED, Verdict


async def judge_duplicates(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
    """Reject the later of two duplicates and remember the accepted tasks. `measured` is the
    estimated similarity."""
    facts = context.fact(DomainFacts)
    return [_judge(facts.fingerprint(task), context.seen) for task in tasks]


def _judge(task: Fingerprint, seen: Seen) -> Verdict:
    found = seen.find(task)
    if found is None:
        seen.add(task)
        return PASSED
    how = "tells the user the same as" if found.same_words else "repeats in other words"
    return Verdict(False, f"{how} {found.task_id}", found.similarity)


class DomainFacts:
    """Facts of a domain for the fingerprints of its tasks."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.place = _json([domain.name, domain.lineage])
        self.changing = frozenset(tool.name for tool in domain.tools if tool.kind == "WRITE")
        self.choices = [
            (f"{table.name}.{field.name}", spaced(choice))
            for table in domain.tables
            for field in table.fields
            for choice in field.one_of
        ]
        """"pending" or "delivered": who asks about another of them asks something else."""

    def fingerprint(self, task: DomainTask) -> Fingerprint:
        """Return a task's fingerprint; it costs about 0.1 ms."""
        words = words_of(task.world.scenario.text)
        pairs = [f"{one} {two}" for one, two in pairwise(words)]
        calls = [_call(action) for action in task.world.actions]
        said = sorted({f"say{spaced(each)}" for each in task.world.communicate})
        slots = [f"slot {name}{spaced(value)}" for name, value in sorted(task.slots.items())]
        begins = _json(task.world.changed) if task.world.changed else ""
        # What a task without changing calls looks at last is what it is about.
        wanted = [
            c for c, a in zip(calls, task.world.actions, strict=True) if a.name in self.changing
        ]
        wanted = sorted(wanted) or calls[-1:]
        text = f" {' '.join(words)} "
        chosen = [(field, choice) for field, choice in self.choices if choice in text]
        outcome = [begins, *sorted(task.sources), *wanted, *said, *slots]
        told = [self.place, begins, task.world.scenario.persona, *sorted(task.world.tools), *words]
        facts = {*calls, *said, *slots, *(choice for _, choice in chosen)}
        return Fingerprint(
            task.task_id,
            hash64("\n".join(told)),
            hash64("\n".join(outcome)),
            np.concatenate([min_hash({*words, *pairs}, 0, WORDS), min_hash(facts, WORDS, FACTS)]),
            frozenset(chosen),
        )


def _call(action: Action) -> str:
    arguments = sorted(action.arguments.items())
    return f"{action.name} " + " ".join(f"{name}={_plain(value)}" for name, value in arguments)


def _plain(value: Any) -> str:
    return spaced(value if isinstance(value, str) else _json(value))


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
