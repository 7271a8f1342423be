"""Suite files: what to measure. One frozen model is the file's keys, the flow's parameters and
the command line's flags."""

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tasks.serving.registry import explain
from tasks.synthesis.generate import TaskRequest

PolicyName = Literal[
    "passthrough", "cap", "adaptive", "thunderagent", "continuum", "least_attained_service"
]


class SuiteError(ValueError):
    """A suite file is wrong; the message names file, field and value."""


class Suite(BaseModel):
    """A grid of cells: model x policy x concurrency x repeat, over one task set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("demo", pattern=r"^[a-z0-9][a-z0-9-]*$", description="the sweep's name")
    benchmark: Literal["stdlib"] = Field("stdlib", description="which benchmark")
    tasks: TaskRequest = Field(
        default_factory=lambda: TaskRequest(), description="the task set; its test split is run"
    )
    model: str = Field("pocket", description="a model of models.yaml")
    policies: tuple[PolicyName, ...] = Field(
        ("passthrough", "cap"), description="the gateway's scheduling rules to compare"
    )
    concurrency: tuple[int, ...] = Field(
        (2, 8, 16), description="sessions at once, one cell for each"
    )
    cap: int = Field(8, ge=1, description="programs at once under the policy `cap`")
    repeats: int = Field(1, ge=1, description="times each cell is run, with other seeds")
    trials: int = Field(1, ge=1, description="samples of each task in a cell")
    temperature: float = Field(0.0, ge=0.0, description="0 is greedy")
    max_tokens: int = Field(96, ge=1, description="most tokens of one reply")
    max_turns: int = Field(8, ge=1, description="most calls of one attempt")
    max_attempts: int = Field(3, ge=1, description="attempts at a sample that infra errors void")

    @field_validator("concurrency", "policies")
    @classmethod
    def _an_axis(cls, values: tuple[int | str, ...]) -> tuple[int | str, ...]:
        if not values or any(isinstance(value, int) and value < 1 for value in values):
            raise ValueError("needs at least one value, numbers 1 or more")
        if len(set(values)) < len(values):
            raise ValueError("names a value twice")
        return values


def read_suite(path: Path) -> Suite:
    """Read and validate a suite file. Raises SuiteError with file, field and value."""
    try:
        content = yaml.safe_load(path.read_text())
        return Suite.model_validate(content or {})
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise SuiteError(f"{path}: no such suite; known there: {known}") from None
    except yaml.YAMLError as error:
        raise SuiteError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise SuiteError(f"{path}: {explain(error)}") from error
