"""Simulate a recorded run under other policies, engines or KV sizes, and validate the simulation.

In: a `Recording` and, if available, a calibration of its engine. Out: a `Replay`: the run's own
policy simulated and compared with the measurement, then each requested policy. The quality of
answers is not simulated: the same programs make the same calls.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tutti.tasks.serving.simulation.calibrate import (
    Calibration,
    FitErrors,
    calibrate,
    clients_of,
    residual_of,
    simulate_recording,
)
from tutti.tasks.serving.simulation.errors import SimulationError
from tutti.tasks.serving.simulation.outcome import Outcome
from tutti.tasks.serving.simulation.policies import parse_policy
from tutti.tasks.serving.simulation.recording import MeasuredFigures, Recording
from tutti.tasks.serving.simulation.settings import SimulationSettings
from tutti.tasks.serving.simulation.simulate import simulate


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """The recorded programs simulated under one policy."""

    policy: str
    outcome: Outcome
    engine_hours: float
    """Number of engines times the time until the last program ended."""

    def figures(self) -> dict[str, Any]:
        """The figures as a flat row."""
        return self.outcome.figures() | {"policy": self.policy, "engine_hours": self.engine_hours}


@dataclass(frozen=True, slots=True)
class Replay:
    """The simulations of one cell."""

    cell: str
    programs: int
    sessions: int
    engines: int
    calibration: Calibration
    measured: MeasuredFigures
    validation: FitErrors
    """Errors of simulating the recorded policy: relative, for the hit share a difference."""
    runs: tuple[ReplayedCall, ...]

    def as_json(self) -> dict[str, Any]:
        """The replay as plain values, for JSON."""
        return {
            "cell": self.cell,
            "programs": self.programs,
            "sessions": self.sessions,
            "engines": self.engines,
            "engine": asdict(self.calibration.engine),
            "measured": asdict(self.measured),
            "validation": asdict(self.validation),
            "runs": [run.figures() for run in self.runs],
        }


@dataclass(frozen=True, slots=True)
class ReplaySizes:
    """Sizes that differ from the recorded run; None: as recorded."""

    engines: int | None = None
    kv_tokens: int | None = None
    """KV cache of each engine."""
    sessions: int | None = None
    """Concurrent programs."""


AS_RECORDED = ReplaySizes()


def replay(
    recording: Recording,
    policies: Sequence[str] = (),
    sizes: ReplaySizes = AS_RECORDED,
    calibration: Calibration | None = None,
    recorded_kv_tokens: int | None = None,
) -> Replay:
    """Simulate a recorded run under `policies` (its own if none is given).

    The recorded engine's KV size is taken from the recording, else from `recorded_kv_tokens`, else
    from `sizes`. Without a calibration, one is fitted to this recording. Raises SimulationError.
    """
    for policy in policies:
        parse_policy(policy)  # report invalid policies before the minutes of fitting
    had = recording.kv_tokens or recorded_kv_tokens or sizes.kv_tokens
    if calibration is None:
        calibration = calibrate([recording], kv_tokens=had)
    own = replace(calibration.engine, kv_tokens=had or calibration.engine.kv_tokens)
    validation = residual_of(recording, simulate_recording(recording, own))
    count, offered = sizes.engines or recording.engines, sizes.sessions or recording.sessions
    kv_tokens = sizes.kv_tokens or own.kv_tokens
    for name, value in (("engines", count), ("sessions", offered), ("kv_tokens", kv_tokens)):
        if value < 1:
            raise SimulationError(f"{name}: must be at least 1, not {value}")
    model = replace(own, name="engine", kv_tokens=kv_tokens)
    plans = recording.plans()
    runs = []
    for policy in policies or [recording.policy]:
        outcome = simulate(
            plans,
            offered,
            [model] * count,
            parse_policy(policy),
            settings=SimulationSettings(calibration.hop_s, clients=clients_of(recording)),
        )
        runs.append(ReplayedCall(policy, outcome, count * outcome.makespan_s / 3600.0))
    return Replay(
        cell=recording.cell_id,
        programs=len(plans),
        sessions=offered,
        engines=count,
        calibration=calibration,
        measured=recording.measured(),
        validation=validation,
        runs=tuple(runs),
    )
