"""A desk as a domain: its workflow as tables and as policy, its cases, its tools."""

import textwrap
from pathlib import Path
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import Domain, FieldSpec, Parameter, Rule, TableSpec, ToolSpec
from tutti.tasks.synthesis.programs.invented import NameMaker
from tutti.tasks.synthesis.programs.workflow.flow import Flow
from tutti.tasks.synthesis.programs.workflow.forms import FORMS, render
from tutti.tasks.synthesis.programs.workflow.themes import THEMES, Check, Theme

TOOLKIT = Path(__file__).with_name("toolkit.py")
CASES, MORE_CASES, FEW_QUESTIONS = 100, 160, 2
"""Of a workflow that asks little, more cases: a case has a task for each way to answer, and these
give 500 tasks whatever is drawn."""
CLOSED_EVERY = 12
Tables = dict[str, dict[str, dict[str, Any]]]


def theme_named(name: str) -> Theme:
    """The theme with a name."""
    return next(each for each in THEMES if each.name == name)


def build_desk(rng: Random, theme: Theme, flow: Flow, form: int, lineage: dict[str, Any]) -> Domain:
    """An instance as a domain; `form` is the place in `FORMS` of the policy's form."""
    records: Tables = {"steps": _steps(flow), "edges": _edges(flow), "cases": {}}
    made = NameMaker(rng)
    questions = sum(step.kind == "ask" for step in flow.steps)
    cases = CASES if questions > FEW_QUESTIONS else MORE_CASES
    stamps = rng.sample(range(10_000, 100_000), cases)
    for number, stamp in enumerate(stamps):
        closed = number % CLOSED_EVERY == 0
        key = f"C{1001 + 7 * number}"
        records["cases"][key] = {
            "case_id": key,
            "holder": f"{made.name()} {made.name()}",
            "stamp": stamp,
            "status": "closed" if closed else "open",
            "step": flow.steps[-1 if closed else 0].step_id,
            "log": ["closed by the old desk"] if closed else [],
        } | {each.field: _value(rng, each) for each in theme.checks}
    return Domain(
        name=theme.name,
        about=theme.about,
        tables=_tables(theme),
        records=records,
        toolkit=TOOLKIT.read_text() + _named_tools(theme),
        tools=(*_reading(theme), *_writing(theme)),
        rules=_rules(theme, flow, FORMS[form]),
        lineage=lineage,
    )


def _value(rng: Random, check: Check) -> str | int:
    return rng.choice(check.values) if check.values else rng.randint(check.least, check.most)


def _steps(flow: Flow) -> dict[str, dict[str, Any]]:
    return {
        each.step_id: {
            "step_id": each.step_id,
            "kind": each.kind,
            "tool": each.tool,
            "finds": each.field,
        }
        for each in flow.steps
    }


def _edges(flow: Flow) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for number, edge in enumerate(flow.edges, 1):
        found[f"E{number}"] = {
            "edge_id": f"E{number}",
            "source": edge.source,
            "target": edge.target,
            "values": list(edge.values),
            "least": edge.least,
            "most": edge.most,
        }
    return found


def _named_tools(theme: Theme) -> str:
    """A function for each tool of a desk, over `note`, `check` and `act`."""
    parts = []
    for question in theme.questions:
        head = f"def {question.tool}(db: Database, case_id: str, answer: str) -> dict[str, Any]:"
        parts.append(f"{head}\n    return note(db, {question.tool!r}, case_id, answer)\n")
    for each in theme.checks:
        head = f"def {each.tool}(db: Database, case_id: str) -> dict[str, Any]:"
        parts.append(f"{head}\n    return check(db, {each.tool!r}, {each.field!r}, case_id)\n")
    for done in (*theme.between, *theme.closing):
        head = f"def {done.tool}(db: Database, case_id: str) -> dict[str, Any]:"
        parts.append(f"{head}\n    return act(db, {done.tool!r}, {done.code!r}, case_id)\n")
    return "".join(f"\n\n{part}" for part in parts)


def _tables(theme: Theme) -> tuple[TableSpec, ...]:
    steps = (
        FieldSpec(name="step_id", kind="text"),
        FieldSpec(name="kind", kind="text", one_of=("ask", "check", "act", "end")),
        FieldSpec(name="tool", kind="text"),
        FieldSpec(name="finds", kind="text"),
    )
    edges = (
        FieldSpec(name="edge_id", kind="text"),
        FieldSpec(name="source", kind="text", refers_to="steps"),
        FieldSpec(name="target", kind="text", refers_to="steps"),
        FieldSpec(name="values", kind="texts"),
        FieldSpec(name="least", kind="integer", optional=True),
        FieldSpec(name="most", kind="integer", optional=True),
    )
    cases = (
        FieldSpec(name="case_id", kind="text"),
        FieldSpec(name="holder", kind="text"),
        FieldSpec(name="stamp", kind="integer", about="of the numbers of its slips"),
        FieldSpec(name="status", kind="text", one_of=("open", "closed")),
        FieldSpec(name="step", kind="text", refers_to="steps"),
        FieldSpec(name="log", kind="texts"),
        *(
            FieldSpec(name=each.field, kind="text", one_of=each.values)
            if each.values
            else FieldSpec(name=each.field, kind="integer", least=each.least, most=each.most)
            for each in theme.checks
        ),
    )
    return (
        TableSpec(name="steps", key="step_id", about="the workflow's nodes", fields=steps),
        TableSpec(name="edges", key="edge_id", about="the workflow's edges", fields=edges),
        TableSpec(name="cases", key="case_id", about=f"each a {theme.case}", fields=cases),
    )


_MOVES = ("cases.log", "cases.status", "cases.step")


def _writing(theme: Theme) -> tuple[ToolSpec, ...]:
    case = Parameter(name="case_id", kind="text", about=f"the number of the {theme.case}")
    tools: list[tuple[str, str, tuple[Parameter, ...], tuple[str, ...]]] = []
    for question in theme.questions:
        values = ", ".join(repr(value) for value in question.values)
        answer = Parameter(name="answer", kind="text", about=f"one of {values}")
        about = f"Write the user's answer about {question.topic} into the log."
        tools.append((question.tool, about, (case, answer), ("case_id", "noted")))
    for each in theme.checks:
        about = f"Look {each.field} up, and record the check in the log."
        tools.append((each.tool, about, (case,), ("case_id", "value")))
    for done in (*theme.between, *theme.closing):
        about = f"{done.words[0].upper()}{done.words[1:]}; gives the slip's number."
        tools.append((done.tool, about, (case,), ("case_id", "slip")))
    return tuple(
        ToolSpec(
            name=name, kind="WRITE", about=about, parameters=given, changes=_MOVES, returns=keys
        )
        for name, about, given, keys in tools
    )


def _reading(theme: Theme) -> tuple[ToolSpec, ...]:
    return (
        ToolSpec(
            name="get_case",
            kind="READ",
            about=f"See a {theme.case}: its holder, status, log and the step that comes next.",
            parameters=(Parameter(name="case_id", kind="text", about="its number"),),
            returns=("case_id", "holder", "status", "step", "log"),
        ),
        ToolSpec(
            name="find_cases",
            kind="READ",
            about="The numbers of a person's cases.",
            parameters=(Parameter(name="holder", kind="text", about="the whole name"),),
            returns=("holder", "cases"),
        ),
        ToolSpec(
            name="count_cases",
            kind="READ",
            about="How many cases have a status.",
            parameters=(Parameter(name="status", kind="text", about="open or closed"),),
            returns=("status", "count"),
        ),
    )


def _rules(theme: Theme, flow: Flow, form: str) -> tuple[Rule, ...]:
    fence = "mermaid" if form == "mermaid" else "text"
    shown = textwrap.indent(f"```{fence}\n{render(flow, form)}\n```", "  ")
    return (
        Rule(
            id="workflow",
            text=f"Take each {theme.case} through this workflow, from the step that `get_case` "
            "shows; make no call that is not the step's, and leave no step out:\n\n" + shown,
            function="in_order_only",
        ),
        Rule(
            id="answers",
            text="Write the user's answers down in the workflow's words, one that it knows.",
            function="listed_answers_only",
        ),
        Rule(id="closed", text="Nothing is done to a closed case.", function="open_cases_only"),
        Rule(id="slip", text="At the end, tell the user the number of the last slip."),
    )
