"""Helpers of the tests of every program: candidates, replays, runs of the solver, checks."""

import itertools
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tutti.tasks.synthesis.domains import (
    Act,
    Action,
    Domain,
    DomainTask,
    FieldSpec,
    Replay,
    Toolkit,
    changed_task,
)
from tutti.tasks.synthesis.programs.base.program import Knobs, Program


@dataclass(frozen=True)
class Trial:
    """An instance and its first candidates."""

    program: Program
    domain: Domain
    tasks: Sequence[DomainTask]


def knobs_of(program: Program, **changed: int) -> Knobs:
    """Return the defaults, some of them changed."""
    return {name: changed.get(name, knob.value) for name, knob in program.knobs.items()}


def trial(program: Program, seed: int, count: int, **changed: int) -> Trial:
    """Return an instance and its first `count` candidates."""
    knobs = knobs_of(program, **changed)
    domain = program.build(random.Random(f"build {seed}"), knobs)
    proposed = program.propose(domain, random.Random(f"propose {seed}"), knobs)
    return Trial(program, domain, list(itertools.islice(proposed, count)))


def open_toolkit(domain: Domain) -> Toolkit:
    """Open a domain's toolkit in the sandbox."""
    return Toolkit(domain)


def record_faults(domain: Domain) -> list[str]:
    """Return records that lack a field, have a wrong value or refer to a missing record."""
    faults = []
    for table in domain.tables:
        for key, record in domain.records[table.name].items():
            if record.keys() != {each.name for each in table.fields} or record[table.key] != key:
                faults.append(f"{table.name}/{key}: fields {sorted(record)}")
                continue
            faults += [
                f"{table.name}/{key}.{each.name}: {record[each.name]!r}"
                for each in table.fields
                if not _fits(domain, each, record[each.name])
            ]
    return faults


KINDS: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "date": str,
    "texts": list,
}


def _fits(domain: Domain, field: FieldSpec, value: Any) -> bool:
    if value is None:
        return field.optional
    if not isinstance(value, KINDS[field.kind]):
        return False
    texts = value if isinstance(value, list) else [value]
    if field.refers_to:
        return all(each in domain.records[field.refers_to] for each in texts)
    if field.one_of:
        return all(each in field.one_of for each in texts)
    if not isinstance(value, int | float):
        return True
    least, most = field.least, field.most
    return (least is None or value >= least) and (most is None or value <= most)


async def replayed(toolkit: Toolkit, tasks: Sequence[DomainTask]) -> list[Replay]:
    """Replay the golden calls twice; fail if a call fails or the two runs differ."""
    first, second = await toolkit.replay(tasks), await toolkit.replay(tasks)
    failures = [(t.template, r.failure) for t, r in zip(tasks, first, strict=True) if r.failure]
    assert failures == []
    assert [each.after for each in first] == [each.after for each in second]
    return first


async def undeclared(
    toolkit: Toolkit, tasks: Sequence[DomainTask], replays: Sequence[Replay]
) -> list[str]:
    """Return results that violate a tool's declaration of changes or keys."""
    found = []
    for task, replay in zip(tasks, replays, strict=True):
        for action, result in zip(task.world.actions, replay.results, strict=True):
            tool = toolkit.domain.tool_named[action.name]
            if not set(result.changes) <= set(tool.changes):
                found.append(f"{tool.name} changed {result.changes}")
            if tool.returns and set(result.value) != set(tool.returns):
                found.append(f"{tool.name} returned {sorted(result.value)}")
            if task.world.tools and tool.name not in task.world.tools:
                found.append(f"{tool.name} is not offered in a task of {task.template}")
    return found


async def solved(toolkit: Toolkit, program: Program, task: DomainTask) -> tuple[str, str]:
    """Return the solver's text and the hash of the database after it."""
    await toolkit.begin({"solver": task})
    blind = changed_task(task, actions=(), communicate=(), forbidden=())
    steps = program.solve(blind)
    said = ""
    try:
        use = next(steps)
        while True:
            assert not task.world.tools or use.name in task.world.tools
            call = Act("solver", Action(name=use.name, arguments=use.arguments))
            (result,) = await toolkit.act([call])
            use = steps.send(result.text)
    except StopIteration as end:
        said = end.value
    (state,) = await toolkit.request([["hash", "solver"]])
    await toolkit.end(["solver"])
    return said, state


async def rule_breaks(toolkit: Toolkit, task: DomainTask) -> tuple[list[str], list[bool]]:
    """Return the golden calls that a rule forbids, and for each forbidden call whether a rule
    forbids it."""
    rules = [rule.function for rule in toolkit.domain.rules if rule.function]
    await toolkit.begin({"rules": task})
    caught = []
    for action in task.world.forbidden:
        asked = [["ask", "rules", rule, action.name, action.arguments] for rule in rules]
        replies = await toolkit.request(asked)
        assert all(each["status"] == "ok" for each in replies), replies
        caught.append(any(each["value"] for each in replies))
    broken = []
    for action in task.world.actions:
        asked = [["ask", "rules", rule, action.name, action.arguments] for rule in rules]
        replies = await toolkit.request([*asked, ["call", "rules", action.name, action.arguments]])
        broken += [each["value"] for each in replies[:-1] if each["value"]]
    await toolkit.end(["rules"])
    return broken, caught


def unobtainable(task: DomainTask, replay: Replay) -> list[str]:
    """Return texts and numbers in golden calls that are neither in the scenario nor in an earlier
    result."""
    heard = task.world.scenario.text
    missing = []
    for action, result in zip(task.world.actions, replay.results, strict=True):
        for value in action.arguments.values():
            computed = action.name == "calculate"
            parts = re.findall(r"[\d.]+", value) if computed else [str(value)]
            missing += [f"{action.name}: {part}" for part in parts if part not in heard]
        heard += "\n" + json.dumps(result.value, ensure_ascii=False)
    return missing
