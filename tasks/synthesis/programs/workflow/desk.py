"""A desk as a domain: its workflow as tables and as policy, its cases, its tools."""

import textwrap
from random import Random
from typing import Any

from tutti.tasks.synthesis.programs.base.declared import Declared
from tutti.tasks.synthesis.programs.base.people import NameMaker
from tutti.tasks.synthesis.programs.base.program import Tables
from tutti.tasks.synthesis.programs.workflow.flow import Flow
from tutti.tasks.synthesis.programs.workflow.forms import render
from tutti.tasks.synthesis.programs.workflow.themes import Theme

CASES, MORE_CASES, FEW_QUESTIONS = 100, 160, 2
"""A workflow with few questions has more cases: a case has a task for each way to answer, and 500
tasks are needed."""
CLOSED_EVERY = 12
MOVES = "cases.log cases.status cases.step"
"""The changes of each call that moves a case on."""


def build_records(rng: Random, theme: Theme, flow: Flow) -> Tables:
    """Return the tables of the workflow and its cases."""
    edges = {f"E{number}": edge for number, edge in enumerate(flow.edges, 1)}
    cases: dict[str, dict[str, Any]] = {}
    made = NameMaker(rng)
    questions = sum(step.kind == "ask" for step in flow.steps)
    count = CASES if questions > FEW_QUESTIONS else MORE_CASES
    stamps = rng.sample(range(10_000, 100_000), count)
    for number, stamp in enumerate(stamps):
        closed = number % CLOSED_EVERY == 0
        key = f"C{1001 + 7 * number}"
        cases[key] = {
            "case_id": key,
            "holder": f"{made.name()} {made.name()}",
            "stamp": stamp,
            "status": "closed" if closed else "open",
            "step": flow.steps[-1 if closed else 0].step_id,
            "log": ["closed by the old desk"] if closed else [],
        } | {
            check.finds: rng.choice(check.values)
            if check.values
            else rng.randint(check.least, check.most)
            for check in theme.checks
        }
    return {
        "steps": {step.step_id: dict(vars(step)) for step in flow.steps},
        "edges": {
            key: {"edge_id": key, **vars(edge), "values": list(edge.values)}
            for key, edge in edges.items()
        },
        "cases": cases,
    }


def named_tools(theme: Theme) -> str:
    """Return code with a function for each tool of a desk, which calls `note`, `check` or `act`."""
    parts = [
        (each.tool, ", answer: str", f"note(db, {each.tool!r}, case_id, answer)")
        for each in theme.questions
    ]
    for each in theme.checks:
        parts.append((each.tool, "", f"check(db, {each.tool!r}, {each.finds!r}, case_id)"))
    for done in theme.acts:
        parts.append((done.tool, "", f"act(db, {done.tool!r}, {done.code!r}, case_id)"))
    return "".join(
        f"\n\ndef {tool}(db: Database, case_id: str{more}) -> dict[str, Any]:\n    return {body}\n"
        for tool, more, body in parts
    )


def declared_for(declared: Declared, theme: Theme, flow: Flow, form: str) -> Declared:
    """Return the declaration of a desk, with its own case fields, tools and workflow."""
    fields = [
        {each.finds: {"one_of": each.values}}
        if each.values
        else {each.finds: {"kind": "integer", "least": each.least, "most": each.most}}
        for each in theme.checks
    ]
    tools: dict[str, dict[str, Any]] = {}
    for question in theme.questions:
        about = f"Write the user's answer about {question.finds} into the log."
        answer = f"one of {', '.join(map(repr, question.values))}"
        tools[question.tool] = {"about": about, "returns": "case_id noted"}
        tools[question.tool]["parameters"] = {"answer": answer}
    for each in theme.checks:
        about = f"Look {each.finds} up, and record the check in the log."
        tools[each.tool] = {"about": about, "returns": "case_id value"}
    for done in theme.acts:
        about = f"{done.words[0].upper()}{done.words[1:]}; gives the slip's number."
        tools[done.tool] = {"about": about, "returns": "case_id slip"}
    own = {
        "policy": theme.about,
        "tables": declared.tables | {"cases": [*declared.tables["cases"], *fields]},
        "tools": declared.tools
        | {name: {**each, "changes": MOVES} for name, each in tools.items()},
    }
    fence = "mermaid" if form == "mermaid" else "text"
    shown = textwrap.indent(f"```{fence}\n{render(flow, form)}\n```", "  ")
    return declared.model_copy(update=own).of_instance({"case": theme.case, "shown": shown})
