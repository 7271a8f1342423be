"""Tests of ATIF trajectories and Harbor's job folders."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.exchange.imported import (
    DROP,
    Record,
    changed,
    mutations,
    said,
    taken,
    write_json,
)
from tests.exchange.test_load import counts, trial, trials
from tutti import storage
from tutti.tasks.exchange.atif import read, write
from tutti.tasks.exchange.base.imported import ImportedAttempt
from tutti.tasks.exchange.base.stored import stored_trials
from tutti.tasks.exchange.loader import load

TRAJECTORY: Record = {
    "schema_version": "ATIF-v1.6",
    "session_id": "session-1",
    "agent": {"name": "terminus", "version": "2.0", "model_name": "big"},
    "steps": [
        {
            "step_id": 1,
            "timestamp": "2026-01-02T03:04:05Z",
            "source": "user",
            "message": "make hello.txt",
        },
        {
            "step_id": 2,
            "timestamp": "2026-01-02T03:04:09.5Z",
            "source": "agent",
            "message": "I write it",
            "reasoning_content": "easy",
            "tool_calls": [
                {
                    "tool_call_id": "c1",
                    "function_name": "bash",
                    "arguments": {"z": 1, "cmd": "echo hi > hello.txt"},
                }
            ],
            "observation": {"results": [{"source_call_id": "c1", "content": "done"}]},
            "metrics": {
                "prompt_tokens": 100,
                "completion_tokens": 12,
                "cached_tokens": 60,
                "cost_usd": 0.01,
                "logprobs": [-0.1, -0.2],
                "completion_token_ids": [5, 6],
            },
        },
        {"step_id": 3, "source": "agent", "message": "finished", "llm_call_count": 0},
    ],
    "final_metrics": {"total_prompt_tokens": 100, "total_completion_tokens": 12},
}
RESULT: Record = {
    "task_name": "hello",
    "trial_name": "hello__abc",
    "source": "terminal-bench",
    "agent_info": {"name": "terminus", "version": "2", "model_info": {"name": "big"}},
    "agent_result": {"n_input_tokens": 101, "n_output_tokens": 13, "cost_usd": 0.5},
    "verifier_result": {"rewards": {"style": 0.5, "reward": 1.0}},
    "started_at": "2026-01-02T03:00:00Z",
    "finished_at": "2026-01-02T03:10:00Z",
    "config": {"job_id": "job-7"},
}


def _ours() -> Record:
    """Return the trajectory that tutti's own exporter writes for an attempt."""
    with tempfile.TemporaryDirectory() as folder:
        (path,) = write(iter([trial(1)]), Path(folder))
        found: Record = json.loads(path.read_text())
        return found


OURS = _ours()


def job(folder: Path, **results: Record) -> Path:
    """Write a job's folder with a trial for each result."""
    write_json(folder / "result.json", {"n_total_trials": len(results)})
    for name, result in results.items():
        write_json(folder / name / "result.json", result)
        write_json(folder / name / "agent" / "trajectory.json", TRAJECTORY)
    return folder


def test_a_trajectory(tmp_path: Path) -> None:
    path = write_json(tmp_path / "trajectory.json", TRAJECTORY)
    (found,), problems = taken(read(path, "run"))
    assert not problems
    assert (found.cell.run, found.cell.model, found.task_id) == ("run", "big", "session-1")
    assert [m["role"] for m in found.messages] == ["user", "assistant", "tool", "assistant"]
    said_by_agent = found.messages[1]
    assert said_by_agent["reasoning"] == "easy"
    assert said_by_agent["tool_calls"] == [
        {"id": "c1", "name": "bash", "arguments": '{"z": 1, "cmd": "echo hi > hello.txt"}'}
    ]
    (call,) = found.calls  # the last step was no model's
    assert said_by_agent["call_id"] == call["call_id"]
    assert (call["prompt_tokens"], call["cached_tokens"], call["completion_tokens"]) == (
        100,
        60,
        12,
    )
    assert (call["token_ids"], call["logprobs"]) == ([5, 6], [-0.1, -0.2])
    (run,) = found.tool_runs
    assert (run["name"], run["result"], run["step"]) == ("bash", "done", 1)
    assert found.outcome["answer"] == "finished"
    seconds = found.outcome["ended_at"] - found.outcome["started_at"]
    assert seconds.total_seconds() == 4.5


def test_a_job_of_harbor(tmp_path: Path) -> None:
    fault = {"exception_type": "AgentTimeoutError", "exception_message": "too slow"}
    late = RESULT | {"trial_name": "hello__xyz", "exception_info": fault}
    lost = {"exception_type": "SandboxBuildFailedError", "exception_message": "no disk"}
    broken = RESULT | {"trial_name": "hello__qqq", "exception_info": lost}
    folder = job(tmp_path / "jobs", a=RESULT, b=late, c=broken)
    found, problems = taken(read(folder, "run"))
    first, second, third = found
    assert not problems
    assert (first.cell.run, first.cell.benchmark, first.task_id) == (
        "job-7",
        "terminal-bench",
        "hello",
    )
    assert len({t.trial for t in found}) == 3
    assert (first.outcome["status"], first.outcome["score"]) == ("ok", 1.0)
    assert first.outcome["prompt_tokens"] == 101 and first.outcome["working_s"] == 600.0
    assert [row["scorer"] for row in first.scores] == ["style", "reward"]
    assert (second.outcome["status"], second.outcome["score"]) == ("limit", 1.0)
    assert (third.outcome["status"], third.outcome.get("score")) == ("infra_error", None)
    assert [
        taken(read(path, "run"))[0][0].trial
        for path in (folder / "b", folder / "b" / "result.json")
    ] == [second.trial] * 2


def test_a_job_that_grows_adds_its_new_trials(tmp_path: Path, catalog: storage.Catalog) -> None:
    folder = job(tmp_path / "jobs", m=RESULT)
    assert load(catalog, read(folder, "run"), "atif").taken == 1
    before = counts(catalog.home)
    assert load(catalog, read(folder, "run"), "atif").taken == 0
    assert counts(catalog.home) == before
    job(folder, a=RESULT | {"trial_name": "hello__aaa"})
    report = load(catalog, read(folder, "run"), "atif")
    assert (report.taken, report.there) == (1, 1)


def test_a_trial_without_a_whole_trajectory_keeps_its_outcome(tmp_path: Path) -> None:
    folder = job(tmp_path / "jobs", a=RESULT, b=RESULT | {"trial_name": "other"})
    (folder / "a" / "agent" / "trajectory.json").unlink()
    (folder / "b" / "agent" / "trajectory.json").write_text("{")
    found, problems = taken(read(folder, "run"))
    assert [t.outcome["score"] for t in found] == [1.0, 1.0]
    assert len(problems) == 2 and not any(t.messages for t in found)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("schema_version", "ATIF-v2.0", "schema_version"),
        ("schema_version", DROP, "schema_version"),
        ("steps", [], "steps"),
        ("steps.1.source", "robot", "steps.1.source"),
        ("steps.1.tool_calls.0.function_name", [], "steps.1.tool_calls.0.function_name"),
        ("steps.1.message", 5, "steps.1.message"),
    ],
)
def test_what_cannot_be_taken_is_named(tmp_path: Path, path: str, value: Any, field: str) -> None:
    file = write_json(tmp_path / "a_trajectory.json", changed(TRAJECTORY, path, value))
    write_json(tmp_path / "b_trajectory.json", TRAJECTORY)
    found, problems = taken(read(tmp_path, "run"))
    assert len(found) == 1
    assert field in [problem.field for problem in problems]
    assert {problem.file for problem in problems} == {file}


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("steps.1.metrics.prompt_tokens", "many", "steps.1.metrics.prompt_tokens"),
        ("steps.1.timestamp", "noon", "steps.1.timestamp"),
        ("final_metrics.total_cost_usd", -1, "final_metrics.total_cost_usd"),
        ("subagent_trajectories", [{}], "subagent_trajectories"),
    ],
)
def test_a_minor_field_costs_itself(tmp_path: Path, path: str, value: Any, field: str) -> None:
    file = write_json(tmp_path / "trajectory.json", changed(TRAJECTORY, path, value))
    found, problems = taken(read(file, "run"))
    assert len(found) == 1 and said(problems) == [(None, field)]


@settings(
    max_examples=settings().max_examples * 3 // 2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(mutations(TRAJECTORY))
def test_no_trajectory_is_a_crash(tmp_path: Path, record: Record) -> None:
    """A trajectory with any one value replaced is imported or reported."""
    found, problems = taken(read(write_json(tmp_path / "trajectory.json", record), "run"))
    assert found or problems


def test_there_and_back(catalog: storage.Catalog, tmp_path: Path, monkeypatch: Any) -> None:
    """Our own trajectories lose only their retrievals and are imported unchanged."""
    odd = trial(9, calls=[], tool_runs=[])
    odd.messages = [
        {"role": "developer", "content": "rules"},
        {"role": "tool", "content": "unasked", "name": "bash"},
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [{"id": "y", "name": "f", "arguments": "{"}],
        },
    ]
    load(catalog, [*trials(3), odd], "test")
    ours = _comparable(catalog.home)
    out = tmp_path / "out"
    out.mkdir()
    connection = storage.connect(catalog.home)
    paths = write(stored_trials(connection), out)
    connection.close()
    assert len(paths) == 4
    assert load(catalog, read(out, "x"), "atif").taken == 0
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    other = storage.Home(tmp_path / "other")
    with storage.open_catalog(other) as empty:
        report = load(empty, read(out, "x"), "atif")
    assert not report.problems
    back = _comparable(other)
    assert back.keys() == ours.keys()
    for task_id, whole in ours.items():
        for name, value in whole.items():
            assert back[task_id][name] == value, (task_id, name)


def _comparable(home: storage.Home) -> dict[str, dict[str, Any]]:
    connection = storage.connect(home)
    dropped = ("cell", "origin", "retrievals")
    found = {
        t.task_id: {name: value for name, value in vars(t).items() if name not in dropped}
        for t in _all(stored_trials(connection))
    }
    connection.close()
    return found


def _all(found: Iterator[ImportedAttempt]) -> list[ImportedAttempt]:
    return list(found)


def test_a_written_trajectory_keeps_the_rules(tmp_path: Path) -> None:
    """The rules of Harbor's validator beyond types hold; its models were run on our output."""
    paths = write(iter([trial(1), trial(2, messages=[])]), tmp_path)
    for path in paths:
        document = json.loads(path.read_text())
        assert [step["step_id"] for step in document["steps"]] == list(
            range(1, len(document["steps"]) + 1)
        )
        for step in document["steps"]:
            known = {call["tool_call_id"] for call in step.get("tool_calls", ())}
            results = step.get("observation", {}).get("results", [])
            assert all(r.get("source_call_id", next(iter(known), "")) in known for r in results)
            if step["source"] != "agent":
                assert (
                    not {"tool_calls", "metrics", "reasoning_content", "model_name"} & step.keys()
                )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("extra.tutti.trial", None),
        ("extra.tutti.trial", "0"),
        ("extra.tutti.attempt", 0),
    ],
)
def test_a_trial_of_ours_without_its_place_is_named(
    tmp_path: Path, catalog: storage.Catalog, path: str, value: Any
) -> None:
    """The error used to be "other imports enter the same attempts; try again later" at every
    try."""
    file = write_json(tmp_path / "trajectory.json", changed(OURS, path, value))
    report = load(catalog, read(file, "run"), "atif")
    assert report.taken == 0
    assert {(problem.file, problem.field) for problem in report.problems} == {(file, path)}


@settings(
    max_examples=settings().max_examples * 3 // 5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(record=mutations(OURS))
@example(record=changed(OURS, "extra.tutti.trial", None))
def test_what_we_wrote_and_somebody_changed_is_no_crash(
    record: Record, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    path = write_json(folder / "trajectory.json", record)
    with storage.open_catalog(storage.Home(folder / "store")) as catalog:
        report = load(catalog, read(path, "run"), "atif")
    assert report.taken or report.problems
