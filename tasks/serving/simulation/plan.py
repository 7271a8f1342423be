"""Plan files: a simulation's engines, programs and policies.

In: YAML (see `SimulationPlan` for its keys). Out: an `Outcome` for each policy. A distribution is a
number, or its kind with its parameters: ``{lognormal: {median: 0.4, sigma: 1.2}}``.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tutti.tasks.config import read_document
from tutti.tasks.serving.simulation.calibrate import read_calibration
from tutti.tasks.serving.simulation.engine_model import EngineModel
from tutti.tasks.serving.simulation.errors import PlanError
from tutti.tasks.serving.simulation.outcome import Outcome
from tutti.tasks.serving.simulation.policies import parse_policy
from tutti.tasks.serving.simulation.presets import PRESETS
from tutti.tasks.serving.simulation.settings import HOP_S, Progress, SimulationSettings
from tutti.tasks.serving.simulation.simulate import simulate
from tutti.tasks.serving.simulation.workload import KINDS, Dist, Workload, constant

STRICT = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class WorkloadPlan(BaseModel):
    """Changes to the preset workload; the keys are those of `Workload`."""

    model_config = STRICT

    programs: int | None = Field(None, ge=1, description="how many in all")
    turns: Dist | None = Field(None, description="calls of a program")
    first_tokens: Dist | None = Field(None, description="first prompt, without shared tokens")
    growth_tokens: Dist | None = Field(None, description="what a tool adds to the next prompt")
    output_tokens: Dist | None = Field(None, description="tokens of an answer")
    tool_s: Dist | None = Field(None, description="seconds of a tool run")
    shape: Literal["append", "rebuilt"] | None = Field(None, description="how prompts grow")
    kept_tokens: int | None = Field(None, ge=0, description="what rebuilt prompts share")
    shared_tokens: int | None = Field(None, ge=0, description="a beginning common to all")
    max_context: int | None = Field(None, ge=2, description="a program ends before more")
    max_tokens: int | None = Field(None, ge=1, description="what calls say they may produce")
    streams: bool | None = Field(None, description="whether answers are streamed")
    released: bool | None = Field(None, description="whether programs say that they are over")
    timeout_s: float | None = Field(None, gt=0, description="a client waits for so long")
    retries: int | None = Field(None, ge=0, description="and asks again so often")
    retry_wait_s: float | None = Field(None, ge=0, description="after so long")
    disconnect_p: float | None = Field(None, ge=0, le=1, description="chance, by call")
    disconnect_after_s: Dist | None = Field(None, description="since sending")
    arrivals_per_s: float | None = Field(None, gt=0, description="open loop: programs a second")

    @field_validator(
        "turns",
        "first_tokens",
        "growth_tokens",
        "output_tokens",
        "tool_s",
        "disconnect_after_s",
        mode="before",
    )
    @classmethod
    def _distribution(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, Dist) else read_dist(value)


class SimulationPlan(BaseModel):
    """A plan file."""

    model_config = STRICT

    preset: str = Field("small", description="engine and workload to begin with")
    engine: Path | dict[str, float | int | str] | None = Field(
        None, description="a calibration file, or constants of EngineModel"
    )
    kv_tokens: int | None = Field(None, ge=64, description="KV cache of each engine, in tokens")
    engines: int = Field(1, ge=1, description="engines, all alike")
    sessions: int | None = Field(
        None, ge=1, description="programs at a time; left out in an open loop"
    )
    policies: tuple[str, ...] = Field(("passthrough", "adaptive"), min_length=1)
    seed: int = Field(0, description="decides the programs")
    hop_s: float = Field(HOP_S, ge=0, description="what the gateway adds to a call")
    workload: WorkloadPlan = Field(default_factory=lambda: WorkloadPlan())

    @field_validator("preset")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in PRESETS:
            raise ValueError(f"no such preset; known: {', '.join(PRESETS)}")
        return value

    @field_validator("policies")
    @classmethod
    def _policies(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            parse_policy(value)
        return values

    def model(self) -> EngineModel:
        """The engine."""
        engine = PRESETS[self.preset][0]
        if isinstance(self.engine, Path):
            engine = read_calibration(self.engine).engine
        elif self.engine is not None:
            known = {each.name for each in fields(EngineModel)}
            if unknown := sorted(self.engine.keys() - known):
                raise PlanError(f"engine.{unknown[0]}: no such constant; known: {sorted(known)}")
            engine = replace(engine, **self.engine)  # type: ignore[arg-type]
        return replace(engine, kv_tokens=self.kv_tokens or engine.kv_tokens)

    def load(self) -> Workload:
        """The workload: the preset with the file's changes."""
        given = self.workload.model_dump(exclude_none=True)
        given |= {name: getattr(self.workload, name) for name in given}
        return replace(PRESETS[self.preset][1], **given)

    def run(self, policy: str, progress: Progress | None = None) -> Outcome:
        """Simulate one policy. Raises SimulationError."""
        work = self.load()
        sessions = self.sessions
        if sessions is None and work.arrivals_per_s is None:
            raise PlanError("sessions: must be given where workload.arrivals_per_s is not")
        return simulate(
            work,
            sessions,
            [self.model()] * self.engines,
            parse_policy(policy),
            self.seed,
            SimulationSettings(self.hop_s, progress=progress),
        )


def read_dist(value: Any) -> Dist:
    """A number, or ``{kind: {parameter: number}}``. Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return constant(float(value))
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError(f"must be a number or one of {', '.join(KINDS)} with its parameters")
    ((kind, given),) = value.items()
    if kind not in KINDS:
        raise ValueError(f"no distribution {kind!r}; known: {', '.join(KINDS)}")
    names = KINDS[kind][0]
    if not isinstance(given, Mapping) or set(given) != set(names):
        raise ValueError(f"{kind} takes {' and '.join(names)}, not {given!r}")
    numbers = [given[name] for name in names]
    if not all(isinstance(number, int | float) for number in numbers):
        raise ValueError(f"{kind}: {given!r} has something that is no number")
    return Dist(str(kind), *(float(number) for number in numbers))


def read_plan(path: Path) -> SimulationPlan:
    """Read and validate a plan file. Raises PlanError with file, line, field and value."""
    try:
        plan = read_document(path, PlanError).check(SimulationPlan)
    except FileNotFoundError:
        raise PlanError(f"{path}: no such file") from None
    if isinstance(plan.engine, Path) and not plan.engine.is_absolute():
        plan = plan.model_copy(update={"engine": path.parent / plan.engine})
    return plan
