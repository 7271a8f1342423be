"""Workflow desks: one executable graph, written in the policy as text, pseudo-code or Mermaid."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Domain, DomainTask
from tutti.tasks.synthesis.programs.base.declared import DeclaredProgram
from tutti.tasks.synthesis.programs.base.program import Knob, Knobs, take_turns, told_by, use
from tutti.tasks.synthesis.programs.workflow.desk import build_records, declared_for, named_tools
from tutti.tasks.synthesis.programs.workflow.flow import Drawer, Edge, Flow, Step
from tutti.tasks.synthesis.programs.workflow.forms import FORMS, parse
from tutti.tasks.synthesis.programs.workflow.templates import HELD_OUT, TEMPLATES, Visitor
from tutti.tasks.synthesis.programs.workflow.themes import themes


class Workflow(DeclaredProgram):
    """A desk whose rules forbid each call that is not the workflow's next for a case. If checks
    also advance a case, they are WRITE tools, and each is entered in the case's log."""

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
    folder = Path(__file__).parent

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """Return a desk with a workflow of its own and its cases."""
        theme = rng.choice(themes())
        flow = Drawer(rng, theme, knobs["branches"]).draw(knobs["depth"])
        declared = declared_for(self.declared, theme, flow, FORMS[knobs["form"]])
        records, code = build_records(rng, theme, flow), self.toolkit + named_tools(theme)
        return self.domain(knobs, records, declared, code).model_copy(update={"name": theme.name})

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """Yield tasks of users, alternating between all templates."""
        visitor = Visitor(domain, flow_of(domain), rng, knobs)
        draws = {template: partial(visitor.draw, template) for template in TEMPLATES}
        # Who insists on another end is given the same as who does not.
        return take_turns(draws, told_by(domain), alike=("insist", "resolve"))

    def solve(self, task: DomainTask) -> Oracle:
        """Follow the workflow as the policy shows it: its text is parsed and followed."""
        flow = parse(task.slots["workflow"], task.slots["form"])
        answers = dict(each.split("=") for each in task.slots["answers"].split(";") if each)
        case = {"case_id": task.slots["case"]}
        place = (yield from use("get_case", **case))["step"]
        slip = ""
        while (step := flow.step(place)).kind != "end":
            given = {"answer": answers[step.finds]} if step.kind == "ask" else {}
            result = yield from use(step.tool, **case, **given)
            slip = result.get("slip", slip)
            place = flow.after(place, result.get("value", given.get("answer"))).step_id
        return f"That is done; the number of your slip is {slip}."


def flow_of(domain: Domain) -> Flow:
    """Return the workflow in a domain's tables."""
    steps, edges = (domain.records[table].values() for table in ("steps", "edges"))
    return Flow(
        tuple(Step(**step) for step in steps),
        tuple(
            Edge(e["source"], e["target"], tuple(e["values"]), e["least"], e["most"]) for e in edges
        ),
    )
