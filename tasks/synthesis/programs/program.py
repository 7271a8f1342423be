"""What a program that makes domains provides, and what programs share: how candidates are drawn and
made harder, and the calls of tasks and solvers."""

import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from tutti.tasks.agents import Oracle, ToolUse
from tutti.tasks.synthesis.domains import Action, Domain, DomainTask, changed_task
from tutti.tasks.synthesis.domains.domain import Split

Tables = dict[str, dict[str, dict[str, Any]]]
"""Records by table and key."""
Knobs = Mapping[str, int]
"""How hard and how large: by the names of a program's `knobs`, all of them."""


@dataclass(frozen=True)
class Knob:
    """A number that a user may set."""

    value: int
    """The default."""
    least: int
    most: int
    about: str


class Program(Protocol):
    """Makes instances of one domain, and tasks in them. All random draws use the given `rng`, so
    that a seed gives the same bytes."""

    name: str
    version: str
    about: str
    knobs: Mapping[str, Knob]
    held_out: frozenset[str]
    """Templates whose tasks are all in the test split."""

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """An instance: about as many records as 500 tasks need, so that a call stays cheap."""
        ...

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """Candidates until the instance has no more; `expected` is empty, the pipeline fills it.

        A candidate's split follows from its entities (`split_of`) and its template (`held_out`).
        """
        ...

    def solve(self, task: DomainTask) -> Oracle:
        """Solve a task by its tools from `slots` and the scenario, as somebody would who does not
        know the golden calls: each argument is given in `slots` or read from a result. Returns what
        it says to the user. Raises LookupError if the results lack what it needs.
        """
        ...


def split_of(entity: str, shares: tuple[int, int] = (60, 20)) -> str:
    """The split of an entity by its hash: so many per cent train and validation, the rest test."""
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
    """Each task and its variants. A variant whose difficulty `measure` is not larger than its
    parent's is left out, and so is one that asks for what another asks for."""
    seen: set[tuple[str, ...]] = set()
    for task in tasks:
        yield task
        seen.add(_asked(task))
        parent = task
        for number in range(1, rounds + 1):
            made = harder(parent)
            if made is None or made.difficulty[measure] <= parent.difficulty[measure]:
                break
            if _asked(made) in seen:
                break
            seen.add(_asked(made))
            parent = changed_task(
                made, evolved_from=parent.task_id, difficulty={**made.difficulty, KNOB: number}
            )
            yield parent


def _asked(task: DomainTask) -> tuple[str, ...]:
    return (task.template, *sorted(f"{name}={value}" for name, value in task.slots.items()))


PATIENCE = 400
"""Draws in a row that give nothing new before a template counts as used up."""
MOST_PER_TEMPLATE = 500
"""Keeps an instance's templates in balance where one of them could give millions."""

APART = 3
"""Tasks of a template between two with the same answer, so that guessing it is no method."""
NONE_ALIKE: Mapping[str, str] = {}

Draw = Callable[[], DomainTask | None]
"""A candidate drawn at random, or None where the draw came to nothing."""


def take_turns(
    draws: Mapping[str, Draw],
    told: str,
    aside: Sequence[str] = (),
    alike: Mapping[str, str] = NONE_ALIKE,
) -> Iterator[DomainTask]:
    """Candidates of the templates by turns until all are used up; no two of a template have the
    same slots, those in `aside` not counted. `alike`: a template whose tasks come to the same as
    another's with the same slots, and that other.

    Left out is a candidate that says in its scenario, or in `told`, what must be communicated, and
    one with the answer of one of the `APART` before it of its template.
    """
    barren = dict.fromkeys(draws, 0)
    given = dict.fromkeys(draws, 0)
    seen: set[tuple[str, ...]] = set()
    answers = {template: deque[tuple[str, ...]](maxlen=APART) for template in draws}
    while barren:
        for template in list(barren):
            task = draws[template]()
            slots = {} if task is None else task.slots
            told_apart = (f"{name}={value}" for name, value in slots.items() if name not in aside)
            key = (alike.get(template, template), *told_apart)
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
    """Whether an answer stands in the scenario or in `told`, in any case."""
    scenario = task.world.scenario.text.lower()
    return any(fact.lower() in scenario or fact.lower() in told for fact in task.world.communicate)


def told_by(domain: Domain) -> str:
    """What every agent is told in a domain, in lower case: the policy and the tools."""
    tools = [f"{each.name} {each.about} {each.schema_of}" for each in domain.tools]
    return "\n".join([domain.policy, *tools]).lower()


def shared_split(template: str, entities: Sequence[str], held_out: frozenset[str]) -> Split | None:
    """The split that all entities are in; None where there is none, or a template that is held out
    would come into another split than test."""
    splits = {split_of(each) for each in entities}
    if len(splits) != 1 or (template in held_out and splits != {"test"}):
        return None
    found = splits.pop()
    return "train" if found == "train" else "validation" if found == "validation" else "test"


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
    """A golden or forbidden call."""
    return Action(name=tool, arguments=arguments)


def use(tool: str, /, **arguments: Any) -> Reading:
    """Call a tool and read its JSON. Raises LookupError where it refuses."""
    text = yield ToolUse(tool, arguments)
    if text.startswith("error:"):
        raise LookupError(f"{tool}({arguments}): {text}")
    return json.loads(text)


def find(
    what: str, tool: str, key: str, among: Sequence[str], matches: Callable[[Any], bool]
) -> Reading:
    """Read records by their keys until one matches. Raises LookupError where there is no `what`."""
    for each in among:
        record = yield from use(tool, **{key: each})
        if matches(record):
            return record
    raise LookupError(f"there is no {what}")
