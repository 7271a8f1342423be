"""The users of a desk: each has an open case and answers, which decide the path of the workflow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import Action, Domain, DomainSpec, DomainTask, Scenario
from tutti.tasks.synthesis.programs.base.program import (
    Knobs,
    call,
    offered_tools,
    shared_split,
    split_of,
)
from tutti.tasks.synthesis.programs.workflow.flow import Flow, Step, Value
from tutti.tasks.synthesis.programs.workflow.forms import FORMS, render
from tutti.tasks.synthesis.programs.workflow.themes import Act, themes

HELD_OUT = frozenset({"resume"})
TEMPLATES = ("resolve", "insist", "resume")
HOPES = (
    "You expect the desk to {}.",
    "You insist that they {}.",
    "A friend told you that they always {}, so you ask for it.",
)
EAGERNESS = (
    "Answer what you are asked, in the words above.",
    "Say only what you are asked for; keep to the words above.",
    "You are short of time; answer in the words above.",
)


@dataclass(frozen=True)
class Visit:
    """A user's case and its path through the workflow."""

    case: Mapping[str, Any]
    answers: Mapping[str, str]
    """The answers that the path asks for, by topic."""
    path: Sequence[Step]
    done: int = 0
    """The number of steps that were done before."""

    @property
    def case_id(self) -> str:
        """The id of the case."""
        return str(self.case["case_id"])

    def action(self, step: Step) -> Action:
        """Return the call of a step."""
        answer = {"answer": self.answers[step.finds]} if step.kind == "ask" else {}
        return call(step.tool, case_id=self.case_id, **answer)


class Visitor:
    """Draws users of an instance and writes their tasks."""

    def __init__(self, domain: Domain, flow: Flow, rng: Random, knobs: Knobs) -> None:
        self.domain, self.flow, self.rng, self.knobs = domain, flow, rng, knobs
        self.theme = next(each for each in themes() if each.name == domain.name)
        self.acts = {each.tool: each for each in self.theme.acts}
        tools = {step.tool for step in flow.steps}
        self.closing = [act for act in self.theme.closing if act.tool in tools]
        """The acts that close a case in this workflow."""
        self.form = FORMS[knobs["form"]]
        self.shown = render(flow, self.form)
        cases = domain.records["cases"]
        self._open = [each for each in cases.values() if each["status"] == "open"]
        self._closed = [key for key, each in cases.items() if each["status"] == "closed"]
        self._later = [e for e in self._open if split_of(f"cases/{e['case_id']}") == "test"]

    def draw(self, template: str) -> DomainTask | None:
        """Return a candidate of a template."""
        visit = self._visit(template)
        entity = f"cases/{visit.case_id}"
        split = shared_split(template, (entity,), HELD_OUT)
        if split is None:
            return None
        last = self.acts[visit.path[-1].tool]
        others = [act for act in self.closing if act.tool != last.tool]
        hope = self.rng.choice(others) if template == "insist" and others else None
        if template == "insist" and hope is None:
            return None
        ahead = [visit.action(step) for step in visit.path[visit.done :]]
        needed = ["get_case", *(step.tool for step in self.flow.steps if step.tool)]
        spare = [each.name for each in self.domain.tools if each.name not in needed]
        tools = offered_tools(self.domain, needed, self.knobs["distractors"], spare)
        return DomainTask(
            family=self.domain.name,
            template=template,
            split=split,
            sources=(entity,),
            difficulty={
                "depth": sum(step.kind in ("ask", "check") for step in visit.path),
                "branches": self.knobs["branches"],
                "distractors": self.knobs["distractors"],
                "tools": len(tools),
                "steps": len(ahead),
            },
            slots={
                "case": visit.case_id,
                "answers": ";".join(f"{topic}={said}" for topic, said in visit.answers.items()),
                "form": self.form,
                "workflow": self.shown,
            },
            world=DomainSpec(
                domain=self.domain.domain_id,
                scenario=self._scenario(visit, hope),
                actions=(call("get_case", case_id=visit.case_id), *ahead),
                communicate=(self._slip(last.tool, visit.case),),
                rules=("workflow", "slip"),
                forbidden=self._forbidden(visit, hope),
                tools=tools,
                changed=self._changed(visit),
            ),
        )

    def _visit(self, template: str) -> Visit:
        rng = self.rng
        case = rng.choice(self._later if template == "resume" else self._open)
        known: dict[str, Value] = {c.finds: case[c.finds] for c in self.theme.checks}
        said = {q.finds: rng.choice(q.values) for q in self.theme.questions}
        path = self.flow.walk({**known, **said})
        answers = {step.finds: said[step.finds] for step in path if step.kind == "ask"}
        done = rng.randint(1, len(path) - 1) if template == "resume" else 0
        return Visit(case, answers, path, done)

    def _slip(self, tool: str, case: Mapping[str, Any]) -> str:
        return f"{self.acts[tool].code}-{case['stamp']}"

    def _changed(self, visit: Visit) -> dict[str, dict[str, dict[str, Any]]]:
        if not visit.done:
            return {}
        known = {**visit.case, **visit.answers}
        log = [
            f"{step.tool}: {known[step.finds] if step.finds else self._slip(step.tool, known)}"
            for step in visit.path[: visit.done]
        ]
        fields = {"log": log, "step": visit.path[visit.done].step_id}
        return {"cases": {visit.case["case_id"]: fields}}

    def _forbidden(self, visit: Visit, hope: Act | None) -> tuple[Action, ...]:
        """Return forbidden calls: another end, an answer unknown to the workflow, a closed case."""
        step = visit.path[visit.done]
        ends = [act.tool for act in self.closing if act.tool != step.tool]
        early = [hope.tool] if hope else ends[:1]
        found = [call(tool, case_id=visit.case_id) for tool in early]
        if step.kind == "ask":
            found.append(call(step.tool, case_id=visit.case_id, answer="unsure"))
        found.append(call(self.closing[0].tool, case_id=self.rng.choice(self._closed)))
        return tuple(found)

    def _scenario(self, visit: Visit, hope: Act | None) -> Scenario:
        rng = self.rng
        said = {q.finds: q for q in self.theme.questions}
        words = [said[topic].said.format(value) for topic, value in visit.answers.items()]
        idle = [q for q in self.theme.questions if q.finds not in visit.answers]
        words += [
            q.said.format(rng.choice(q.values)) for q in idle[: self.knobs["distractors"] // 2]
        ]
        rng.shuffle(words)
        reason = rng.choice(self.theme.reasons).format(visit.case["case_id"])
        if visit.done:
            reason += " The line broke when you called before, and you call again to go on."
        if hope:
            reason += " " + rng.choice(HOPES).format(hope.words)
        return Scenario(
            reason=reason,
            known=" ".join(words),
            instructions=rng.choice(EAGERNESS) + " Ask for the number of the slip at the end.",
        )
