"""What a gate asks for: the keys of one in a suite, or in a file of `tutti gate`.

In: YAML. Out: `Gate`s, which `tutti.tasks.sweeps.judge.gates` judges a sweep by.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.tasks.config import read_document
from tutti.tasks.sweeps import GateError

GateMetric = Literal[
    "score",
    "cost_usd",
    "working_s",
    "cost_per_solved",
    "infra_share",
    "steps_per_min",
    "step_latency_p95",
]


class Gate(BaseModel):
    """One condition: exactly one of `at_least`, `at_most` and `margin`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: GateMetric = Field("score", description="what is judged; score is accuracy")
    at_least: float | None = Field(None, description="the interval must lie at or above it")
    at_most: float | None = Field(None, description="the interval must lie at or below it")
    margin: float | None = Field(
        None, ge=0, description="no worse than the baseline by more; a share unless of the score"
    )
    where: dict[Literal["benchmark", "model", "policy", "concurrency"], str | int] = Field(
        {}, description="only these set-ups, e.g. policy: adaptive"
    )

    @model_validator(mode="after")
    def _one_condition(self) -> "Gate":
        if [self.at_least, self.at_most, self.margin].count(None) != 2:
            raise ValueError("needs exactly one of at_least, at_most and margin")
        if self.margin is not None and self.metric in ("cost_per_solved", "infra_share"):
            raise ValueError(f"{self.metric} has no paired comparison: give it a bound")
        return self

    def __str__(self) -> str:
        bound = f"at least {self.at_least:g}" if self.at_least is not None else ""
        bound = f"at most {self.at_most:g}" if self.at_most is not None else bound
        if self.margin is not None:
            bound = f"no worse than the baseline by {self.margin:g}"
        where = "".join(f", {axis} {value}" for axis, value in self.where.items())
        return f"{self.metric} {bound}{where}"


class GateFile(BaseModel):
    """The file's keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    baseline: str | None = Field(None, description="a sweep's id or name that margins refer to")
    gates: tuple[Gate, ...] = Field(min_length=1)


def read_gates(path: Path) -> GateFile:
    """Read and validate a gate file. Raises GateError with file, line, field and value."""
    try:
        return read_document(path, GateError).check(GateFile)
    except FileNotFoundError:
        raise GateError(f"{path}: no such file") from None
