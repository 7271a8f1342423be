"""Checks that every program with a database must pass, called by the tests of each program."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tutti.tasks.agents import ToolUse
from tutti.tasks.synthesis.domains import (
    Act,
    Action,
    Domain,
    DomainTask,
    FieldSpec,
    Toolkit,
    changed_task,
)
from tutti.tasks.synthesis.programs.base.program import Program

KINDS: dict[str, Any] = {
    "text": str,
    "date": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
}


def knobs_of(program: Program, **changed: int) -> dict[str, int]:
    """Return the defaults, some of them changed."""
    return {name: knob.value for name, knob in program.knobs.items()} | changed


def made(program: Program, seed: int, **changed: int) -> tuple[Domain, list[DomainTask]]:
    """Return an instance and all its tasks."""
    knobs = knobs_of(program, **changed)
    domain = program.build(Random(f"build {seed}"), knobs)
    return domain, list(program.propose(domain, Random(f"propose {seed}"), knobs))


def check_records(domain: Domain) -> None:
    """Check that every record has every field, of its kind and within its limits, and that its keys
    exist."""
    assert set(domain.records) == {table.name for table in domain.tables}
    for table in domain.tables:
        for key, record in domain.records[table.name].items():
            assert record[table.key] == key
            assert list(record) == [field.name for field in table.fields], (table.name, key)
            for field in table.fields:
                check_value(domain, field, record[field.name])


def check_value(domain: Domain, field: FieldSpec, value: Any) -> None:
    """Check that a value conforms to its field."""
    if value is None:
        assert field.optional, field
        return
    many = value if field.kind == "texts" else [value]
    kind = KINDS["text" if field.kind == "texts" else field.kind]
    for each in many:
        assert isinstance(each, kind) and (kind is bool or not isinstance(each, bool)), field
        assert not field.one_of or each in field.one_of, (field, each)
        assert not field.refers_to or each in domain.records[field.refers_to], (field, each)
        assert field.least is None or each >= field.least, (field, each)
        assert field.most is None or each <= field.most, (field, each)


async def check_replays(domain: Domain, tasks: Sequence[DomainTask]) -> None:
    """Check that golden calls run without error, end in one hash, and have arguments from known
    sources."""
    writes = {tool.name for tool in domain.tools if tool.kind == "WRITE"}
    async with Toolkit(domain) as toolkit:
        first, second = await toolkit.replay(tasks), await toolkit.replay(tasks)
    for task, replay in zip(tasks, first, strict=True):
        assert not replay.failure, (task.template, replay.failure)
        assert (replay.after != replay.before) == any(a.name in writes for a in task.world.actions)
        assert task.world.communicate or replay.after != replay.before
        known = task.world.scenario.text
        for action, result in zip(task.world.actions, replay.results, strict=True):
            for value in flat(action.arguments.values()):
                assert str(value) in known, (task.template, action, known)
            known += f"\n{result.text}"
            declared = domain.tool_named[action.name]
            assert set(result.changes) <= set(declared.changes), (action, result.changes)
            assert not isinstance(result.value, dict) or set(result.value) == set(declared.returns)
    assert [each.after for each in first] == [each.after for each in second]


def flat(values: Any) -> list[Any]:
    """Return the values, including those in lists."""
    return [each for value in values for each in (value if isinstance(value, list) else [value])]


async def check_solver(program: Program, domain: Domain, tasks: Sequence[DomainTask]) -> None:
    """Check that the solver, which sees only slots and results, ends in the golden state and states
    the facts."""
    async with Toolkit(domain) as toolkit:
        golden = await toolkit.replay(tasks)
        for task, replay in zip(tasks, golden, strict=True):
            blind = changed_task(task, actions=(), communicate=(), forbidden=())
            await toolkit.begin({"solver": task})
            said = await played(program, blind, toolkit)
            (after,) = await toolkit.request([["hash", "solver"]])
            assert after == replay.after, task
            assert all(fact in said for fact in task.world.communicate), (
                said,
                task.world.communicate,
            )


async def played(program: Program, task: DomainTask, toolkit: Toolkit) -> str:
    """Return the solver's final text."""
    oracle = program.solve(task)
    step: ToolUse = next(oracle)
    while True:
        assert step.name in task.world.tools, (task.template, step.name, task.world.tools)
        (result,) = await toolkit.act(
            [Act("solver", Action(name=step.name, arguments=step.arguments))]
        )
        try:
            step = oracle.send(result.text)
        except StopIteration as finished:
            return str(finished.value)


async def check_rules(domain: Domain, tasks: Sequence[DomainTask]) -> None:
    """Check that the task's rules forbid each forbidden call at its beginning and no golden
    call."""
    function = {rule.id: rule.function for rule in domain.rules}
    asked = [each for each in function.values() if each]
    async with Toolkit(domain) as toolkit:
        for task in tasks:
            assert set(task.world.rules) <= set(function) and task.world.forbidden
            own = [name for rule in task.world.rules if (name := function[rule])]
            operations: list[list[Any]] = [["begin", "rules", task.world.changed]]
            bad = [
                ["ask", "rules", f, a.name, a.arguments] for a in task.world.forbidden for f in own
            ]
            good: list[list[Any]] = []
            for action in task.world.actions:
                good += [["ask", "rules", f, action.name, action.arguments] for f in asked]
                good.append(["call", "rules", action.name, action.arguments])
            replies = (await toolkit.request([*operations, *bad, *good]))[1:]
            assert all(reply["status"] == "ok" for reply in replies), (task, replies)
            for number, action in enumerate(task.world.forbidden):
                verdicts = replies[number * len(own) : (number + 1) * len(own)]
                assert any(each["value"] for each in verdicts), (task.template, action)
            after = zip(good, replies[len(bad) :], strict=True)
            for operation, reply in after:
                assert operation[0] != "ask" or not reply["value"], (
                    task.template,
                    operation,
                    reply,
                )


async def check_signatures(domain: Domain) -> None:
    """Check that each declared tool is a function with exactly the declared parameters."""
    async with Toolkit(domain) as toolkit:
        replies = await toolkit.request([["signature", tool.name] for tool in domain.tools])
    for tool, reply in zip(domain.tools, replies, strict=True):
        assert reply["value"] == [[p.name, p.optional] for p in tool.parameters], tool.name


def check_tasks(program: Program, domain: Domain, tasks: Sequence[DomainTask]) -> None:
    """Check that splits share no entity, nothing leaks, no two tasks are equal, and the tools are
    those needed."""
    split: dict[str, str] = {}
    public = domain.policy + "".join(str(tool.schema_of) for tool in domain.tools)
    for task in tasks:
        for entity in task.sources:
            table, key = entity.split("/")
            assert key in domain.records[table]
            assert split.setdefault(entity, task.split) == task.split
        held = any(name in program.held_out for name in task.template.split("_and_"))
        assert not held or task.split == "test"
        assert not any(
            fact in public + task.world.scenario.text for fact in task.world.communicate
        ), task
        assert {action.name for action in (*task.world.actions, *task.world.forbidden)} <= set(
            task.world.tools
        )
        assert not task.world.expected
    assert len({task.task_id for task in tasks}) == len(tasks)
    assert len({tuple(sorted(asked(task).items())) for task in tasks}) == len(tasks)


def asked(task: DomainTask) -> dict[str, str]:
    """Return a task's request and its person, without the wording or the caller's
    identification."""
    return {k: v for k, v in task.slots.items() if k[0].isdigit() or k == "wishes"} | {
        "who": task.sources[0]
    }
