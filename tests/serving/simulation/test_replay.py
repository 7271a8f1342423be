"""Tests of a recorded run: read from the store, fitted, simulated; and the errors if that is not
possible."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.serving.simulation.driving import recorded
from tests.serving.simulation.workloads import (
    SMALL,
    SMALL_WORK,
    Workload,
    constant,
    simulate_work,
    uniform,
)
from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.serving.simulation import EngineModel, SimulationError
from tutti.tasks.serving.simulation.calibrate import (
    calibrate,
    read_calibration,
    replay,
    simulate_recording,
)
from tutti.tasks.serving.simulation.recording import (
    RecordedCall,
    Recording,
    load_recording,
    stored_policy,
)
from tutti.tasks.serving.simulation.workload import parse_policy

WORK = replace(SMALL_WORK, programs=24, turns=constant(6), tool_s=uniform(0.02, 0.1))
ENGINE = EngineModel("e", kv_tokens=8_192, iteration_s=4e-3, prefill_token_s=6e-5, request_s=1e-3)
BEGAN = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded(WORK, 12, ENGINE)


def commit(catalog: storage.Catalog, recording: Recording, policy: str = "cap") -> None:
    spec = json.dumps({"policies": [{"name": "cap", "limit": 3}]})
    sweep = {"sweep_id": "sweep:1", "name": "s", "spec": spec, "created_at": cat.now()}
    catalog.upsert(cat.sweeps, sweep)
    settings = {"kv_blocks": 256, "max_sequences": 64, "max_batched_tokens": 2048}
    detail = json.dumps({"settings": settings})
    artifact = {"artifact_id": "engine:1", "kind": "engine", "detail": detail}
    catalog.upsert(cat.artifacts, artifact | {"created_at": cat.now()})
    cell: dict[str, Any] = {"cell_id": "cell:1", "sweep_id": "sweep:1", "benchmark": "b"}
    cell |= {"policy": policy, "concurrency": recording.sessions, "repeat": 0, "position": 0}
    cell |= {"model": "m", "task_set_id": "task_set:1", "index_id": "index:1"}
    cell |= {"engine_id": "engine:1", "samples": 1, "status": "finished"}
    catalog.upsert(cat.cells, cell)
    rows = [
        {"cell_id": "cell:1", "sweep_id": "sweep:1", "call_id": f"c{nth}", "step": nth}
        | {"attempt_id": call.program, "role": "orchestrator", "status": "ok"}
        | {"sent_at": BEGAN + timedelta(seconds=call.sent_s), "held_s": call.held_s}
        | {"ended_at": BEGAN + timedelta(seconds=call.ended_s), "latency_s": call.latency_s}
        | {"prompt_tokens": call.prompt, "cached_tokens": call.cached, "endpoint": "u"}
        | {"completion_tokens": call.output}
        for nth, call in enumerate(recording.calls)
    ]
    storage.commit(catalog, {"calls": rows})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[storage.Catalog]:
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        yield catalog


@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        ({"policies": ["passthrough", {"name": "cap", "limit": 5}]}, "cap:5"),
        ({"policies": ["passthrough", "cap"]}, "cap:8"),
        ({"imported": "verifiers"}, "cap"),
    ],
)
def test_a_cells_cap_is_what_its_suite_says(spec: dict[str, Any], policy: str) -> None:
    assert stored_policy("cap", spec) == policy
    assert (
        stored_policy("adaptive", spec) == "adaptive" and stored_policy(None, spec) == "passthrough"
    )


def test_a_run_is_read_back_from_the_store(catalog: storage.Catalog, recording: Recording) -> None:
    """Programs, sizes, pauses, the sweep's cap and the engine's sizes are read back."""
    commit(catalog, recording)
    found = load_recording("cell:1", catalog.home)
    assert (found.policy, found.sessions, found.engines) == ("cap:3", 12, 1)
    assert (found.kv_tokens, found.max_num_seqs) == (8_192, 64)
    theirs = {plan.name: plan.turns for plan in recording.plans()}
    for plan in found.plans():
        turns = theirs.pop(plan.name)
        assert [turn.prompt for turn in plan.turns] == [turn.prompt for turn in turns]
        pauses = [turn.tool_s for turn in turns]
        assert [turn.tool_s for turn in plan.turns] == pytest.approx(pauses, abs=2e-6)
    assert not theirs


def test_a_recorded_run_simulated_again_is_that_run(recording: Recording) -> None:
    """The same programs on the same engine have the same rate, hits and latencies."""
    said, was = simulate_recording(recording, ENGINE), recording.measured()
    assert said.steps_per_min_all == pytest.approx(was.steps_per_min_all, rel=0.03)
    assert said.hit_share == pytest.approx(was.hit_share, abs=0.02)
    assert said.latency_p50_s == pytest.approx(was.latency_p50_s, rel=0.05)


def test_constants_fitted_to_one_run_predict_another_policy(recording: Recording) -> None:
    """The predicted cases are cap, and four times the sessions that a cap admits, which were not
    used for the fit."""
    fitted = calibrate([recording], simulations=60)
    assert abs(fitted.residuals[0].steps_per_min) < 0.05
    said = replay(recording, ["cap:4"], fitted).runs[0]
    truth = simulate_work(WORK, 12, [ENGINE], parse_policy("cap:4"))
    assert said.steps_per_min_all == pytest.approx(truth.steps_per_min_all, rel=0.12)


def test_a_calibration_is_kept_as_json(recording: Recording, tmp_path: Path) -> None:
    fitted = calibrate([recording], simulations=4)
    fitted.write(tmp_path / "c.json")
    assert read_calibration(tmp_path / "c.json") == fitted
    written = json.loads((tmp_path / "c.json").read_text())
    assert (written["calls"], written["residuals"][0]["cell"]) == (144, "cell:sim")
    (tmp_path / "c.json").write_text('{"tutti_calibration": 1, "engine": {"name": "x"}}')
    with pytest.raises(SimulationError, match=r"c\.json"):
        read_calibration(tmp_path / "c.json")
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(SimulationError, match="not a calibration of version 1"):
        read_calibration(tmp_path / "c.json")


def test_a_replay_says_how_well_it_tells_the_run_and_what_would_be(recording: Recording) -> None:
    """The examples have more engines and more cache; nothing is fitted if constants are given."""
    fitted = calibrate([recording], simulations=20)
    sizes = {"engines": 2, "kv_tokens": 65_536, "sessions": 24}
    found = replay(recording, ["passthrough", "cap:6"], fitted, **sizes)
    assert abs(found.validation.steps_per_min) < 0.1
    assert [run.policy for run in found.runs] == ["passthrough", "cap:6"]
    ample = found.runs[0]
    assert ample.steps == 144
    assert ample.hit_share > found.measured.hit_share
    assert ample.engine_hours == pytest.approx(2 * ample.makespan_s / 3600)
    assert json.loads(json.dumps(found.as_json()))["runs"][1]["policy"] == "cap:6"


def test_what_cannot_be_simulated_is_told(catalog: storage.Catalog, recording: Recording) -> None:
    """The errors are a missing cell, a cell without calls, an unknown size and an unknown
    policy."""
    with pytest.raises(SimulationError, match="no cell 'cell:x'"):
        load_recording("cell:x", catalog.home)
    commit(catalog, replace(recording, calls=()))
    with pytest.raises(SimulationError, match="cell:1: no call was answered"):
        load_recording("cell:1", catalog.home)
    with pytest.raises(SimulationError, match="KV size is not recorded; give --kv-tokens"):
        replay(replace(recording, kv_tokens=None))
    with pytest.raises(SimulationError, match="no policy 'capp' in 'capp:3'"):
        replay(recording, ["capp:3"])


def test_sessions_wait_between_programs_as_they_did() -> None:
    spans = [("a", 0.0, 1.0), ("b", 0.1, 2.0), ("c", 1.4, 1.9)]
    calls = tuple(RecordedCall(name, at, end, 0.0, 64, 0, 8) for name, at, end in spans)
    plans = Recording("c", "passthrough", 2, calls).plans()
    assert [plan.arrives_s for plan in plans] == pytest.approx([0.0, 0.1, 0.4])
    assert Recording("c", "x", 2, calls, back_to_back=True).plans()[2].arrives_s == 0


def test_calls_that_overlapped_follow_each_other() -> None:
    calls = (RecordedCall("a", 0, 2, 0, 64, 0, 8), RecordedCall("a", 1, 3, 0, 80, 64, 8))
    (plan,) = Recording("c", "passthrough", 1, calls).plans()
    assert [turn.tool_s for turn in plan.turns] == [0.0, 0.0]


def test_a_share_that_is_recorded_is_kept() -> None:
    calls = tuple(RecordedCall("a", float(n), n + 0.5, 0, 320, 128 * (n > 0), 16) for n in range(3))
    (plan,) = Recording("c", "passthrough", 1, calls).plans()
    assert [turn.kept for turn in plan.turns] == [0, 320, 320]
    told = tuple(replace(call, kept=64) for call in calls)
    (plan,) = Recording("c", "passthrough", 1, told).plans()
    assert {turn.kept for turn in plan.turns} == {64}


def test_a_beginning_common_to_all_programs_is_seen_in_their_first_calls() -> None:
    work = Workload(
        20, constant(2), constant(50), constant(30), constant(8), constant(0.01), shared_tokens=64
    )
    assert recorded(work, 4, SMALL).shared_tokens == 64
    assert recorded(replace(work, shared_tokens=0), 4, SMALL).shared_tokens == 0
