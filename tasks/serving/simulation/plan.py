"""Plan files: a simulation's engines, programs and policies; and the presets that they begin with.

In: YAML (see `SimulationPlan` for its keys). Out: an `Outcome` for each policy. A distribution is a
number, or its kind with its parameters: ``{lognormal: {median: 0.4, sigma: 1.2}}``.

The presets' constants were fitted to real runs of vLLM on two CPU cores. Their docstrings give the
measured figures; tests check the simulator against them. What was not recorded of a run (such as
the lengths of tool results) was chosen to be plausible.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from tutti.tasks.config import read_document
from tutti.tasks.serving.simulation.calibrate import read_calibration
from tutti.tasks.serving.simulation.engine import EngineModel
from tutti.tasks.serving.simulation.outcome import Outcome
from tutti.tasks.serving.simulation.simulate import simulate
from tutti.tasks.serving.simulation.workload import (
    HOP_S,
    PlanError,
    Progress,
    SimulationSettings,
    Workload,
    constant,
    exponential,
    lognormal,
    parse_policy,
    uniform,
)

SMALL = EngineModel(
    "small", kv_tokens=32_768, max_num_seqs=64, iteration_s=3.12e-3, prefill_token_s=1.83e-5,
    decode_s=3.27e-5, context_token_s=7.55e-8, request_s=8.35e-4,
)  # fmt: skip
SMALL_WORK = Workload(
    96, constant(10), constant(400), constant(176), constant(24), uniform(0.02, 0.2),
    streams=False,
)  # fmt: skip
"""steps/min (hit), 4-layer model, two cores of a Xeon with AMX: at cap 12 3,004 (.83), 14: 3,416,
16: 3,594 (.83), 20: 2,600 (.62); direct with 8 programs 2,361, 16: 3,626 (.83), 48: 1,888 (.17)."""

MID = EngineModel(
    "mid", kv_tokens=10_240, max_num_seqs=32, iteration_s=0.0193, prefill_token_s=7.59e-4,
    decode_s=2.01e-3, request_s=0.0164,
)  # fmt: skip
MID_WORK = Workload(
    20, constant(6), constant(400), constant(276), constant(24), exponential(2.0),
    streams=False,
)  # fmt: skip
"""38 M model, in the same form: 20 programs direct 58 to 62 (.05), cap 6 95 (.70), cap 8 104
(.61)."""

POCKET = EngineModel(
    "pocket", kv_tokens=1_024, max_num_seqs=32, iteration_s=3.37e-3, prefill_token_s=6.3e-6,
    decode_s=1.36e-3, request_s=3.67e-3,
)  # fmt: skip
POCKET_WORK = Workload(
    96, uniform(1.5, 3.6), uniform(26, 42), uniform(20, 150), uniform(4, 17),
    lognormal(0.043, 0.9), shared_tokens=40,
)  # fmt: skip
"""4 M model, the demo: passthrough at 2, 8, 16 sessions 1,221 (.54), 2,207 (.36), 3,138 (.21); cap
6: 1,198, 1,812, 1,995. Lengths and pauses are those of recorded demos. Client, tools and engine
share two cores there, which is not modelled: the simulation is 20 % off at 16 sessions."""

PRESETS: Mapping[str, tuple[EngineModel, Workload]] = {
    "small": (SMALL, SMALL_WORK),
    "mid": (MID, MID_WORK),
    "pocket": (POCKET, POCKET_WORK),
}


STRICT = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


WORKLOAD_FIELDS: dict[str, Any] = {
    name: (hint | None, None)
    for name, hint in get_type_hints(Workload, include_extras=True).items()
}
WorkloadPlan = create_model("WorkloadPlan", __config__=STRICT, **WORKLOAD_FIELDS)
"""Changes to the preset workload; the keys are those of `Workload`."""


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


def read_plan(path: Path) -> SimulationPlan:
    """Read and validate a plan file. Raises PlanError with file, line, field and value."""
    try:
        plan = read_document(path, PlanError).check(SimulationPlan)
    except FileNotFoundError:
        raise PlanError(f"{path}: no such file") from None
    if isinstance(plan.engine, Path) and not plan.engine.is_absolute():
        plan = plan.model_copy(update={"engine": path.parent / plan.engine})
    return plan
