"""Fit the constants of `EngineModel` to recorded runs, and replay a run under other settings.

In: recordings. Out: a `Calibration`, kept as JSON, with which the simulated runs have the rates and
latencies of the recorded ones; or a `Replay`: the run's own policy compared with the measurement,
then each requested policy. The quality of answers is not simulated.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tutti.tasks.platform import explain
from tutti.tasks.serving.simulation.engine import EngineModel
from tutti.tasks.serving.simulation.outcome import Figures, Outcome
from tutti.tasks.serving.simulation.recording import Recording
from tutti.tasks.serving.simulation.simulate import simulate
from tutti.tasks.serving.simulation.workload import (
    HOP_S,
    CalibrationError,
    SimulationError,
    parse_policy,
)

VERSION = 1
SIMULATIONS = 160
SLOWEST_S, FASTEST_S = 10.0, 1e-9
PLAUSIBLE = (5e-3, 2e-5, 1e-4, 1e-8, 2e-3)
"""Plausible seconds of a small model: an iteration, a computed and a decoded token, a token of
context, a request."""
FACTORS = (1.0, 0.3, 3.0, 10.0)
"""The search begins at the best of these multiples of the plausible constants."""
PLAUSIBLE_SIGMA, PLAUSIBLE_WEIGHT = 1.5, 0.005
ROUNDS, STEP = 2, 0.4
CONTEXT_MOST = 0.01
"""Upper bound of the cost of attending to a token, relative to computing one: reading its keys and
values against a pass through the whole model. A run at a single load cannot separate the two."""
DECILES = 10
LATENCIES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Errors of a simulated run: simulated / measured - 1."""

    cell: str
    policy: str
    calls: int
    steps_per_min: float
    latency_p50: float
    latency_p95: float
    hit_share: float
    """Simulated less measured."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """An engine's constants and their origin."""

    engine: EngineModel
    residuals: tuple[FitErrors, ...]
    simulations: int

    @property
    def calls(self) -> int:
        return sum(residual.calls for residual in self.residuals)

    def write(self, path: Path) -> None:
        content = {"tutti_calibration": VERSION, "calls": self.calls, **asdict(self)}
        path.write_text(json.dumps(content, indent=2) + "\n")


def read_calibration(path: Path) -> Calibration:
    """Read a file that `Calibration.write` wrote. Raises CalibrationError."""
    try:
        content = json.loads(path.read_text())
        if not isinstance(content, dict) or content.get("tutti_calibration") != VERSION:
            raise CalibrationError(f"{path}: not a calibration of version {VERSION}")
        return TypeAdapter(Calibration).validate_python(content)
    except ValidationError as error:
        raise CalibrationError(f"{path}: {explain(error)}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationError(f"{path}: {error}") from error


def calibrate(
    recordings: Sequence[Recording],
    *,
    kv_tokens: int | None = None,
    simulations: int = SIMULATIONS,
) -> Calibration:
    """Fit the constants to all `recordings`, which must be of one kind of engine. Raises
    CalibrationError if the engine's KV size is neither recorded nor given."""
    from scipy.optimize import minimize  # type: ignore[import-untyped, unused-ignore]

    if not recordings:
        raise CalibrationError("calibrate: no recorded run was given")
    sizes = _sizes(recordings[0], kv_tokens)
    runs = [(each, each.measured()) for each in recordings]
    count = 0

    def model(logarithms: Sequence[float]) -> EngineModel:
        bounded = [min(max(math.exp(value), FASTEST_S), SLOWEST_S) for value in logarithms]
        iteration_s, prefill_token_s, decode_s, context_token_s, request_s = bounded
        return replace(
            sizes,
            iteration_s=iteration_s,
            prefill_token_s=prefill_token_s,
            decode_s=decode_s,
            context_token_s=min(context_token_s, prefill_token_s * CONTEXT_MOST),
            request_s=request_s,
        )

    def error(logarithms: Sequence[float]) -> float:
        """Mean over the runs of the squared relative errors of rates and latencies. A small penalty
        on implausible constants prevents those that a run does not determine (the idle iteration,
        in a run that was never idle) from drifting."""
        nonlocal count
        count += len(runs)
        engine = model(logarithms)
        distances = (_distance(simulate_recording(run, engine), was) for run, was in runs)
        far = (
            (v - math.log(p)) / PLAUSIBLE_SIGMA for v, p in zip(logarithms, PLAUSIBLE, strict=True)
        )
        return sum(distances) / len(runs) + PLAUSIBLE_WEIGHT * sum(each**2 for each in far)

    at = min(([math.log(p * factor) for p in PLAUSIBLE] for factor in FACTORS), key=error)
    for _ in range(ROUNDS):  # a restart with a fresh simplex escapes a collapsed one
        corners = [at, *([v + STEP * (i == j) for j, v in enumerate(at)] for i in range(len(at)))]
        options: dict[str, Any] = {
            "maxfev": max(simulations // ROUNDS, 1),
            "xatol": 0.01,
            "fatol": 1e-5,
        }
        options["initial_simplex"] = corners
        at = minimize(error, at, method="Nelder-Mead", options=options).x.tolist()
    engine = model(at)
    residuals = tuple(fit_errors(run, simulate_recording(run, engine)) for run, _ in runs)
    return Calibration(engine, residuals, count)


def simulate_recording(recording: Recording, engine: EngineModel, hop_s: float = HOP_S) -> Outcome:
    """Simulate the recorded programs on the same number of engines, under their own policy."""
    return simulate(
        recording.plans(),
        recording.sessions,
        [engine] * recording.engines,
        parse_policy(recording.policy),
        recording.settings(hop_s),
    )


def fit_errors(recording: Recording, simulated: Outcome) -> FitErrors:
    """The errors of a simulated run against the measured figures."""
    was = recording.measured()
    return FitErrors(
        cell=recording.cell_id,
        policy=recording.policy,
        calls=len(recording.calls),
        steps_per_min=simulated.steps_per_min_all / was.steps_per_min_all - 1,
        latency_p50=simulated.latency_p50_s / was.latency_p50_s - 1,
        latency_p95=simulated.latency_p95_s / was.latency_p95_s - 1,
        hit_share=simulated.hit_share - was.hit_share,
    )


def _sizes(recording: Recording, kv_tokens: int | None) -> EngineModel:
    tokens = kv_tokens or recording.kv_tokens
    if tokens is None:
        raise CalibrationError(
            f"cell {recording.cell_id}: its engine's KV size is not recorded; give --kv-tokens"
        )
    return EngineModel(
        name="calibrated",
        kv_tokens=tokens,
        block_tokens=recording.block_tokens,
        max_num_seqs=recording.max_num_seqs,
        max_batched_tokens=recording.max_batched_tokens,
    )


def _distance(simulated: Figures, was: Figures) -> float:
    """Squared relative errors of rate, latencies, and the mean duration of each tenth of the steps.
    Early steps have short prompts and late ones long prompts, which separates the cost of a token
    from that of a request; the fastest calls show the cost of an iteration."""
    pairs = [
        (simulated.steps_per_min_all, was.steps_per_min_all, 2.0),
        (simulated.steps_per_min, was.steps_per_min, 1.0),
    ]
    tenths = zip(_tenths(simulated.step_ends), _tenths(was.step_ends), strict=True)
    pairs += [(ours, theirs, 2.0 / DECILES) for ours, theirs in tenths]
    for share in LATENCIES:
        ours, theirs = (
            of.latencies[round(share * (len(of.latencies) - 1))] for of in (simulated, was)
        )
        pairs.append((ours, theirs, 1.0 / len(LATENCIES)))
    return sum(w * math.log(s / m) ** 2 for s, m, w in pairs if s > 0 and m > 0)


def _tenths(ends: Sequence[float]) -> list[float]:
    if len(ends) < 2 * DECILES:
        return []
    places = [round(share * (len(ends) - 1) / DECILES) for share in range(DECILES + 1)]
    return [ends[b] - ends[a] for a, b in pairwise(places)]


@dataclass(frozen=True, slots=True)
class Replay:
    """The simulations of one cell."""

    cell: str
    programs: int
    sessions: int
    engines: int
    calibration: Calibration
    measured: Figures
    validation: FitErrors
    """Errors of simulating the recorded policy: relative, for the hit share a difference."""
    runs: tuple[Outcome, ...]

    def as_json(self) -> dict[str, Any]:
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


def replay(
    recording: Recording,
    policies: Sequence[str] = (),
    calibration: Calibration | None = None,
    *,
    engines: int | None = None,
    kv_tokens: int | None = None,
    sessions: int | None = None,
) -> Replay:
    """Simulate a recorded run under `policies` (its own if none is given).

    `engines`, `kv_tokens` (of each engine) and `sessions` (concurrent programs) override the
    recorded run; `kv_tokens` also replaces the recorded size if that is unknown. Without a
    calibration, one is fitted to this recording. Raises SimulationError.
    """
    for policy in policies:
        parse_policy(policy)  # report invalid policies before the minutes of fitting
    given = {"engines": engines, "kv_tokens": kv_tokens, "sessions": sessions}
    for name, value in given.items():
        if value is not None and value < 1:
            raise SimulationError(f"{name}: must be at least 1, not {value}")
    recorded_kv = recording.kv_tokens or kv_tokens
    if calibration is None:
        calibration = calibrate([recording], kv_tokens=recorded_kv)
    own = replace(calibration.engine, kv_tokens=recorded_kv or calibration.engine.kv_tokens)
    validation = fit_errors(recording, simulate_recording(recording, own))
    count, offered = engines or recording.engines, sessions or recording.sessions
    model = replace(own, name="engine", kv_tokens=kv_tokens or own.kv_tokens)
    plans, runs = recording.plans(), []
    settings = replace(recording.settings(), hop_s=HOP_S)
    for text in policies or [recording.policy]:
        outcome = simulate(plans, offered, [model] * count, parse_policy(text), settings)
        runs.append(replace(outcome, policy=text))
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
