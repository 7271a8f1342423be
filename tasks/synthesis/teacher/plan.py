"""What a teacher is asked to make, and what that takes, before anything starts.

In: a request, the model's prices. Out: calls, tokens, USD and minutes. Calls are counted as if
every answer were right at once; tokens and seconds are estimates from the constants below, not
measured on any model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tutti.tasks.synthesis.teacher.budget import TeacherPrices

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


class TeacherRequest(BaseModel):
    """The parameters of a domain by a teacher."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str = Field(min_length=3, description="what the domain is about")
    tables: int = Field(4, ge=1, le=20, description="about how many tables")
    records: int = Field(12, ge=1, le=9_999, description="records of each table")
    chunk: int = Field(6, ge=1, le=50, description="records asked for in one call")
    tools: int = Field(10, ge=1, le=60, description="about how many tools")
    rules: int = Field(5, ge=1, le=40, description="about how many policy rules")
    intents: int = Field(10, ge=1, le=2_000, description="intents of callers; a task for each")
    evolutions: int = Field(1, ge=0, le=5, description="rounds of harder variants of each task")
    batch: bool = Field(False, description="use the endpoint's batch API where it has one")
    seed: int = Field(0, description="sent with each request")


@dataclass(frozen=True)
class StepPlan:
    """One step of the chain."""

    step: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class TeacherPlan:
    """The whole chain."""

    steps: Sequence[StepPlan]
    usd: float | None
    """None: the model's price is unknown."""
    minutes: float

    @property
    def calls(self) -> int:
        """All calls."""
        return sum(step.calls for step in self.steps)

    @property
    def tokens(self) -> tuple[int, int]:
        """Prompt and answer tokens of all calls."""
        prompt = sum(step.prompt_tokens for step in self.steps)
        return prompt, sum(step.completion_tokens for step in self.steps)

    @property
    def as_rows(self) -> dict[str, Any]:
        """For programs."""
        prompt, completion = self.tokens
        found = {"calls": self.calls, "prompt_tokens": prompt, "completion_tokens": completion}
        return {**found, "usd": self.usd, "minutes": self.minutes}

    @property
    def text(self) -> str:
        """For people, with what is estimated said to be so."""
        prompt, completion = self.tokens
        usd = "price unknown" if self.usd is None else f"about {self.usd:.2f} USD"
        return (
            f"{self.calls} calls if no answer must be corrected; estimates: {prompt} + "
            f"{completion} tokens, {usd}, {self.minutes:.0f} minutes"
        )


def plan_teacher(
    request: TeacherRequest, prices: TeacherPrices | None, concurrency: int
) -> TeacherPlan:
    """The plan of a request. The number of tables is the one asked for."""
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
    steps = [_step(name, calls, request) for name, calls in counts.items()]
    prompt = sum(step.prompt_tokens for step in steps)
    completion = sum(step.completion_tokens for step in steps)
    usd = None if prices is None else prices.usd(prompt, completion)
    seconds = sum(_seconds(step, concurrency) for step in steps)
    return TeacherPlan(steps, usd, seconds / 60)


def _step(name: str, calls: int, request: TeacherRequest) -> StepPlan:
    prompt, completion = STEP_TOKENS[name]
    if name == "records":
        completion = RECORD_TOKENS * min(request.chunk, request.records)
    if name in ("tasks", "evolution"):  # they show all records
        prompt += RECORD_TOKENS * request.tables * request.records // 2
    return StepPlan(name, calls, calls * prompt, calls * completion)


def _seconds(step: StepPlan, concurrency: int) -> float:
    if not step.calls:
        return 0.0
    rounds = ceil(step.calls / concurrency)
    return rounds * step.completion_tokens / step.calls / TOKENS_PER_S
