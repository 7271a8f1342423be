"""Workflow desks: one executable graph, shown in the policy as text, pseudo-code or Mermaid."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

from tutti.tasks.agents import Oracle, ToolUse
from tutti.tasks.synthesis.domains import Domain, DomainTask
from tutti.tasks.synthesis.programs.drawing import take_turns, told_by
from tutti.tasks.synthesis.programs.program import Knob, Knobs
from tutti.tasks.synthesis.programs.workflow.desk import build_desk
from tutti.tasks.synthesis.programs.workflow.flow import Drawer, Edge, Flow, Step
from tutti.tasks.synthesis.programs.workflow.forms import parse
from tutti.tasks.synthesis.programs.workflow.templates import HELD_OUT, TEMPLATES, Visitor
from tutti.tasks.synthesis.programs.workflow.themes import THEMES


class Workflow:
    """A desk whose rules forbid each call that is not the workflow's next for a case. Where a case
    is brought further by checks too, they are WRITE tools: each is entered in the case's log."""

    name = "workflow"
    version = "2"
    about = "desks that work by a workflow graph, after the idea of FlowBench"
    knobs: Mapping[str, Knob] = {
        "depth": Knob(4, 1, 5, "decisions on the longest path"),
        "branches": Knob(2, 2, 3, "edges that lead on from a decision"),
        "distractors": Knob(2, 0, 6, "tools offered that the workflow does not use"),
        "form": Knob(0, 0, 2, "of the workflow in the policy: 0 text, 1 pseudo-code, 2 Mermaid"),
    }
    held_out = HELD_OUT

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """A desk with a workflow of its own and its cases."""
        theme = rng.choice(THEMES)
        flow = Drawer(rng, theme, knobs["branches"]).draw(knobs["depth"])
        lineage = {"program": self.name, "version": self.version, "knobs": dict(knobs)}
        return build_desk(rng, theme, flow, knobs["form"], lineage)

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """Users of all templates by turns."""
        visitor = Visitor(domain, flow_of(domain), rng, knobs)
        draws = {template: partial(visitor.draw, template) for template in TEMPLATES}
        # Who insists on another end is given the same as who does not.
        return take_turns(draws, told_by(domain), alike={"insist": "resolve"})

    def solve(self, task: DomainTask) -> Oracle:
        """Follow the workflow as the policy shows it: its text is read back and walked through."""
        flow = parse(task.slots["workflow"], task.slots["form"])
        answers = dict(each.split("=") for each in task.slots["answers"].split(";") if each)
        case = {"case_id": task.slots["case"]}
        place = _object((yield ToolUse("get_case", case)))["step"]
        slip = ""
        while (step := flow.step(place)).kind != "end":
            given = {"answer": answers[step.field]} if step.kind == "ask" else {}
            result = _object((yield ToolUse(step.tool, case | given)))
            slip = result.get("slip", slip)
            place = flow.after(place, result.get("value", given.get("answer"))).step_id
        return f"That is done; the number of your slip is {slip}."


def flow_of(domain: Domain) -> Flow:
    """The workflow in a domain's tables."""
    steps = domain.records["steps"].values()
    edges = domain.records["edges"].values()
    return Flow(
        tuple(Step(s["step_id"], s["kind"], s["tool"], s["finds"]) for s in steps),
        tuple(
            Edge(e["source"], e["target"], tuple(e["values"]), e["least"], e["most"]) for e in edges
        ),
    )


def _object(text: str) -> dict[str, Any]:
    """A result's object. Raises LookupError for an error's text."""
    if text.startswith("error:"):
        raise LookupError(text)
    found: dict[str, Any] = json.loads(text)
    return found


WORKFLOW = Workflow()
