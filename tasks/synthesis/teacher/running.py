"""Running a teacher's code in the sandbox and detecting its faults.

In: a domain with unreviewed code. Out: reasons, with tool, call and value. Each check opens an
interpreter of its own, so that code that ends or corrupts it does not affect other checks.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.tasks.synthesis.domains import (
    Action,
    Domain,
    DomainTask,
    Toolkit,
    ToolkitFailed,
    ToolSpec,
)
from tutti.tasks.synthesis.teacher.products import CallAnswer, RuleAnswer

KINDS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "date": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "texts": (list,),
}
RUN = "check"
Reply = Mapping[str, Any]


@dataclass(frozen=True)
class TaskReplay:
    """The result of a task's golden calls under the policy."""

    reason: str
    """Why it is no good task; empty if it is one."""
    expected: str = ""
    """`state_hash` of the database after the calls."""
    entities: tuple[str, ...] = ()
    """The records that its arguments and the objects that it reads name, as ``table/key``."""


def call_reason(domain: Domain, action: Action) -> str:
    """Return why a call does not fit its tool's parameters, or an empty string."""
    spec = domain.tool_named.get(action.name)
    if spec is None:
        return f"there is no tool {action.name!r}"
    parameters = {each.name: each for each in spec.parameters}
    reasons = [f"no parameter {name!r}" for name in action.arguments if name not in parameters]
    for name, parameter in parameters.items():
        if name not in action.arguments:
            reasons += [] if parameter.optional else [f"{name} is missing"]
            continue
        value = action.arguments[name]
        is_mixed_up = isinstance(value, bool) and parameter.kind != "boolean"
        if is_mixed_up or not isinstance(value, KINDS[parameter.kind]):
            reasons.append(f"{name}: {value!r} is not {parameter.kind}")
    return "; ".join(f"{action.name}: {reason}" for reason in reasons)


async def toolkit_reason(domain: Domain, examples: Sequence[Action]) -> str:
    """Return why the toolkit does not match its specs, or an empty string: it does not load, a
    signature differs, or a tool that is called once fails or makes a forbidden change."""
    reasons = [call_reason(domain, each) for each in examples]
    if not domain.tools:
        reasons.append("there is no tool")
    if any(reasons):
        return "\n".join(filter(None, reasons))
    operations: list[list[Any]] = [["signature", tool.name] for tool in domain.tools]
    for each in examples:
        operations += [["begin", RUN, {}], ["call", RUN, each.name, each.arguments]]
    found = await _run(domain, operations)
    if isinstance(found, str):
        return found
    replies = iter(found)
    reasons = [_signature_reason(tool, next(replies)) for tool in domain.tools]
    for each in examples:
        next(replies)
        reasons.append(_example_reason(domain.tool_named[each.name], each, next(replies)))
    return "\n".join(filter(None, reasons))


def _signature_reason(tool: ToolSpec, reply: Reply) -> str:
    if reply["status"] != "ok":
        return f"{tool.name}: {reply['value']}"
    wanted: list[list[Any]] = [[each.name, each.optional] for each in tool.parameters]
    code, spec = (
        ", ".join(f"{name}=…" if is_optional else name for name, is_optional in parameters)
        for parameters in (reply["value"], wanted)
    )
    return "" if code == spec else f"{tool.name}: its code takes ({code}), its spec says ({spec})"


def _example_reason(tool: ToolSpec, action: Action, reply: Reply) -> str:
    call, declared = f"{action.name}({json.dumps(action.arguments)})", tool.changes
    if reply["status"] != "ok":
        return f"{call}: {reply['status']}: {reply['value']}"
    undeclared = [
        each
        for each in reply["changes"]
        if tool.kind != "WRITE" or not {each, each.split(".")[0]} & set(declared)
    ]
    if undeclared:
        return f"{call} changed {', '.join(undeclared)}, which its spec does not say"
    value = reply["value"]
    lost = [each for each in tool.returns if isinstance(value, dict) and each not in value]
    return f"{call} returned no {', '.join(lost)}" if lost else ""


async def policy_reason(
    domain: Domain, rules: Sequence[RuleAnswer], examples: Sequence[Action]
) -> str:
    """Return why the rules' functions are wrong, or an empty string: one is missing or fails, or
    does not forbid the call in its example."""
    ids = [each.rule.id for each in rules]
    reasons = [f"two rules are called {each!r}" for each in sorted(set(ids)) if ids.count(each) > 1]
    operations: list[list[Any]] = [["begin", RUN, {}]]
    for each in rules:
        function, forbids = each.rule.function, each.forbids
        if function is not None and forbids is None:
            reasons.append(f"{each.rule.id}: no call that it forbids")
        if function is None or forbids is None:
            continue
        reasons.append(call_reason(domain, forbids.action))
        asked = [forbids.action, *(a for a in examples if _writes(domain, a))]
        operations += [["ask", RUN, function, a.name, a.arguments] for a in asked]
    if any(reasons):
        return "\n".join(filter(None, reasons))
    found = await _run(domain, operations)
    if isinstance(found, str):
        return found
    replies = iter(found[1:])
    writes = sum(_writes(domain, each) for each in examples)
    for each in rules:
        if each.rule.function is not None and each.forbids is not None:
            answers = [next(replies) for _ in range(1 + writes)]
            reasons.append(_rule_reason(each.rule.id, each.forbids, answers))
    return "\n".join(filter(None, reasons))


def _rule_reason(rule: str, forbids: CallAnswer, replies: Sequence[Reply]) -> str:
    wrong = next((reply for reply in replies if reply["status"] != "ok"), None)
    if wrong is not None:
        return f"{rule}: {wrong['status']}: {wrong['value']}"
    call = f"{forbids.tool}({json.dumps(forbids.action.arguments)})"
    return "" if replies[0]["value"] else f"{rule}: its function does not forbid {call}"


def _writes(domain: Domain, action: Action) -> bool:
    tool = domain.tool_named.get(action.name)
    return tool is not None and tool.kind == "WRITE"


async def replay_task(domain: Domain, task: DomainTask) -> TaskReplay:
    """Run a task's golden calls; before each WRITE, check all rules in the state at that time."""
    reasons = [call_reason(domain, each) for each in (*task.world.actions, *task.world.forbidden)]
    known = {rule.id for rule in domain.rules}
    reasons += [f"there is no rule {each!r}" for each in task.world.rules if each not in known]
    if not task.world.actions:
        reasons.append("there is no golden call")
    if any(reasons):
        return TaskReplay("\n".join(filter(None, reasons)))
    found = await _run(domain, list(_operations(domain, task)))
    return TaskReplay(found) if isinstance(found, str) else _judged(domain, task, found)


def _operations(domain: Domain, task: DomainTask) -> Iterator[list[Any]]:
    functions = [rule.function for rule in domain.rules if rule.function is not None]
    yield ["begin", RUN, task.world.changed]
    yield ["hash", RUN]
    for each in task.world.forbidden:
        yield from (["ask", RUN, name, each.name, each.arguments] for name in functions)
    for each in task.world.actions:
        if _writes(domain, each):
            yield from (["ask", RUN, name, each.name, each.arguments] for name in functions)
        yield ["call", RUN, each.name, each.arguments]
    yield ["hash", RUN]


def _judged(domain: Domain, task: DomainTask, found: Sequence[Any]) -> TaskReplay:
    replies = iter(found[2:-1])
    functions = [rule for rule in domain.rules if rule.function is not None]
    reasons: list[str] = []
    for each in task.world.forbidden:
        answers = [next(replies) for _ in functions]
        if not any(reply["value"] for reply in answers if reply["status"] == "ok"):
            reasons.append(f"forbidden: no rule forbids {each.name}({json.dumps(each.arguments)})")
    results: list[Any] = []
    for number, each in enumerate(task.world.actions, 1):
        asked = [next(replies) for _ in functions] if _writes(domain, each) else []
        reasons += [f"call {number}: a rule: {r['value']}" for r in asked if r["value"]]
        result = next(replies)
        results.append(result["value"])
        if result["status"] != "ok":
            reasons.append(f"call {number}: {each.name}: {result['status']}: {result['value']}")
    said = json.dumps(results, ensure_ascii=False).casefold()
    lost = [fact for fact in task.world.communicate if fact.strip().casefold() not in said]
    reasons += [f"communicate: {fact!r} is in no result of the calls" for fact in lost]
    if found[1] == found[-1] and not task.world.communicate:
        reasons.append("the calls change nothing and nothing is to be said: no-op would solve it")
    return TaskReplay("\n".join(reasons), found[-1], _entities(domain, task, results))


def _entities(domain: Domain, task: DomainTask, results: Sequence[Any]) -> tuple[str, ...]:
    objects = [*(each.arguments for each in task.world.actions), *results]
    values = [value for each in objects if isinstance(each, dict) for value in each.values()]
    found = [
        f"{table}/{value}"
        for value in values
        for table, records in domain.records.items()
        if isinstance(value, str) and value in records
    ]
    return tuple(dict.fromkeys(found))


async def _run(domain: Domain, operations: Sequence[Sequence[Any]]) -> list[Any] | str:
    try:
        async with Toolkit(domain) as toolkit:
            return await toolkit.request(operations)
    except ToolkitFailed as error:
        return str(error)
