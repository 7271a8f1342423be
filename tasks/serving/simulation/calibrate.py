"""Fit the constants of `EngineModel` to recorded runs of an engine, and replay a run under other
policies, engines or KV sizes.

In: recordings. Out: a `Calibration`, kept as JSON. The first guess is non-negative least squares
over two kinds of rows: how long each call was in the engine, and how long the engine was busy in
each time slice. Under load, calls wait for reasons that a linear model lacks, so the guess is
refined by simulating the recorded runs until rates and latencies agree.

A `Replay` has the run's own policy simulated and compared with the measurement, then each requested
policy. The quality of answers is not simulated: the same programs make the same calls.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tutti.tasks.serving.simulation.engine import EngineModel
from tutti.tasks.serving.simulation.outcome import Outcome
from tutti.tasks.serving.simulation.recording import MeasuredFigures, RecordedCall, Recording
from tutti.tasks.serving.simulation.simulate import simulate
from tutti.tasks.serving.simulation.workload import (
    HOP_S,
    CalibrationError,
    SimulationError,
    SimulationSettings,
    parse_policy,
)

VERSION = 1
SIMULATIONS = 160
"""Most simulations of each recorded run while refining."""
SLICES = 60
SLOWEST_S, FASTEST_S = 10.0, 1e-9
PLAUSIBLE = (5e-3, 2e-5, 1e-4, 1e-8, 2e-3)
"""Plausible a to e of a small model; where least squares gives zero, the search begins at a share
of it."""
PLAUSIBLE_SIGMA, PLAUSIBLE_WEIGHT = 1.5, 0.005
ROUNDS, STEP = 2, 0.4
CONTEXT_MOST = 0.01
"""Upper bound of the cost of attending to a token, relative to computing one: reading its keys and
values against a pass through the whole model. A run at a single load cannot separate the two."""
DECILES = 10
LATENCIES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.95)
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Errors of a simulated run: simulated over measured, less one."""

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
    hop_s: float
    residuals: tuple[FitErrors, ...]
    call_rmse_s: float
    """Error of the first guess: residual of calls' times in the engine under the linear model."""
    simulations: int

    @property
    def calls(self) -> int:
        return sum(residual.calls for residual in self.residuals)

    def write(self, path: Path) -> None:
        content = {"tutti_calibration": VERSION, "calls": self.calls, **asdict(self)}
        path.write_text(json.dumps(content, indent=2) + "\n")


def read_calibration(path: Path) -> Calibration:
    """Read a file that `Calibration.write` made. Raises CalibrationError."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationError(f"{path}: {error}") from error
    if not isinstance(content, dict) or content.get("tutti_calibration") != VERSION:
        raise CalibrationError(f"{path}: not a calibration of version {VERSION}")
    try:
        return Calibration(
            engine=EngineModel(**content["engine"]),
            hop_s=content["hop_s"],
            residuals=tuple(FitErrors(**row) for row in content["residuals"]),
            call_rmse_s=content["call_rmse_s"],
            simulations=content["simulations"],
        )
    except (KeyError, TypeError) as error:
        raise CalibrationError(f"{path}: {error}") from error


def calibrate(
    recordings: Sequence[Recording],
    *,
    kv_tokens: int | None = None,
    simulations: int = SIMULATIONS,
) -> Calibration:
    """Fit the constants to all `recordings`, which must be of one kind of engine.

    Raises CalibrationError if the engine's KV size is neither recorded nor given.
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped, unused-ignore]

    if not recordings:
        raise CalibrationError("calibrate: no recorded run was given")
    sizes = _sizes(recordings[0], kv_tokens)
    guess, rmse = first_guess(recordings)
    search = _Search(recordings, sizes)
    start = [max(g, p / 20) for g, p in zip(guess, PLAUSIBLE, strict=True)]
    mixed = [PLAUSIBLE[0], start[1], *PLAUSIBLE[2:]]
    best = min((start, list(PLAUSIBLE), mixed), key=search.error)
    at = [math.log(value) for value in best]
    for _ in range(ROUNDS):  # a restart with a fresh simplex escapes a collapsed one
        corners = [at, *([v + STEP * (i == j) for j, v in enumerate(at)] for i in range(len(at)))]
        found = minimize(
            lambda x: search.error([math.exp(v) for v in x]),
            at,
            method="Nelder-Mead",
            options={
                "maxfev": max(simulations // ROUNDS, 1),
                "xatol": 0.01,
                "fatol": 1e-5,
                "initial_simplex": corners,
            },
        )
        at = [float(value) for value in found.x]
    engine = search.model([math.exp(value) for value in at])
    residuals = tuple(residual_of(each, simulate_recording(each, engine)) for each in recordings)
    return Calibration(engine, HOP_S, residuals, rmse, search.count)


def simulate_recording(recording: Recording, engine: EngineModel, hop_s: float = HOP_S) -> Outcome:
    """Simulate the recorded programs on as many engines, under their own policy."""
    return simulate(
        recording.plans(),
        recording.sessions,
        [engine] * recording.engines,
        parse_policy(recording.policy),
        settings=settings_of(recording, hop_s),
    )


def settings_of(recording: Recording, hop_s: float = HOP_S) -> SimulationSettings:
    """Simulation settings that match the recorded run; without a gateway there is no hop."""
    return SimulationSettings(hop_s if recording.gateway else 0.0, clients=recording.clients)


def residual_of(recording: Recording, said: Outcome) -> FitErrors:
    """The errors of a simulated run against the measured figures."""
    was = recording.measured()
    return FitErrors(
        cell=recording.cell_id,
        policy=recording.policy,
        calls=len(recording.calls),
        steps_per_min=said.steps_per_min_all / was.steps_per_min_all - 1,
        latency_p50=said.latency_p50_s / was.latency_p50_s - 1,
        latency_p95=said.latency_p95_s / was.latency_p95_s - 1,
        hit_share=said.hit_share - was.hit_share,
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


class _Search:
    """Objective function of the fit: simulates every recorded run with given constants."""

    def __init__(self, recordings: Sequence[Recording], sizes: EngineModel) -> None:
        self.sizes, self.count = sizes, 0
        self._runs = [(each, each.plans(), each.measured()) for each in recordings]

    def model(self, constants: Sequence[float]) -> EngineModel:
        bounded = [min(max(value, FASTEST_S), SLOWEST_S) for value in constants]
        iteration_s, prefill_token_s, decode_s, context_token_s, request_s = bounded
        return replace(
            self.sizes,
            iteration_s=iteration_s,
            prefill_token_s=prefill_token_s,
            decode_s=decode_s,
            context_token_s=min(context_token_s, prefill_token_s * CONTEXT_MOST),
            request_s=request_s,
        )

    def error(self, constants: Sequence[float]) -> float:
        """Mean over the runs of the squared relative errors of rates and latencies."""
        model, total = self.model(constants), _implausible(constants)
        for recording, plans, was in self._runs:
            said = simulate(
                plans,
                recording.sessions,
                [model] * recording.engines,
                parse_policy(recording.policy),
                settings=settings_of(recording),
            )
            total += _distance(said, was) / len(self._runs)
        self.count += len(self._runs)
        return total


def _implausible(constants: Sequence[float]) -> float:
    """A small penalty on constants far from those of a small model, so that constants that a run
    does not show (the idle iteration, in a run that was never idle) do not wander off."""
    far = (math.log(c / p) / PLAUSIBLE_SIGMA for c, p in zip(constants, PLAUSIBLE, strict=True))
    return PLAUSIBLE_WEIGHT * sum(each**2 for each in far)


def _distance(said: Outcome, was: MeasuredFigures) -> float:
    """Squared relative errors of rate, latencies, and the mean duration of each tenth of the steps.

    Early steps have short prompts and late ones long prompts, which separates the cost of a token
    from that of a request; the fastest calls show the cost of an iteration.
    """
    pairs = [
        (said.steps_per_min_all, was.steps_per_min_all, 2.0),
        (said.steps_per_min, was.steps_per_min, 1.0),
    ]
    tenths = zip(_tenths(said.step_ends), _tenths(was.step_ends), strict=True)
    pairs += [(ours, theirs, 2.0 / DECILES) for ours, theirs in tenths]
    for share in LATENCIES:
        ours, theirs = (of.latencies[round(share * (len(of.latencies) - 1))] for of in (said, was))
        pairs.append((ours, theirs, 1.0 / len(LATENCIES)))
    return sum(w * math.log(s / m) ** 2 for s, m, w in pairs if s > 0 and m > 0)


def _tenths(ends: Sequence[float]) -> list[float]:
    """Mean duration of each tenth of the steps; empty if there are too few steps."""
    if len(ends) < 2 * DECILES:
        return []
    places = [round(share * (len(ends) - 1) / DECILES) for share in range(DECILES + 1)]
    return [ends[b] - ends[a] for a, b in pairwise(places)]


# The first guess


def first_guess(recordings: Sequence[Recording]) -> tuple[list[float], float]:
    """Constants by non-negative least squares, and the root mean square error of calls' times."""
    from scipy.optimize import nnls  # type: ignore[import-untyped, unused-ignore]

    rows, times, weights = [], [], []
    for recording in recordings:
        for calls in _by_endpoint(recording.calls).values():
            load = _Load(calls)
            call_rows, call_times = load.call_rows()
            slice_rows, slice_times = load.slice_rows(SLICES)
            rows += [call_rows, slice_rows]
            times += [call_times, slice_times]
            weights += [np.full(len(call_times), 1.0), np.full(len(slice_times), 2.0)]
    matrix, right = np.concatenate(rows), np.concatenate(times)
    # Relative errors: a long call must not count as much as a hundred short ones.
    scale = np.concatenate(weights) / np.maximum(right, 1e-3)
    found, _ = nnls(matrix * scale[:, None], right * scale)
    calls_only = np.concatenate(rows[::2]), np.concatenate(times[::2])
    left = calls_only[0] @ found - calls_only[1]
    return [float(value) for value in found], float(np.sqrt(np.mean(left**2)))


def _by_endpoint(calls: Sequence[RecordedCall]) -> Mapping[str, list[RecordedCall]]:
    found: dict[str, list[RecordedCall]] = {}
    for call in calls:
        found.setdefault(call.endpoint, []).append(call)
    return found


class _Load:
    """The load of one engine over time, estimated from calls' start and end: each call's tokens are
    spread evenly over its time in the engine."""

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        self._calls = calls
        self._start = np.array([call.sent_s + call.held_s for call in calls])
        self._end = np.array([call.ended_s for call in calls])
        self._end = np.maximum(self._end, self._start + 1e-4)
        self._output = np.array([call.output for call in calls], dtype=float)
        self._fresh = np.array([call.prompt - call.cached for call in calls], dtype=float)
        context = np.array([call.prompt + call.output / 2 for call in calls])
        seconds = self._end - self._start
        self._edges = np.unique(np.concatenate([self._start, self._end]))
        self._here = self._integral(np.ones(len(calls)))
        self._tokens = self._integral(self._output / seconds)
        self._contexts = self._integral(context * self._output / seconds)

    def _integral(self, rates: Matrix) -> Matrix:
        """The integral, at each edge, of the summed `rates` of the calls present."""
        steps = np.zeros(len(self._edges))
        np.add.at(steps, np.searchsorted(self._edges, self._start), rates)
        np.add.at(steps, np.searchsorted(self._edges, self._end), -rates)
        level = np.cumsum(steps)[:-1]
        return np.concatenate([[0.0], np.cumsum(level * np.diff(self._edges))])

    def _between(self, integral: Matrix, start: Matrix, end: Matrix) -> Matrix:
        first, last = (np.interp(at, self._edges, integral) for at in (start, end))
        return np.asarray(last - first)

    def _admitted(self, start: Matrix, end: Matrix) -> tuple[Matrix, Matrix]:
        """Prompt tokens computed for the calls that arrived in each span, and their number."""
        order = np.argsort(self._start)
        tokens = np.concatenate([[0.0], np.cumsum(self._fresh[order])])
        first = np.searchsorted(self._start[order], start, side="left")
        last = np.searchsorted(self._start[order], end, side="left")
        return tokens[last] - tokens[first], (last - first).astype(float)

    def call_rows(self) -> tuple[Matrix, Matrix]:
        """Per call: iterations, prompt tokens, decoded tokens, contexts and admissions of the
        engine while the call was there; and the call's duration."""
        seconds = self._end - self._start
        others = self._between(self._here, self._start, self._end) / seconds
        contexts = self._between(self._contexts, self._start, self._end)
        tokens = np.maximum(self._between(self._tokens, self._start, self._end), 1e-9)
        fresh, came = self._admitted(self._start, self._end)
        mean_context = contexts / tokens
        columns = [self._output, fresh, self._output * others]
        columns += [self._output * others * mean_context, came]
        return np.stack(columns, axis=1), seconds

    def slice_rows(self, slices: int) -> tuple[Matrix, Matrix]:
        """Per time slice: the same sums, and how long any call was present."""
        bounds = np.linspace(self._edges[0], self._edges[-1], slices + 1)
        start, end = bounds[:-1], bounds[1:]
        there = np.concatenate([[0.0], np.cumsum((np.diff(self._here) > 0) * np.diff(self._edges))])
        busy = self._between(there, start, end)
        here = self._between(self._here, start, end) / np.maximum(busy, 1e-9)
        tokens = self._between(self._tokens, start, end)
        contexts = self._between(self._contexts, start, end)
        fresh, came = self._admitted(start, end)
        columns = [tokens / np.maximum(here, 1.0), fresh, tokens, contexts, came]
        kept = busy > 0
        return np.stack(columns, axis=1)[kept], busy[kept]


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """The recorded programs simulated under one policy."""

    policy: str
    outcome: Outcome
    engine_hours: float
    """Number of engines times the time until the last program ended."""

    def figures(self) -> dict[str, Any]:
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
            settings=SimulationSettings(calibration.hop_s, clients=recording.clients),
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
