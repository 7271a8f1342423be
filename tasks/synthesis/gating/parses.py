"""Gate: all that a task names exists, and it asks for something."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tutti.tasks.synthesis.domains import (
    Action,
    Domain,
    DomainTask,
    Parameter,
    Scenario,
    changed_task,
    is_of_kind,
)
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.synthesis.gating.wording import leaves
from tutti.tasks.task_sets import Verdict, verdict

PLACEHOLDER = re.compile(
    r"\{\{.*?\}\}|\{[A-Za-z_]\w*\}|\$\{.*?\}|<[a-z]+(?:[_ ][a-z]+)*>|\[[A-Z]+(?:[_ ][A-Z]+)*\]"
    r"|\b(?:TODO|TBD|FIXME|XXX)\b|(?i:lorem ipsum)"
    r"|(?m:(?<=\S )(?<![.!?] )None\b(?! of\b)|^None$)|(?<=\S )(?:nan|NaN|undefined|null)\b"
)
"""What a template leaves where a value is missing. "None" may begin a sentence."""


@dataclass(frozen=True)
class _Names:
    """What a domain's tasks may name."""

    parameters: Mapping[str, Mapping[str, Parameter]]
    rules: frozenset[str]
    own_words: frozenset[str]
    """Placeholders that are values in this domain, as "None" is in a library's documentation."""


def _names(domain: Domain) -> _Names:
    parameters = {tool.name: {p.name: p for p in tool.parameters} for tool in domain.tools}
    texts = (leaf for leaf in leaves(domain.records) if isinstance(leaf, str))
    own = {found for text in texts for found in PLACEHOLDER.findall(f"a {text}")}
    return _Names(parameters, frozenset(rule.id for rule in domain.rules), frozenset(own))


class Parses:
    """Reads a task against its domain; runs nothing."""

    name = "parses"
    about = "Tools, arguments, rules and records that the task names exist, and it asks something."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """The first fault rejects a task."""
        names = context.fact(_names)
        return [verdict(next(_faults(task, context.domain, names), "")) for task in tasks]

    def examples(self) -> Examples:
        """A tool that is not there, a text for a number, an empty scenario, a slot unfilled."""
        unknown = Action(name="renew_loan", arguments={"loan_id": "L1"})
        typed = Action(name="extend_loan", arguments={"loan_id": "L1", "days": "7"})
        unfilled = EXTENDED.world.scenario.model_copy(update={"known": "Your name is {name}."})
        none = EXTENDED.world.scenario.model_copy(
            update={"reason": "None of your books is late.", "known": "Your name is Ada Long."}
        )
        bad = (
            {"actions": (unknown,)},
            {"actions": (typed,)},
            {"tools": ("find_member",)},
            {"actions": (), "communicate": ()},
            {"scenario": Scenario(reason=" ")},
            {"scenario": unfilled},
            {"rules": ("shortest",)},
            {"sources": ("members/M7",)},
        )
        good = (EXTENDED, LOOKED_UP, changed_task(EXTENDED, scenario=none))
        return Examples(
            good=[(EXAMPLE, task) for task in good],
            bad=[(EXAMPLE, changed_task(EXTENDED, **each)) for each in bad],
        )


def _faults(task: DomainTask, domain: Domain, names: _Names) -> Iterator[str]:
    if not task.world.scenario.reason.strip():
        yield "scenario.reason is empty"
    if not task.world.actions and not any(each.strip() for each in task.world.communicate):
        yield "nothing is asked: no golden call and nothing to communicate"
    yield from (
        f"tools: there is no tool {t!r}" for t in task.world.tools if t not in names.parameters
    )
    for kind, actions in (("call", task.world.actions), ("forbidden call", task.world.forbidden)):
        for number, action in enumerate(actions, 1):
            fault = _call_fault(action, task, names)
            if fault:
                yield f"{kind} {number}, {action.name}: {fault}"
    yield from (f"rules: there is no rule {r!r}" for r in task.world.rules if r not in names.rules)
    yield from _stray_records(task, domain)
    yield from _unfilled(task, names)


def _call_fault(action: Action, task: DomainTask, names: _Names) -> str:
    """What is wrong with a call's name or arguments; empty if nothing is."""
    if action.name not in names.parameters:
        return "there is no such tool"
    if task.world.tools and action.name not in task.world.tools:
        return "the tool is not offered"
    parameters = names.parameters[action.name]
    for name, value in action.arguments.items():
        if name not in parameters:
            return f"it has no parameter {name!r}"
        kind = parameters[name].kind
        if not is_of_kind(value, kind) and not (value is None and parameters[name].optional):
            return f"{name} is {value!r}, not of kind {kind}"
    missing = (p.name for p in parameters.values() if not p.optional)
    absent = next((name for name in missing if name not in action.arguments), None)
    return "" if absent is None else f"{absent} is missing"


def _stray_records(task: DomainTask, domain: Domain) -> Iterator[str]:
    for entity in task.sources:
        table, _, key = entity.partition("/")
        if key not in domain.records.get(table, {}):
            yield f"entities: there is no record {entity!r}"
    for table, keyed in task.world.changed.items():
        if table not in domain.records:
            yield f"changed: there is no table {table!r}"
            continue
        stray = next((key for key in keyed if key not in domain.records[table]), None)
        if stray is not None:
            yield f"changed: {table} has no record {stray!r}"


def _unfilled(task: DomainTask, names: _Names) -> Iterator[str]:
    scenario = task.world.scenario
    texts = {
        "reason": scenario.reason,
        "known": scenario.known,
        "unknown": scenario.unknown,
        "instructions": scenario.instructions,
        "persona": scenario.persona,
        "communicate": "\n".join(task.world.communicate),
    }
    for field, text in texts.items():
        found = PLACEHOLDER.search(text)
        if found and found.group() not in names.own_words:
            yield f"{field}: {found.group()!r} is left in the text"
    if any(not each.strip() for each in task.world.communicate):
        yield "communicate: a fact is empty"
    for action in task.world.actions:
        held = (leaf for leaf in leaves(action.arguments) if isinstance(leaf, str))
        found = next((f for text in held if (f := PLACEHOLDER.search(text))), None)
        if found and found.group() not in names.own_words:
            yield f"{action.name}: {found.group()!r} is left in an argument"
