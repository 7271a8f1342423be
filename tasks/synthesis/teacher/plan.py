"""Plans of a teacher's requests: calls, tokens, USD and seconds before anything starts.

Calls are counted as if every first answer were right; tokens and seconds are estimates from the
constants below, not measured on any model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from tutti.tasks.synthesis.teacher.budget import TeacherPrices
from tutti.tasks.task_sets import SetPlan

TOKENS_PER_S = 50
"""Of one answer; hosted models of 2026 give 30 to 100."""
RECORD_TOKENS = 120
STEP_TOKENS = {
    "tables": (400, 1_500),
    "records": (1_200, 0),
    "toolkit": (2_500, 5_000),
    "policy": (3_500, 1_500),
    "intents": (2_000, 800),
    "tasks": (6_000, 700),
    "evolution": (6_500, 900),
}
"""Prompt and answer of one call, in tokens, for a domain of the default sizes."""


class BudgetedRequest(BaseModel):
    """A request to models, with its budget."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    role: ClassVar[Literal["teacher", "judge"]] = "teacher"
    """Of the calls of its models in `calls`."""

    seed: int = Field(0, description="decides what is drawn, and is sent with each call")
    usd: float | None = Field(None, gt=0, description="most that one run may cost, USD")
    calls: int | None = Field(None, ge=1, description="most calls of one run")
    concurrency: int = Field(8, ge=1, le=256, description="calls at once")

    @property
    def models_asked(self) -> tuple[str, ...]:
        """The models of the registry that the request needs; empty if a program fulfils it."""
        return tuple(filter(None, (getattr(self, "teacher", ""),)))

    @property
    def as_asked(self) -> dict[str, Any]:
        """Everything that decides the result, apart from the contents of files and of the store."""
        return self.model_dump(mode="json", exclude=set(BudgetedRequest.model_fields) - {"seed"})


class TeacherRequest(BudgetedRequest):
    """The parameters of a domain that a teacher generates."""

    topic: str = Field(min_length=3, description="what the domain is about")
    tables: int = Field(4, ge=1, le=20, description="about how many tables")
    records: int = Field(12, ge=1, le=9_999, description="records of each table")
    chunk: int = Field(6, ge=1, le=50, description="records asked for in one call")
    tools: int = Field(10, ge=1, le=60, description="about how many tools")
    rules: int = Field(5, ge=1, le=40, description="about how many policy rules")
    intents: int = Field(10, ge=1, le=2_000, description="intents of callers; a task for each")
    evolutions: int = Field(1, ge=0, le=5, description="rounds of harder variants of each task")
    batch: bool = Field(False, description="use the endpoint's batch API where it has one")


@dataclass(frozen=True)
class StepPlan:
    """One step of the chain."""

    step: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


def sum_steps(steps: Sequence[StepPlan], prices: TeacherPrices | None, seconds: float) -> SetPlan:
    """Return the plan of all steps."""
    prompt = sum(step.prompt_tokens for step in steps)
    completion = sum(step.completion_tokens for step in steps)
    usd = None if prices is None else prices.usd(prompt, completion)
    by_step = ", ".join(f"{step.step} {step.calls}" for step in steps)
    calls = sum(step.calls for step in steps)
    return SetPlan(seconds, calls, prompt, completion, usd, notes=[f"calls by step: {by_step}"])


def plan_teacher(
    request: TeacherRequest, prices: TeacherPrices | None, concurrency: int
) -> SetPlan:
    """Return the plan of a request. The number of tables is the requested one."""
    chunks = request.tables * ceil(request.records / request.chunk)
    counts = {
        "tables": 1,
        "records": chunks,
        "toolkit": 1,
        "policy": 1,
        "intents": 1,
        "tasks": request.intents,
        "evolution": request.intents * request.evolutions,
    }
    steps: list[StepPlan] = []
    seconds = 0.0
    for name, calls in counts.items():
        prompt, completion = STEP_TOKENS[name]
        if name == "records":
            completion = RECORD_TOKENS * min(request.chunk, request.records)
        if name in ("tasks", "evolution"):  # they show all records
            prompt += RECORD_TOKENS * request.tables * request.records // 2
        steps.append(StepPlan(name, calls, calls * prompt, calls * completion))
        seconds += ceil(calls / concurrency) * completion / TOKENS_PER_S
    return sum_steps(steps, prices, seconds)
