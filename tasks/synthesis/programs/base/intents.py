"""Intents, from which the programs over databases make tasks.

An intent is one request of a user, with its golden calls. A task is a caller with one or several
intents that touch no common record, so that any order of them ends in the same state.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from random import Random
from typing import Any

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Action, Domain, DomainSpec, DomainTask, Scenario
from tutti.tasks.synthesis.programs.base.program import (
    KNOB,
    Knobs,
    Reading,
    Slots,
    leaks,
    split_of,
    told_by,
)

PERSONAS = (
    "You are polite and brief.",
    "You are in a hurry and dislike small talk.",
    "You are friendly and a little chatty.",
    "You are careful and like to have everything confirmed.",
    "You are calm and answer only what is asked.",
    "You are slightly annoyed, but stay civil.",
)
ORDINALS = "first", "second", "third"
ABOUT = "On the {} matter: "
ROUNDS = 6
"""Groups of each intent, for each of a task's intents, where a task has several."""
IntentSolver = Callable[[Mapping[str, Any], Slots], Oracle]
"""Takes the caller's record and the intent's slots."""


@dataclass(frozen=True)
class Caller:
    """A caller, with the words and the call that identify them."""

    entity: str
    known: str
    call: Action
    slots: Mapping[str, str]


@dataclass(frozen=True)
class Intent:
    """One request of a user. A template sets the first fields, and a desk adds the words."""

    actions: Sequence[Action]
    """The golden calls after the one that finds the caller."""
    touches: Collection[str]
    """The records that it reads facts from or changes."""
    forbidden: Sequence[Action]
    slots: Mapping[str, str] = field(default_factory=dict)
    facts: Sequence[float | str] = ()
    """Amounts and texts that must be communicated."""
    says: Mapping[str, str] = field(default_factory=dict)
    """Values of the phrases beside the slots, or in place of them."""
    reason: str = ""
    unknown: str = ""
    name: str = ""
    """The template."""
    rules: tuple[str, ...] = ()
    known: str = ""
    instructions: str = ""

    @property
    def communicate(self) -> tuple[str, ...]:
        """The facts that must be communicated, formatted."""
        return tuple(each if isinstance(each, str) else money(each) for each in self.facts)


@dataclass
class Composer:
    """Makes the tasks of an instance from intents."""

    domain: Domain
    rng: Random
    knobs: Knobs
    held_out: frozenset[str]
    caller: Callable[[str, Random], Caller]
    """Draws the words of a customer, by their key, anew for each task."""
    _made: dict[str, tuple[Caller, Sequence[Intent]]] = field(default_factory=dict)
    """The parts of each task by its id, from which `harder` starts."""
    _wishes: dict[str, list[Intent]] = field(default_factory=dict)
    """By the caller's entity."""

    def tasks(self, intents: Mapping[str, Sequence[Intent]]) -> Iterator[DomainTask]:
        """Yield all tasks of the customers' intents, mixed; no two are the same."""
        distinct = {
            key: list({(w.name, *sorted(w.slots.items())): w for w in theirs}.values())
            for key, theirs in intents.items()
        }
        drawn = [(key, group) for key in intents for group in self._groups(distinct[key])]
        self.rng.shuffle(drawn)
        for key, group in drawn:
            caller = self.caller(key, self.rng)
            self._wishes[caller.entity] = distinct[key]
            if task := self._checked(caller, group):
                yield task

    def harder(self, parent: DomainTask) -> DomainTask | None:
        """A task of the same caller with the same intents and one more, in one conversation."""
        caller, before = self._made[parent.task_id]
        theirs, steps = self._wishes[caller.entity], len(before) + 1
        group = _apart([*before, *self.rng.sample(theirs, len(theirs))], steps)
        if len(group) < steps or steps > len(ORDINALS):
            return None
        return self._checked(caller, group)

    def _checked(self, caller: Caller, group: Sequence[Intent]) -> DomainTask | None:
        """The task of a caller's intents; None if it is held out of its split, or gives an answer
        away."""
        task = self._task(caller, group)
        held_out = any(intent.name in self.held_out for intent in group)
        if (held_out and task.split != "test") or leaks(task, self._told):
            return None
        if self.knobs.get(KNOB):  # for many tasks, only where `harder` needs them
            self._made[task.task_id] = (caller, group)
        return task

    @cached_property
    def _told(self) -> str:
        return told_by(self.domain)

    def _groups(self, intents: list[Intent]) -> Iterator[list[Intent]]:
        """Groups of `steps` intents that touch no common record and are of distinct templates."""
        steps = self.knobs["steps"]
        seen = set()
        for _ in range(1 if steps == 1 else steps * ROUNDS):
            left = self.rng.sample(intents, len(intents))
            while left:
                group = _apart(left, steps)
                left = [intent for intent in left if all(intent is not taken for taken in group)]
                names = frozenset(id(intent) for intent in group)
                if len(group) == steps and names not in seen:
                    seen.add(names)
                    yield group

    def _task(self, caller: Caller, group: Sequence[Intent]) -> DomainTask:
        offered = self._offered(caller, group)
        reads = {tool.name for tool in self.domain.tools if tool.kind == "READ"}
        actions = (caller.call, *chain(*(intent.actions for intent in group)))
        slots = {**caller.slots, "wishes": " ".join(intent.name for intent in group)}
        for number, intent in enumerate(group):
            slots |= {f"{number}_{name}": value for name, value in intent.slots.items()}
        return DomainTask(
            family=self.domain.name,
            template="_and_".join(intent.name for intent in group),
            split=split_of(caller.entity),
            sources=(caller.entity,),
            difficulty={
                "hops": sum(action.name in reads for action in actions),
                "steps": len(group),
                "tools": len(offered),
                "distractors": self.knobs["distractors"],
            },
            slots=slots,
            world=DomainSpec(
                domain=self.domain.domain_id,
                scenario=Scenario(
                    reason=_numbered([intent.reason for intent in group], "The {} matter: "),
                    known=f"{caller.known} {_numbered([w.known for w in group], ABOUT)}".strip(),
                    unknown=_numbered([intent.unknown for intent in group], ABOUT),
                    instructions=_numbered([intent.instructions for intent in group], ABOUT),
                    persona=self.rng.choice(PERSONAS),
                ),
                actions=actions,
                communicate=tuple(chain(*(intent.communicate for intent in group))),
                rules=tuple(dict.fromkeys(chain(*(intent.rules for intent in group)))),
                forbidden=tuple(chain(*(intent.forbidden for intent in group))),
                tools=offered,
            ),
        )

    def _offered(self, caller: Caller, group: Sequence[Intent]) -> tuple[str, ...]:
        """The tools that the intents need or that tempt, and others up to the knob `tools`."""
        needed = {caller.call.name}
        for intent in group:
            needed |= {action.name for action in (*intent.actions, *intent.forbidden)}
        others = [tool.name for tool in self.domain.tools if tool.name not in needed]
        further = min(len(others), max(0, self.knobs["tools"] - len(needed)))
        chosen = needed | set(self.rng.sample(others, further))
        return tuple(tool.name for tool in self.domain.tools if tool.name in chosen)


def _apart(intents: Sequence[Intent], steps: int) -> list[Intent]:
    """Return the first intent and others that do not conflict with it, up to `steps`."""
    group: list[Intent] = []
    for intent in intents:
        touches = set(intent.touches)
        alike = any(intent.name == each.name or touches & set(each.touches) for each in group)
        if len(group) < steps and not alike:
            group.append(intent)
    return group


def _numbered(told: Sequence[str], start: str) -> str:
    """Join the sentences of the intents, numbered by intent if there are several."""
    if len(told) == 1:
        return told[0]
    numbered = zip(ORDINALS, told, strict=False)
    return " ".join(start.format(number) + text for number, text in numbered if text)


def solve_intents(
    task: DomainTask, identify: Reading, solvers: Mapping[str, IntentSolver]
) -> Oracle:
    """Identify the caller, then solve each intent; return all sentences. Raises LookupError."""
    caller = yield from identify
    said = []
    for number, name in enumerate(task.slots["wishes"].split()):
        start = f"{number}_"
        own = {k.removeprefix(start): v for k, v in task.slots.items() if k.startswith(start)}
        said.append((yield from solvers[name](caller, own)))
    return " ".join(said)


def money(amount: float) -> str:
    """Format an amount with two decimals."""
    return f"{amount:.2f}"


def is_plain(amount: float) -> bool:
    """Whether JSON writes an amount as `money` does, so that both forms are equal."""
    return amount > 0 and json.dumps(round(amount, 2)) == money(amount)


def listed(words: Sequence[str]) -> str:
    """Join words as a sentence does: a, b and c."""
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} and {words[-1]}"
