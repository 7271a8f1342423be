"""The users of a desk: each has an open case and answers, which decide the path of the workflow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import Action, Domain, DomainSpec, DomainTask, Scenario
from tutti.tasks.synthesis.programs.program import (
    Knobs,
    call,
    offered_tools,
    shared_split,
    split_of,
)
from tutti.tasks.synthesis.programs.workflow.flow import Flow, Step, Value
from tutti.tasks.synthesis.programs.workflow.forms import FORMS, render
from tutti.tasks.synthesis.programs.workflow.themes import Act, Theme, themes

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
    """A user, the case and its path."""

    case: Mapping[str, Any]
    answers: Mapping[str, str]
    """By topic, those that the path asks for."""
    path: Sequence[Step]
    done: int = 0
    """How many steps were done before."""


@dataclass
class Visitor:
    """Draws users of an instance."""

    domain: Domain
    flow: Flow
    rng: Random
    knobs: Knobs
    theme: Theme = field(init=False)
    acts: dict[str, Act] = field(init=False)

    def __post_init__(self) -> None:
        self.theme = next(each for each in themes() if each.name == self.domain.name)
        self.acts = {each.tool: each for each in self.theme.acts}
        self.form = FORMS[self.knobs["form"]]
        self.shown = render(self.flow, self.form)
        cases = self.domain.records["cases"]
        self._open = [each for each in cases.values() if each["status"] == "open"]
        self._closed = [key for key, each in cases.items() if each["status"] == "closed"]
        self._later = [e for e in self._open if split_of(f"cases/{e['case_id']}") == "test"]

    def draw(self, template: str) -> DomainTask | None:
        """A candidate of a template."""
        visit = self._visit(template)
        entity = f"cases/{visit.case['case_id']}" if visit else ""
        split = shared_split(template, (entity,), HELD_OUT) if visit else None
        if visit is None or split is None:
            return None
        case = str(visit.case["case_id"])
        last = self.acts[visit.path[-1].tool]
        others = [act for act in self._closing if act.tool != last.tool]
        hope = self.rng.choice(others) if template == "insist" and others else None
        if template == "insist" and hope is None:
            return None
        ahead = [self._call(step, visit) for step in visit.path[visit.done :]]
        tools = self._offered()
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
                "case": case,
                "answers": ";".join(f"{topic}={said}" for topic, said in visit.answers.items()),
                "form": self.form,
                "workflow": self.shown,
            },
            world=DomainSpec(
                domain=self.domain.domain_id,
                scenario=self._scenario(visit, hope),
                actions=(call("get_case", case_id=case), *ahead),
                communicate=(self._slip(last.tool, visit.case),),
                rules=("workflow", "slip"),
                forbidden=self._forbidden(visit, hope),
                tools=tools,
                changed=self._changed(visit),
            ),
        )

    def _visit(self, template: str) -> Visit | None:
        rng = self.rng
        case = rng.choice(self._later if template == "resume" else self._open)
        known: dict[str, Value] = {c.finds: case[c.finds] for c in self.theme.checks}
        said = {q.finds: rng.choice(q.values) for q in self.theme.questions}
        path = self.flow.walk({**known, **said})
        answers = {step.finds: said[step.finds] for step in path if step.kind == "ask"}
        if template != "resume":
            return Visit(case, answers, path)
        return Visit(case, answers, path, rng.randint(1, len(path) - 1))

    @property
    def _closing(self) -> list[Act]:
        """What closes a case in this workflow."""
        tools = {step.tool for step in self.flow.steps}
        return [act for act in self.theme.closing if act.tool in tools]

    def _call(self, step: Step, visit: Visit) -> Action:
        arguments: dict[str, Any] = {"case_id": visit.case["case_id"]}
        if step.kind == "ask":
            arguments["answer"] = visit.answers[step.finds]
        return Action(name=step.tool, arguments=arguments)

    def _slip(self, tool: str, case: Mapping[str, Any]) -> str:
        return f"{self.acts[tool].code}-{case['stamp']}"

    def _changed(self, visit: Visit) -> dict[str, dict[str, dict[str, Any]]]:
        """The case as the steps done before left it."""
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
        """Another end, an answer that the workflow does not know, a case that is closed."""
        case, now = {"case_id": visit.case["case_id"]}, visit.path[visit.done].tool
        ends = [act.tool for act in self._closing if act.tool != now]
        early = [hope.tool] if hope else ends[:1]
        found = [Action(name=tool, arguments=dict(case)) for tool in early]
        if visit.path[visit.done].kind == "ask":
            found.append(Action(name=now, arguments={**case, "answer": "unsure"}))
        closed = {"case_id": self.rng.choice(self._closed)}
        found.append(Action(name=self._closing[0].tool, arguments=closed))
        return tuple(found)

    def _offered(self) -> tuple[str, ...]:
        """The workflow's own tools, and others of the desk that it does not use."""
        needed = ["get_case", *(step.tool for step in self.flow.steps if step.tool)]
        spare = [each.name for each in self.domain.tools if each.name not in needed]
        return offered_tools(self.domain, needed, self.knobs["distractors"], spare)

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
