"""The judge gate: it selects the tasks of a stored set that a second model rates natural and
consistent.

In: a task set and a model. Out: a new task set, as `KeptSource` makes it. The verdict is part of a
structured answer: "no" drops the task with the model's reason. An answer without a verdict is sent
back once and then drops the task as an error. Answers are stored until the set is complete, so that
a run that was killed, or whose budget is spent, asks only for the missing ones.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tutti.storage import Catalog, content_hash
from tutti.tasks.synthesis.domains import Domain, DomainTask, Replay, Toolkit
from tutti.tasks.synthesis.making.domain_parts import KeptSource
from tutti.tasks.synthesis.making.teachers import TeacherPool, open_teachers
from tutti.tasks.synthesis.teacher import (
    BudgetedRequest,
    Question,
    Teacher,
    TeacherFailed,
    TeacherSampling,
    read_prompts,
)
from tutti.tasks.task_sets import Verdict

GATE = "judged"
PROMPT = "judge"
TEMPERATURE = 0.0


class JudgeRequest(BudgetedRequest):
    """The parameters of the gate judged, with its budget."""

    role = "judge"

    source: Literal["judged"] = Field("judged", description="tasks that a model finds consistent")
    task_set: str = Field(description="the set, by its id")
    judge: str = Field(description="a model of the registry")

    @property
    def models_asked(self) -> tuple[str, ...]:
        """The judge's model."""
        return (self.judge,)

    @property
    def request_hash(self) -> str:
        """Hash of all that decides the verdicts."""
        return content_hash([GATE, self.task_set, self.judge, read_prompts()[PROMPT].hash])


class JudgeAnswer(BaseModel):
    """The judge's answer about a task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    is_natural: bool
    is_consistent: bool
    reason: str

    @property
    def verdict(self) -> Verdict:
        """The gate's verdict; both fields must be true to pass."""
        wrong = [] if self.is_natural else ["not natural"]
        wrong += [] if self.is_consistent else ["not consistent"]
        return Verdict(not wrong, f"{' and '.join(wrong)}: {self.reason}" if wrong else "")


class JudgedSource(KeptSource[JudgeRequest]):
    """The tasks that the judge accepts.

    `parts` may raise TeacherFailed if the endpoint fails or no task got a verdict, BudgetSpent
    (paid answers stay stored), ToolkitFailed.
    """

    gate, is_paid = GATE, True

    def __init__(self, request: JudgeRequest, judges: TeacherPool, catalog: Catalog) -> None:
        """`judges`: exactly one. Raises UsageError if there is no such set of a domain."""
        super().__init__(request, catalog)
        self.judges = replace(judges, sampling=TeacherSampling(TEMPERATURE))
        self.request_hash = self.work_name = request.request_hash

    async def verdicts(self, work: Path) -> dict[str, Verdict]:
        """Ask the judge about each task."""
        questions = await _questions(self.stored)
        async with open_teachers(self.judges, work / "teacher") as ((judge,), meter):
            found = await _verdicts(judge, questions)
            self.spent = meter.text
        return found

    def asked(self) -> dict[str, Any]:
        """Return the judge and the prompt."""
        asked = {"judge": self.request.judge, "prompt": read_prompts()[PROMPT].lineage}
        asked |= {"task_set": self.request.task_set, "model": self.judges.endpoints[0].model}
        return asked | {"request": self.request_hash}


async def _verdicts(
    judge: Teacher, questions: Mapping[str, Question[JudgeAnswer]]
) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    failed: list[TeacherFailed] = []
    outcomes = await judge.ask_all(list(questions.values()))
    for task_id, outcome in zip(questions, outcomes, strict=True):
        if not isinstance(outcome, TeacherFailed):
            found[task_id] = outcome.verdict
            continue
        if not outcome.is_final:
            raise outcome
        failed.append(outcome)
        found[task_id] = Verdict(False, f"error: no verdict: {outcome}")
    if failed and len(failed) == len(found):
        raise failed[0]
    return found


async def _questions(
    stored: Sequence[tuple[Domain, Sequence[DomainTask]]],
) -> dict[str, Question[JudgeAnswer]]:
    found = {}
    for domain, tasks in stored:
        async with Toolkit(domain) as toolkit:
            replays = await toolkit.replay(tasks)
        for task, replay in zip(tasks, replays, strict=True):
            text = read_prompts()[PROMPT].render(**_shown(domain, task, replay))
            name = f"judge-{task.task_id.rpartition(':')[2]}"
            found[task.task_id] = Question(name, text, JudgeAnswer)
    return found


def _shown(domain: Domain, task: DomainTask, replay: Replay) -> dict[str, str]:
    calls = [
        f"{action.name}({json.dumps(action.arguments)}) -> {result.text}"
        for action, result in zip(task.world.actions, replay.results, strict=True)
    ]
    tools = [each.model_dump_json() for each in domain.offered(task)]
    records = {}
    for entity in task.sources:
        table, _, key = entity.partition("/")
        if (record := domain.records.get(table, {}).get(key)) is not None:
            records[entity] = {**record, **task.world.changed.get(table, {}).get(key, {})}
    return {
        "policy": domain.policy,
        "tools": "\n".join(tools),
        "records": json.dumps(records, ensure_ascii=False),
        "scenario": task.world.scenario.text,
        "calls": "\n".join(calls) or "none",
        "communicate": "; ".join(task.world.communicate) or "none",
    }
