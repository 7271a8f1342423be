"""Check the simulator: fit it to one arm of the scheduling bench and predict the other arms.

In: the bench's cells (``cells.jsonl``), as `Record`s or as their JSON. Out: the predicted steps per
minute of every other cell. Of a predicted cell only its inputs are used: sizes, pauses, sessions
and their start times.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from typing import Any

from tutti.tasks.serving.scheduling import POLICIES
from tutti.tasks.serving.simulation.calibrate import Calibration, calibrate, simulate_recording
from tutti.tasks.serving.simulation.engine import EngineModel
from tutti.tasks.serving.simulation.recording import RecordedCall, Recording
from tutti.tasks.serving.simulation.workload import HOP_S, SimulationError

FITTED_ARM, FITTED_SHAPE, FITTED_LOADS = "direct", "append", (0.5, 1.0, 3.0)
HOP_ARM = "passthrough"
HOPS_S = tuple(0.001 * step for step in (0, 1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 56, 80, 112))
FITTED_BLOCKS = 2
"""Blocks of each fitted load that the constants are fitted to."""
SLOWEST, HALVINGS = 4.0, 8
"""A block's speed factor is searched within this factor, to one hundredth of it."""
OK = 200
CAP = re.compile(r"cap-(\d+)")
PEER = re.compile(r"ThunderAgent-([0-9.]+)s")
ENGINES = {
    "small": EngineModel(
        "small",
        kv_tokens=32_768,
        max_num_seqs=64,
        iteration_s=3.12e-3,
        prefill_token_s=1.83e-5,
        decode_s=3.27e-5,
        context_token_s=7.55e-8,
        request_s=8.35e-4,
    ),
    "mid": EngineModel(
        "mid",
        kv_tokens=10_240,
        max_num_seqs=32,
        iteration_s=0.0193,
        prefill_token_s=7.59e-4,
        decode_s=2.01e-3,
        request_s=0.0164,
    ),
    "pocket": EngineModel(
        "pocket",
        kv_tokens=1_024,
        max_num_seqs=32,
        iteration_s=3.37e-3,
        prefill_token_s=6.3e-6,
        decode_s=1.36e-3,
        request_s=3.67e-3,
    ),
}
"""The set-ups' engines, fitted to real runs of vLLM on two CPU cores."""
Cell = Mapping[str, Any]


def policy_of(arm: str) -> str | None:
    """The policy of an arm of the bench; None if the simulator has none."""
    if arm == "direct":
        return "passthrough"
    if found := CAP.fullmatch(arm):
        return f"cap:{found[1]}"
    if found := PEER.fullmatch(arm):
        return f"thunderagent:interval_s={found[1]}" if "thunderagent" in POLICIES else None
    return arm if arm in POLICIES else None


def recording_of(record: Any) -> Recording:
    """A cell of the bench as a recording. Raises SimulationError if no step was answered."""
    cell = _plain(record)
    spec = cell["spec"]
    engine = ENGINES[spec["setup"]]
    steps = [dict(zip(cell["columns"], row, strict=True)) for row in cell["steps"]]
    calls = tuple(
        RecordedCall(
            program=str(int(step["program"])),
            sent_s=step["intended_s"],
            ended_s=step["ended_s"],
            held_s=0.0,
            prompt=int(step["prompt_tokens"]),
            cached=int(step["cached_tokens"]),
            output=int(step["completion_tokens"]),
            kept=int(step["reusable_tokens"]),
            pause_s=step["tool_end_s"] - step["ended_s"],
        )
        for step in steps
        if step["status"] == OK
    )
    if not calls:
        raise SimulationError(f"{_group(cell)} {spec['arm']}: no step was answered")
    return Recording(
        cell_id=f"{_group(cell)}/{spec['block']}/{spec['arm']}",
        policy=policy_of(spec["arm"]) or spec["arm"],
        sessions=spec["sessions"],
        calls=calls,
        kv_tokens=engine.kv_tokens,
        max_num_seqs=engine.max_num_seqs,
        max_batched_tokens=engine.max_batched_tokens,
        released=spec["shape"] != "no_release",
        streams=False,
        gateway=spec["arm"] != FITTED_ARM,
        back_to_back=True,
    )


def is_fitted(record: Any) -> bool:
    """Whether the constants are fitted to this cell."""
    return _plain(record)["spec"]["arm"] == FITTED_ARM and is_fit_for(record)


def is_fit_for(record: Any) -> bool:
    """Whether the constants are fitted to cells of this shape, load and block."""
    cell = _plain(record)
    spec = cell["spec"]
    place = spec["shape"] == FITTED_SHAPE and float(spec["load"]) in FITTED_LOADS
    return place and spec["block"] < FITTED_BLOCKS and not cell["cut"]


def calibrations_of(records: Iterable[Any]) -> dict[str, Calibration]:
    """The constants of each set-up, fitted to its cells."""
    found: dict[str, list[Recording]] = defaultdict(list)
    for record in records:
        if is_fitted(record):
            found[_plain(record)["spec"]["setup"]].append(recording_of(record))
    return {setup: calibrate(recordings) for setup, recordings in found.items()}


class Predictor:
    """Predicts steps per minute of the bench's cells by simulation, from a cell's spec and record.

    The speed of a shared machine varies from minute to minute. So the constants, fitted to few
    cells, are scaled in each block by one factor such that the fitted arm's rate is matched. The
    gateway's hop is fitted to the arm `passthrough`, if there is one.
    """

    def __init__(self, records: Iterable[Any]) -> None:
        cells = [_plain(record) for record in records]
        self.calibrations = calibrations_of(cells)
        self._fitted_arm = {
            (_group(cell), cell["spec"]["block"]): cell
            for cell in cells
            if cell["spec"]["arm"] == FITTED_ARM and not cell["cut"]
        }
        self._engines: dict[tuple[str, int], EngineModel] = {}
        hops = [cell for cell in cells if cell["spec"]["arm"] == HOP_ARM and is_fit_for(cell)]
        self.hop_s = self._fit_hop(hops)
        self.told = {FITTED_ARM, HOP_ARM} if hops else {FITTED_ARM}
        """Arms that the constants are fitted to; they are not predicted."""

    def __call__(self, spec: Any, record: Any) -> float | None:
        """The predicted rate; None for a cell of a fitted arm, an incomplete cell, an arm that
        cannot be simulated, or a set-up without a fitted cell."""
        cell = _plain(record)
        arm = cell["spec"]["arm"]
        if arm in self.told or cell["cut"] or policy_of(arm) is None:
            return None
        engine = self._engine(cell)
        if engine is None:
            return None
        return simulate_recording(recording_of(cell), engine, self.hop_s).steps_per_min

    def _fit_hop(self, cells: Sequence[Cell]) -> float:
        """Fit the hop that best matches the measured rates of `cells`."""
        runs = [(recording_of(cell), self._engine(cell), _rate(cell)) for cell in cells]
        known = [(run, engine, rate) for run, engine, rate in runs if engine is not None]
        if not known:
            return HOP_S

        def error(hop_s: float) -> float:
            said = (simulate_recording(run, engine, hop_s) for run, engine, _ in known)
            pairs = zip(said, known, strict=True)
            return sum(math.log(each.steps_per_min / rate) ** 2 for each, (_, _, rate) in pairs)

        return min(HOPS_S, key=error)

    def _engine(self, cell: Cell) -> EngineModel | None:
        calibration = self.calibrations.get(cell["spec"]["setup"])
        if calibration is None:
            return None
        place = (_group(cell), cell["spec"]["block"])
        if place not in self._engines:
            engine, fitted = calibration.engine, self._fitted_arm.get(place)
            self._engines[place] = engine if fitted is None else at_speed_of(fitted, engine)
        return self._engines[place]


def slower(engine: EngineModel, factor: float) -> EngineModel:
    """The same engine on a machine that takes `factor` times as long."""
    return replace(
        engine,
        iteration_s=engine.iteration_s * factor,
        prefill_token_s=engine.prefill_token_s * factor,
        decode_s=engine.decode_s * factor,
        context_token_s=engine.context_token_s * factor,
        request_s=engine.request_s * factor,
    )


def at_speed_of(record: Any, engine: EngineModel) -> EngineModel:
    """The engine model scaled so that the cell's simulated rate matches the measured one."""
    cell = _plain(record)
    recording, measured = recording_of(cell), _rate(cell)
    low, high = -math.log(SLOWEST), math.log(SLOWEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        said = simulate_recording(recording, slower(engine, math.exp(middle))).steps_per_min
        low, high = (middle, high) if said > measured else (low, middle)
    return slower(engine, math.exp((low + high) / 2))


def _rate(cell: Cell) -> float:
    rate: float = cell["measures"]["steps_per_min"]
    return rate


def _group(cell: Cell) -> str:
    spec = cell["spec"]
    return f"{spec['setup']}_{spec['load']:g}x_{spec['shape']}"


def _plain(record: Any) -> Cell:
    if is_dataclass(record) and not isinstance(record, type):
        return asdict(record)
    cell: Cell = record
    return cell
