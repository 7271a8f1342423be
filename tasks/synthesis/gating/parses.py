"""Gates that read a task against its domain and run nothing: `parses` and `records`."""

import re
from collections.abc import Iterator

from tutti.tasks.synthesis.domains import (
    Action,
    Domain,
    DomainTask,
    Parameter,
    RecordChecks,
    is_of_kind,
)
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.gating.wording import leaves

PLACEHOLDER = re.compile(
    r"\{\{.*?\}\}|\{[A-Za-z_]\w*\}|\$\{.*?\}|<[a-z]+(?:[_ ][a-z]+)*>|\[[A-Z]+(?:[_ ][A-Z]+)*\]"
    r"|\b(?:TODO|TBD|FIXME|XXX)\b|(?i:lorem ipsum)"
    r"|(?m:(?<=\S )(?<![.!?] )None\b(?! of\b)|^None$)|(?<=\S )(?:nan|NaN|undefined|null)\b"
)
"""Text that stands where a value is missing. "None" may begin a sentence."""


def record_fault(task: DomainTask, context: GateContext) -> str:
    """Return why the domain's records, or those that the task changes, do not fit its tables."""
    checks = context.fact(RecordChecks)
    return checks.fault or checks.changed_fault(task.world.changed)


def parse_fault(task: DomainTask, context: GateContext) -> str:
    """Return the first name of a task that does not exist in its domain, or what the task lacks."""
    return next(_faults(task, context), "")


def _faults(task: DomainTask, context: GateContext) -> Iterator[str]:
    world, parameters = task.world, context.fact(_parameters)
    if not world.scenario.reason.strip():
        yield "scenario.reason is empty"
    if not world.actions and not any(each.strip() for each in world.communicate):
        yield "nothing is asked: no golden call and nothing to communicate"
    yield from (f"tools: there is no tool {t!r}" for t in world.tools if t not in parameters)
    for kind, actions in (("call", world.actions), ("forbidden call", world.forbidden)):
        for number, action in enumerate(actions, 1):
            if world.tools and action.name in parameters and action.name not in world.tools:
                yield f"{kind} {number}, {action.name}: the tool is not offered"
            if fault := _call_fault(action, parameters.get(action.name)):
                yield f"{kind} {number}, {action.name}: {fault}"
    rules = {rule.id for rule in context.domain.rules}
    yield from (f"rules: there is no rule {r!r}" for r in world.rules if r not in rules)
    yield from _stray_records(task, context.domain)
    yield from _unfilled(task, context.fact(_own_words))


def _parameters(domain: Domain) -> dict[str, dict[str, Parameter]]:
    return {tool.name: {p.name: p for p in tool.parameters} for tool in domain.tools}


def _own_words(domain: Domain) -> frozenset[str]:
    """Placeholders that are values in this domain, as "None" is in a library's documentation."""
    texts = (leaf for leaf in leaves(domain.records) if isinstance(leaf, str))
    return frozenset(found for text in texts for found in PLACEHOLDER.findall(f"a {text}"))


def _call_fault(action: Action, parameters: dict[str, Parameter] | None) -> str:
    """The fault of a call's name or arguments; empty if there is none."""
    if parameters is None:
        return "there is no such tool"
    for name, value in action.arguments.items():
        if name not in parameters:
            return f"it has no parameter {name!r}"
        kind = parameters[name].kind
        if not is_of_kind(value, kind) and not (value is None and parameters[name].optional):
            return f"{name} is {value!r}, not of kind {kind}"
    missing = (name for name, each in parameters.items() if not each.optional)
    absent = next((name for name in missing if name not in action.arguments), None)
    return "" if absent is None else f"{absent} is missing"


def _stray_records(task: DomainTask, domain: Domain) -> Iterator[str]:
    for entity in task.sources:
        table, _, key = entity.partition("/")
        if key not in domain.records.get(table, {}):
            yield f"entities: there is no record {entity!r}"
    for table, keyed in task.world.changed.items():
        known = domain.records.get(table)
        if known is None:
            yield f"changed: there is no table {table!r}"
        else:
            strays = (key for key in keyed if key not in known)
            yield from (f"changed: {table} has no record {key!r}" for key in strays)


def _unfilled(task: DomainTask, own_words: frozenset[str]) -> Iterator[str]:
    texts = [*task.world.scenario, ("communicate", "\n".join(task.world.communicate))]
    for field, text in texts:
        found = PLACEHOLDER.search(text)
        if found and found.group() not in own_words:
            yield f"{field}: {found.group()!r} is left in the text"
    if any(not each.strip() for each in task.world.communicate):
        yield "communicate: a fact is empty"
    for action in task.world.actions:
        texts_in = (leaf for leaf in leaves(action.arguments) if isinstance(leaf, str))
        found = next(filter(None, map(PLACEHOLDER.search, texts_in)), None)
        if found and found.group() not in own_words:
            yield f"{action.name}: {found.group()!r} is left in an argument"
