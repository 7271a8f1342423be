"""Wishes: what the programs over databases make tasks of, and how their solvers work.

A wish is one thing that a user wants, with its golden calls. A task is a caller with one wish or
several that touch no common record, so that any order of them ends in the same state.
"""

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any

from tutti.tasks.agents import Oracle, ToolUse
from tutti.tasks.synthesis.domains import Action, Domain, DomainTask, Scenario
from tutti.tasks.synthesis.programs.evolving import KNOB
from tutti.tasks.synthesis.programs.program import Knobs, split_of

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
"""How often each wish is grouped with others, where a task has several, per wish of a task."""

Reading = Generator[ToolUse, str, Any]
"""Yields tool uses, is sent their results' text, returns what was read."""
WishSolver = Callable[[Mapping[str, Any], Mapping[str, str]], Oracle]
"""Of the caller's record and the wish's slots."""


@dataclass(frozen=True)
class Caller:
    """Who calls, how they say who they are, and the call that finds their record."""

    entity: str
    known: str
    call: Action
    slots: Mapping[str, str]


@dataclass(frozen=True)
class Wish:
    """One thing that a user wants."""

    name: str
    """The template."""
    reason: str
    actions: tuple[Action, ...]
    """The golden calls after the one that finds the caller."""
    touches: frozenset[str]
    """The records that it reads facts from or changes."""
    slots: Mapping[str, str]
    rules: tuple[str, ...]
    forbidden: tuple[Action, ...]
    communicate: tuple[str, ...] = ()
    known: str = ""
    unknown: str = ""
    instructions: str = ""


@dataclass(frozen=True)
class _Made:
    """What a task was made of."""

    key: str
    caller: Caller
    group: Sequence[Wish]


@dataclass
class Composer:
    """Makes the tasks of an instance out of wishes."""

    domain: Domain
    rng: Random
    knobs: Knobs
    held_out: frozenset[str]
    caller: Callable[[str, Random], Caller]
    """Of a customer's key; drawn anew for each task."""
    _made: dict[str, "_Made"] = field(default_factory=dict)
    """How each task was made, by its id: what `harder` begins with."""
    _wishes: dict[str, list[Wish]] = field(default_factory=dict)
    """By customer."""

    def tasks(self, wishes: Mapping[str, Sequence[Wish]]) -> Iterator[DomainTask]:
        """All tasks of the customers' wishes, mixed; no two ask for the same."""
        self._wishes = {key: self._distinct(theirs) for key, theirs in wishes.items()}
        drawn = [(key, group) for key in wishes for group in self._groups(self._wishes[key])]
        self.rng.shuffle(drawn)
        public = self._public()
        for key, group in drawn:
            task = self._made_of(_Made(key, self.caller(key, self.rng), group), public)
            if task is not None:
                yield task

    def harder(self, parent: DomainTask) -> DomainTask | None:
        """The same caller with the same wishes and one more, in one conversation."""
        made = self._made[parent.task_id]
        theirs = self._wishes[made.key]
        steps = len(made.group) + 1
        group = _apart([*made.group, *self.rng.sample(theirs, len(theirs))], steps)
        if len(group) < steps or steps > len(ORDINALS):
            return None
        return self._made_of(_Made(made.key, made.caller, group), self._public())

    def _made_of(self, made: "_Made", public: str) -> DomainTask | None:
        """The task of a caller's wishes; None for one that is held out of its split, or told."""
        task = self._task(made.caller, made.group)
        told = f"{public}\n{task.scenario.text.lower()}"
        misplaced = task.split != "test" and self._is_held_out(made.group)
        if misplaced or any(fact.lower() in told for fact in task.communicate):
            return None
        if self.knobs.get(KNOB):  # many tasks: kept only where they are needed
            self._made[task.task_id] = made
        return task

    def _public(self) -> str:
        described = [(t.about, *(p.about for p in t.parameters)) for t in self.domain.tools]
        return "\n".join([self.domain.policy, *chain(*described)]).lower()

    def _is_held_out(self, group: Sequence[Wish]) -> bool:
        return any(wish.name in self.held_out for wish in group)

    def _distinct(self, wishes: Sequence[Wish]) -> list[Wish]:
        """Without those that ask for what one before asks for."""
        return list({(w.name, *sorted(w.slots.items())): w for w in wishes}.values())

    def _groups(self, wishes: list[Wish]) -> Iterator[list[Wish]]:
        """Groups of `steps` wishes that touch no common record and are of distinct templates."""
        steps = self.knobs["steps"]
        seen = set()
        for _ in range(1 if steps == 1 else steps * ROUNDS):
            left = self.rng.sample(wishes, len(wishes))
            while left:
                group = _apart(left, steps)
                left = [wish for wish in left if all(wish is not taken for taken in group)]
                names = frozenset(id(wish) for wish in group)
                if len(group) == steps and names not in seen:
                    seen.add(names)
                    yield group

    def _task(self, caller: Caller, group: Sequence[Wish]) -> DomainTask:
        offered = self._offered(caller, group)
        reads = {tool.name for tool in self.domain.tools if tool.kind == "READ"}
        actions = (caller.call, *chain(*(wish.actions for wish in group)))
        return DomainTask(
            template="_and_".join(wish.name for wish in group),
            split=split_of(caller.entity),
            scenario=self._scenario(caller, group),
            actions=actions,
            communicate=tuple(chain(*(wish.communicate for wish in group))),
            entities=(caller.entity,),
            rules=tuple(dict.fromkeys(chain(*(wish.rules for wish in group)))),
            forbidden=tuple(chain(*(wish.forbidden for wish in group))),
            tools=offered,
            difficulty={
                "hops": sum(action.name in reads for action in actions),
                "steps": len(group),
                "tools": len(offered),
                "distractors": self.knobs["distractors"],
            },
            slots=_slots(caller, group),
        )

    def _scenario(self, caller: Caller, group: Sequence[Wish]) -> Scenario:
        return Scenario(
            reason=_numbered([wish.reason for wish in group], "The {} matter: "),
            known=f"{caller.known} {_numbered([w.known for w in group], ABOUT)}".strip(),
            unknown=_numbered([wish.unknown for wish in group], ABOUT),
            instructions=_numbered([wish.instructions for wish in group], ABOUT),
            persona=self.rng.choice(PERSONAS),
        )

    def _offered(self, caller: Caller, group: Sequence[Wish]) -> tuple[str, ...]:
        """The tools that the wishes need or that tempt, and others up to the knob `tools`."""
        needed = {caller.call.name}
        for wish in group:
            needed |= {action.name for action in (*wish.actions, *wish.forbidden)}
        others = [tool.name for tool in self.domain.tools if tool.name not in needed]
        further = min(len(others), max(0, self.knobs["tools"] - len(needed)))
        chosen = needed | set(self.rng.sample(others, further))
        return tuple(tool.name for tool in self.domain.tools if tool.name in chosen)


def _apart(wishes: Sequence[Wish], steps: int) -> list[Wish]:
    """The first wish and others, up to `steps`."""
    group: list[Wish] = []
    for wish in wishes:
        alike = any(wish.name == taken.name or wish.touches & taken.touches for taken in group)
        if len(group) < steps and not alike:
            group.append(wish)
    return group


def _slots(caller: Caller, group: Sequence[Wish]) -> dict[str, str]:
    slots = {**caller.slots, "wishes": " ".join(wish.name for wish in group)}
    for number, wish in enumerate(group):
        slots |= {f"{number}_{name}": value for name, value in wish.slots.items()}
    return slots


def _numbered(told: Sequence[str], start: str) -> str:
    """Sentences of the wishes, each with its wish's number where there are several."""
    if len(told) == 1:
        return told[0]
    numbered = zip(ORDINALS, told, strict=False)
    return " ".join(start.format(number) + text for number, text in numbered if text)


def solve_wishes(
    task: DomainTask, identify: Callable[[Mapping[str, str]], Reading], solvers: Mapping[str, Any]
) -> Oracle:
    """Find the caller, then solve wish after wish; says all their sentences. Raises LookupError."""
    caller = yield from identify(task.slots)
    said = []
    for number, name in enumerate(task.slots["wishes"].split()):
        start = f"{number}_"
        own = {k.removeprefix(start): v for k, v in task.slots.items() if k.startswith(start)}
        solver: WishSolver = solvers[name]
        said.append((yield from solver(caller, own)))
    return " ".join(said)


def use(tool: str, /, **arguments: Any) -> Reading:
    """Call a tool and read its JSON. Raises LookupError where it refuses."""
    text = yield ToolUse(tool, arguments)
    if text.startswith("error:"):
        raise LookupError(f"{tool}({arguments}): {text}")
    return json.loads(text)


def money(amount: float) -> str:
    """An amount as it is said: with two digits after the point."""
    return f"{amount:.2f}"


def is_plain(amount: float) -> bool:
    """Whether JSON writes an amount as `money` does, so that both readings of it are equal."""
    return amount > 0 and json.dumps(round(amount, 2)) == money(amount)


def listed(words: Sequence[str]) -> str:
    """As in a sentence: a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
