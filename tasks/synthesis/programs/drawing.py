"""What programs share when they draw candidates: turns of templates, splits, answers that leak."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from tutti.tasks.synthesis.domains import Domain, DomainTask
from tutti.tasks.synthesis.domains.domain import Split
from tutti.tasks.synthesis.programs.program import split_of

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
            stale = task is None or key in seen or task.communicate in answers[template]
            if task is None or stale or leaks(task, told):
                barren[template] += 1
            else:
                seen.add(key)
                answers[template].extend(filter(None, [task.communicate]))
                barren[template] = 0
                given[template] += 1
                yield task
            if barren[template] >= PATIENCE or given[template] >= MOST_PER_TEMPLATE:
                del barren[template]


def leaks(task: DomainTask, told: str) -> bool:
    """Whether an answer stands in the scenario or in `told`, in any case."""
    scenario = task.scenario.text.lower()
    return any(fact.lower() in scenario or fact.lower() in told for fact in task.communicate)


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
