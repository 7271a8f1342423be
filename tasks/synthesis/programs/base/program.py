"""The interface of a program that makes domains, and what programs share: drawing candidates,
making them harder, calling tools in tasks and solvers."""

import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from tutti.tasks.agents import Oracle, ToolUse
from tutti.tasks.synthesis.domains import Action, Domain, DomainTask, changed_task

Tables = dict[str, dict[str, dict[str, Any]]]
"""Records by table and key."""
Knobs = Mapping[str, int]
"""The values of all of a program's `knobs`, by name."""


@dataclass(frozen=True)
class Knob:
    """A number that a user may set."""

    value: int
    """The default."""
    least: int
    most: int
    about: str


class Program(Protocol):
    """A program that makes instances of one domain, and tasks in them. All random draws use the
    given `rng`, so that a seed gives the same bytes."""

    name: str
    version: str
    about: str
    knobs: Mapping[str, Knob]
    held_out: frozenset[str]
    """Templates whose tasks are all in the test split."""

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """An instance with about as many records as 500 tasks need, so that a call stays cheap."""
        ...

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """Candidates until the instance has no more; `expected` is empty, the pipeline fills it. A
        candidate's split follows from its entities (`split_of`) and its template (`held_out`)."""
        ...

    def solve(self, task: DomainTask) -> Oracle:
        """Solve a task with its tools but not its golden calls: each argument is in `slots` or the
        scenario, or read from a result. Returns the message to the user. Raises LookupError if the
        results lack what it needs."""
        ...


def split_of(entity: str, shares: tuple[int, int] = (60, 20)) -> str:
    """Return the split of an entity by its hash; `shares`: per cent of train and validation."""
    place = Random(f"split {entity}").randrange(100)
    if place < shares[0]:
        return "train"
    return "validation" if place < sum(shares) else "test"


KNOB = "evolved"
EVOLVED = Knob(0, 0, 2, "harder variants of each task, each made of the one before it")
Harder = Callable[[DomainTask], DomainTask | None]
"""A harder variant of a task; None where there is none."""


def with_harder(
    tasks: Iterable[DomainTask], harder: Harder, rounds: int, measure: str
) -> Iterator[DomainTask]:
    """Yield each task and its variants, except a variant whose difficulty `measure` is not larger
    than its parent's, and one with the template and slots of another."""
    seen: set[tuple[Any, ...]] = set()
    for task in tasks:
        yield task
        seen.add((task.template, *sorted(task.slots.items())))
        parent = task
        for number in range(1, rounds + 1):
            made = harder(parent)
            if made is None or made.difficulty[measure] <= parent.difficulty[measure]:
                break
            key = (made.template, *sorted(made.slots.items()))
            if key in seen:
                break
            seen.add(key)
            parent = changed_task(
                made, evolved_from=parent.task_id, difficulty={**made.difficulty, KNOB: number}
            )
            yield parent


PATIENCE = 400
"""Draws in a row that give nothing new before a template counts as used up."""
MOST_PER_TEMPLATE = 500
"""Keeps an instance's templates in balance where one of them could give millions."""

APART = 3
"""Tasks of a template between two with the same answer, so that guessing it is no method."""
Draw = Callable[[], DomainTask | None]
"""A candidate drawn at random, or None where the draw came to nothing."""


def take_turns(
    draws: Mapping[str, Draw],
    told: str,
    aside: Sequence[str] = (),
    alike: tuple[str, str] = ("", ""),
) -> Iterator[DomainTask]:
    """Yield candidates, alternating between the templates until all are used up. No two of a
    template have the same slots, not counting those in `aside`. `alike`: two templates whose tasks
    are the same if their slots are.

    A candidate is left out if its scenario or `told` gives the answer away, or if one of the last
    `APART` tasks of its template has the same answer.
    """
    barren = dict.fromkeys(draws, 0)
    given = dict.fromkeys(draws, 0)
    seen: set[tuple[Any, ...]] = set()
    answers = {template: deque[tuple[str, ...]](maxlen=APART) for template in draws}
    while barren:
        for template in list(barren):
            task = draws[template]()
            slots = () if task is None else task.slots.items()
            kind = alike if template in alike else template
            key = (kind, *(pair for pair in slots if pair[0] not in aside))
            stale = task is None or key in seen or task.world.communicate in answers[template]
            if task is None or stale or leaks(task, told):
                barren[template] += 1
            else:
                seen.add(key)
                answers[template].extend(filter(None, [task.world.communicate]))
                barren[template] = 0
                given[template] += 1
                yield task
            if barren[template] >= PATIENCE or given[template] >= MOST_PER_TEMPLATE:
                del barren[template]


def leaks(task: DomainTask, told: str) -> bool:
    """Whether an answer is in the scenario or in `told`, ignoring case."""
    scenario = task.world.scenario.text.lower()
    return any(fact.lower() in scenario or fact.lower() in told for fact in task.world.communicate)


def told_by(domain: Domain) -> str:
    """Return the policy and the tools of a domain, in lower case, as every agent reads them."""
    tools = [f"{each.name} {each.about} {each.schema_of}" for each in domain.tools]
    return "\n".join([domain.policy, *tools]).lower()


def shared_split(template: str, entities: Sequence[str], held_out: frozenset[str]) -> str | None:
    """Return the split of all entities; None if they differ, or if a held-out template would be in
    another split than test."""
    splits = {split_of(each) for each in entities}
    if len(splits) != 1 or (template in held_out and splits != {"test"}):
        return None
    return splits.pop()


def offered_tools(
    domain: Domain, needed: Sequence[str], extra: int, spare: Sequence[str]
) -> tuple[str, ...]:
    """The needed tools and the first `extra` of the others in `spare`, in the domain's order."""
    others = [name for name in spare if name not in needed][:extra]
    return tuple(each.name for each in domain.tools if each.name in (*needed, *others))


Slots = Mapping[str, str]
Reading = Generator[ToolUse, str, Any]
"""Yields tool uses, is sent their results' text, returns what was read."""


def call(tool: str, /, **arguments: Any) -> Action:
    """Return a golden or forbidden call."""
    return Action(name=tool, arguments=arguments)


def call_on(tool: str, record: Mapping[str, Any], /, **arguments: Any) -> Action:
    """Return a call about a record, whose first field is its key."""
    key = next(iter(record))
    return Action(name=tool, arguments={key: record[key], **arguments})


def use(tool: str, /, **arguments: Any) -> Reading:
    """Call a tool and read its JSON. Raises LookupError if the tool refuses."""
    text = yield ToolUse(tool, arguments)
    if text.startswith("error:"):
        raise LookupError(f"{tool}({arguments}): {text}")
    return json.loads(text)


def find(
    what: str, tool: str, key: str, among: Sequence[str], matches: Callable[[Any], bool]
) -> Reading:
    """Read records by their keys until one matches. Raises LookupError if there is no `what`."""
    for each in among:
        record = yield from use(tool, **{key: each})
        if matches(record):
            return record
    raise LookupError(f"there is no {what}")
