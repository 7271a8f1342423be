"""Gate: tools match their descriptions.

For every tool offered: its parameters are its function's. Each name with an underscore or between
backticks in its texts exists (a tool, parameter, table, field, rule or choice). Its verb fits its
kind: a WRITE whose text begins with a verb of `LOOKS` also has one of `CHANGES`, and a READ or
GENERIC does not begin with one of `ALTERS`.

For the golden calls: READ and GENERIC change nothing; a WRITE changes something, and only as
declared; a result has the declared keys.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tutti.tasks.synthesis.domains import Domain, DomainTask, Result, ToolSpec
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.task_sets import Verdict, verdict

LOOKS = frozenset(
    "look looks find finds get gets list lists show shows search searches read reads "
    "fetch fetches view views retrieve retrieves display displays count counts inspect "
    "inspects browse browses query queries".split()
)
"""Verbs of a READ only."""
ALTERS = frozenset(
    "cancel cancels delete deletes erase erases update updates modify modifies overwrite "
    "overwrites refund refunds insert inserts rename renames book books reserve reserves".split()
)
"""Verbs of a WRITE only. Others may mean a result, as "add" of two numbers does."""
CHANGES = ALTERS | frozenset(
    "add adds remove removes set sets change changes move moves transfer transfers pay "
    "pays send sends extend extends renew renews give gives create creates open opens "
    "close closes exchange exchanges replace replaces return returns assign assigns mark "
    "marks record records store stores register registers submit submits approve approves "
    "reject rejects freeze freezes block blocks lock locks place places order orders edit "
    "edits put puts start starts finish finishes complete completes advance advances lend "
    "lends apply applies make makes write writes save saves increase increases decrease "
    "decreases raise raises lower lowers".split()
)
"""Verbs that a WRITE may have beside one of `LOOKS`."""
LEADING = frozenset("this the a an tool function it will can to".split())
"""Words before the first verb."""
WORD = re.compile(r"[a-z]+")
IDENTIFIER = re.compile(r"`([A-Za-z_]\w*)`|\b([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b")


async def judge_described(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
    """Check tools once per domain, and golden calls in each task. Raises LookupError for a task
    that was not replayed, ToolkitFailed."""
    if _tool_faults not in context.facts:
        context.facts[_tool_faults] = await _tool_faults(context)
    faults: Mapping[str, str] = context.facts[_tool_faults]
    return [verdict(_fault(task, context, faults)) for task in tasks]


async def _tool_faults(context: GateContext) -> dict[str, str]:
    """Return the first fault of each tool itself; tools without one are left out."""
    tools, known = context.domain.tools, _identifiers(context.domain)
    replies = await context.toolkit.request([["signature", tool.name] for tool in tools])
    pairs = zip(tools, replies, strict=True)
    faults = {tool.name: next(_spec_faults(tool, reply, known), "") for tool, reply in pairs}
    return {name: fault for name, fault in faults.items() if fault}


def _identifiers(domain: Domain) -> frozenset[str]:
    names = {domain.name, *(tool.name for tool in domain.tools), *(r.id for r in domain.rules)}
    names |= {each.name for tool in domain.tools for each in tool.parameters}
    names |= {name for tool in domain.tools for name in tool.returns}
    for table in domain.tables:
        names |= {table.name, *(each.name for each in table.fields)}
        names |= {choice for each in table.fields for choice in each.one_of}
    return frozenset(names)


def _spec_faults(tool: ToolSpec, reply: Mapping[str, Any], known: frozenset[str]) -> Iterator[str]:
    """The faults of a tool. `reply`: its function's parameters."""
    if reply["status"] != "ok":
        yield str(reply["value"])
        return
    taken = dict(reply["value"])
    declared = {each.name: each.optional for each in tool.parameters}
    if taken.keys() != declared.keys():
        yield f"it declares the parameters {sorted(declared)}, its function takes {sorted(taken)}"
    for name, optional in declared.items():
        if optional and not taken.get(name):
            yield f"{name} is declared optional, its function needs it"
    for text in (tool.about, *(each.about for each in tool.parameters)):
        for name in ("".join(either) for either in IDENTIFIER.findall(text)):
            # One with a digit is an example of a value, as `order_17` is.
            if name not in known and not any(c.isdigit() for c in name):
                yield f"its description names {name!r}, which is nothing here"
    words = WORD.findall(tool.about.lower())
    first = next((word for word in words if word not in LEADING), "")
    if tool.kind == "WRITE" and first in LOOKS and not CHANGES & set(words[1:]):
        yield f"it changes {', '.join(tool.changes)} and says that it would {first!r}"
    if tool.kind != "WRITE" and first in ALTERS:
        yield f"it is {tool.kind} and says that it would {first!r}"


def _fault(task: DomainTask, context: GateContext, faults: Mapping[str, str]) -> str:
    for tool in context.domain.offered(task) if faults else ():
        if tool.name in faults:
            return f"{tool.name}: {faults[tool.name]}"
    replay, named = context.replay(task), context.domain.tool_named
    calls = zip(task.world.actions, replay.results, strict=True)
    for number, (action, result) in enumerate(calls, 1):
        spec = named.get(action.name)
        fault = next(_call_faults(spec, result), "") if spec is not None else ""
        if fault:
            return f"call {number}, {action.name}: {fault}"
    return ""


def _call_faults(tool: ToolSpec, result: Result) -> Iterator[str]:
    if result.status != "ok":
        return  # for `executes` to say
    if tool.kind != "WRITE" and result.changes:
        yield f"it is {tool.kind} and changed {', '.join(result.changes)}"
    elif tool.kind == "WRITE" and not result.changes:
        yield "it is a WRITE and changed nothing"
    undeclared = sorted(set(result.changes) - set(tool.changes))
    if undeclared:
        yield f"it changed {', '.join(undeclared)}, which it does not declare"
    if not tool.returns or result.value is None:
        return
    objects = result.value if isinstance(result.value, list) else [result.value]
    for each in objects:
        if not isinstance(each, dict):
            yield f"it declares keys and returned {str(each)[:40]!r}"
        elif each.keys() != set(tool.returns):
            differing = sorted(each.keys() ^ set(tool.returns))
            yield f"declared and returned keys differ in {', '.join(differing)}"
