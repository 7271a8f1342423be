"""What a planter of defects is, and what planters share.

A planter takes a good task and its domain and returns them with one defect, or None where the task
has no place for it. It works on any domain.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import (
    Action,
    Domain,
    DomainTask,
    FieldSpec,
    TableSpec,
    ToolSpec,
    changed_task,
)

Planted = tuple[Domain, DomainTask]
Plant = Callable[[Random, Domain, DomainTask], Planted | None]


@dataclass(frozen=True)
class Planter:
    """One kind of defect."""

    name: str
    gates: tuple[str, ...]
    """Which gate should catch it; then others that are right to catch it as well."""
    plant: Plant


def varied(domain: Domain, **changes: Any) -> Domain:
    """A domain with some fields replaced."""
    kept = {name: getattr(domain, name) for name in Domain.model_fields}
    return Domain(**{**kept, **changes})


def with_tool(domain: Domain, name: str, **changes: Any) -> Domain:
    """A domain with one tool changed."""
    tools = (t.model_copy(update=changes) if t.name == name else t for t in domain.tools)
    return varied(domain, tools=tuple(tools))


def with_action(task: DomainTask, place: int, **arguments: Any) -> DomainTask:
    """A task with some arguments of one golden call replaced."""
    actions = list(task.world.actions)
    replaced = {**actions[place].arguments, **arguments}
    actions[place] = actions[place].model_copy(update={"arguments": replaced})
    return changed_task(task, actions=tuple(actions))


def told(task: DomainTask, **changes: str) -> DomainTask:
    """A task whose scenario differs."""
    scenario = task.world.scenario.model_copy(update=changes)
    return changed_task(task, scenario=scenario)


def calls_of(domain: Domain, task: DomainTask, *kinds: str) -> list[tuple[int, Action, ToolSpec]]:
    """The golden calls of tools of some kinds, with their places."""
    found = ((n, a, domain.tool_named.get(a.name)) for n, a in enumerate(task.world.actions))
    return [(n, a, tool) for n, a, tool in found if tool is not None and tool.kind in kinds]


def fields_of(domain: Domain) -> Iterator[tuple[TableSpec, FieldSpec]]:
    """All fields of tables that have records."""
    for table in domain.tables:
        if domain.records.get(table.name):
            yield from ((table, field) for field in table.fields)


def with_value(
    rng: Random, domain: Domain, task: DomainTask, table: TableSpec, changed: dict[str, Any]
) -> Planted:
    """Fields of one record changed: in the domain's records or in those that the task changes."""
    records = domain.records[table.name]
    key = rng.choice(sorted(records))
    if rng.random() < 0.5:
        keyed = dict(task.world.changed.get(table.name, {}))
        keyed[key] = {**keyed.get(key, {}), **changed}
        return domain, changed_task(task, changed={**task.world.changed, table.name: keyed})
    record = {**records[key], **changed}
    every = {**domain.records, table.name: {**records, key: record}}
    return varied(domain, records=every), task


def wrapped(domain: Domain, tool: ToolSpec, before: Sequence[str]) -> Domain:
    """A domain in which lines of code run before a tool; they may use ``db``."""
    order = sorted(tool.parameters, key=lambda each: each.optional)
    taken = "".join(f", {p.name}=None" if p.optional else f", {p.name}" for p in order)
    given = ", ".join(f"{p.name!r}: {p.name}" for p in order)
    lines = [
        f"_planted_{tool.name} = {tool.name}",
        f"def {tool.name}(db{taken}):",
        *(f"    {line}" for line in before),
        f"    given = {{{given}}}",
        "    given = {name: value for name, value in given.items() if value is not None}",
        f"    return _planted_{tool.name}(db, **given)",
    ]
    return varied(domain, toolkit=domain.toolkit + "\n\n" + "\n".join(lines) + "\n")
