"""Tests of Terminal-Bench's own results: its verdicts become attempts, and its figures equal ours.

`RESOLVED` and `NUMBERS` are the output of `BenchmarkResults` of terminal-bench 0.2.18 for these
trials.
"""

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.exchange.imported import (
    DROP,
    Record,
    changed,
    keys,
    mutations,
    taken,
    write_json,
)
from tutti import storage
from tutti.tasks.exchange import detect, load
from tutti.tasks.exchange.base.imported import ImportedAttempt
from tutti.tasks.exchange.terminal_bench import STATUS, read

RUN = "2026-11-24__01-00-00"
RESOLVED = {"fix-git": (2,), "hello-world": (2,), "vim-quine": (1, 2, 3)}
"""The trials that are resolved, of five of each task."""
NUMBERS: Record = {
    "pass_at_k": {"2": 0.5666666666666668, "4": 0.8666666666666667, "5": 1.0},
    "n_resolved": 5,
    "accuracy": 0.3333333333333333,
}
METADATA: Record = {
    "run_id": RUN,
    "dataset_name": "terminal-bench-core",
    "dataset_version": "0.1.1",
    "agent_name": "terminus",
    "model_name": "anthropic/m",
    "n_concurrent_trials": 4,
    "n_attempts": 5,
    "username": "somebody",
}


def trial_record(
    task: str, number: int = 1, resolved: bool | None = True, mode: str = "unset", **more: Any
) -> Record:
    tests = {"test_a": "passed", "test_b": "passed" if resolved else "failed"}
    return {
        "trial_name": f"{task}.{number}-of-5.{RUN}",
        "task_id": task,
        "instruction": f"Do {task}.",
        "is_resolved": resolved,
        "failure_mode": mode,
        "parser_results": None if resolved is None else tests,
        "total_input_tokens": 1000,
        "total_output_tokens": 0,
        "trial_started_at": "2026-11-24T01:00:00+00:00",
        "trial_ended_at": "2026-11-24T01:02:00+00:00",
        "agent_started_at": "2026-11-24T01:00:05.5+00:00",
        "agent_ended_at": "2026-11-24T01:01:05.5+00:00",
    } | more


def all_trials() -> list[Record]:
    """Return trials with all failure modes, resolved or not; in most modes the tests of a trial
    run."""
    modes = list(STATUS) * 2
    return [
        trial_record(task, number, number in RESOLVED[task] or None, modes.pop())
        for number in range(5, 0, -1)
        for task in RESOLVED
    ]


def a_run(folder: Path, *trials: Record, **more: Any) -> Path:
    """Write a run's folder and return its results.json."""
    write_json(folder / "run_metadata.json", METADATA)
    return write_json(folder / "results.json", {"results": trials} | more)


def only(tmp_path: Path, record: Record) -> ImportedAttempt:
    """Return the attempt of a run with one trial and no issues."""
    trials, problems = taken(read(a_run(tmp_path, record), "run"))
    assert problems == []
    (trial,) = trials
    return trial


def test_the_numbers_are_the_files_own(catalog: storage.Catalog, tmp_path: Path) -> None:
    """Accuracy, resolved trials and pass@k agree with the report's view and macro."""
    a_run(tmp_path / RUN, *all_trials(), **NUMBERS)
    done = load(catalog, read(tmp_path, "given"), "terminal-bench")
    assert (done.taken, done.problems_total, list(done.sweeps.values())) == (15, 0, [RUN])
    with closing(storage.connect(catalog.home)) as connection:
        (row,) = connection.execute("select n, correct, score from results").fetchall()
        assert row[:2] == (15, NUMBERS["n_resolved"])
        assert row[2] == pytest.approx(NUMBERS["accuracy"], abs=1e-12)
        for k, value in NUMBERS["pass_at_k"].items():
            sql = f"select value, n_left_out from pass_at_k('{RUN}', {k})"
            assert connection.execute(sql).fetchall() == [(pytest.approx(value, abs=1e-12), 0)]
    assert load(catalog, read(tmp_path, "given"), "terminal-bench").there == 15


def test_a_trial_becomes_an_attempt(tmp_path: Path) -> None:
    """The trial's number is part of its name; 0 tokens mean that the agent did not report any."""
    trial = only(tmp_path, trial_record("vim-quine", 3))
    cell = trial.cell
    assert (cell.run, cell.benchmark, cell.model) == (RUN, "terminal-bench-core", "anthropic/m")
    assert (cell.concurrency, cell.detail["agent_name"]) == (4, "terminus")
    assert "username" not in cell.detail
    assert (trial.task_id, trial.trial) == ("vim-quine", 2)
    assert trial.outcome == {
        "status": "ok",
        "stop_reason": "ended",
        "started_at": datetime(2026, 11, 24, 1, 0, 5, 500_000, UTC),
        "ended_at": datetime(2026, 11, 24, 1, 1, 5, 500_000, UTC),
        "working_s": 60.0,
        "prompt_tokens": 1000,
        "score": 1.0,
        "correct": True,
    }
    assert trial.messages == [{"role": "user", "content": "Do vim-quine."}]
    (score,) = trial.scores
    assert (score["scorer"], score["value"], score["correct"]) == ("terminal-bench", 1.0, True)
    assert json.loads(score["detail"])["tests"] == {"test_a": "passed", "test_b": "passed"}


@pytest.mark.parametrize("mode", STATUS)
def test_every_failure_counts(tmp_path: Path, mode: str) -> None:
    trial = only(tmp_path, trial_record("a", 1, None, mode))
    assert trial.outcome["status"] in ("ok", "limit", "model_error")
    assert trial.outcome["correct"] is False
    assert json.loads(trial.scores[0]["detail"])["failure_mode"] == mode
    assert trial.outcome["stop_reason"] == ("ended" if mode in ("unset", "none") else mode)


def test_folders_of_runs_and_runs_without_a_whole_file(tmp_path: Path) -> None:
    """A trial's own file is read if its run has none, and never twice."""
    trials = {number: trial_record("a", number) for number in (1, 2)}
    for run in ("one", "two"):
        a_run(tmp_path / run, *trials.values())
        write_json(tmp_path / run / "run_metadata.json", METADATA | {"run_id": run})
        for number, record in trials.items():
            write_json(tmp_path / run / "a" / f"a.{number}" / "results.json", record)
    (tmp_path / "two" / "results.json").unlink()
    found, problems = taken(read(tmp_path, "given"))
    assert problems == []
    assert sorted((t.cell.run, t.trial) for t in found) == [
        (run, number) for run in ("one", "two") for number in (0, 1)
    ]
    single = tmp_path / "two" / "a" / "a.2" / "results.json"
    ((trial,), problems) = taken(read(single, "given"))
    assert (trial.cell.run, trial.trial, problems) == ("two", 1, [])
    for path in (tmp_path, single, tmp_path / "one" / "results.json"):
        assert detect(path) == "terminal-bench"


def test_an_agents_logs_do_not_hide_the_format(tmp_path: Path) -> None:
    a_run(tmp_path, trial_record("a"))
    write_json(tmp_path / "tb.lock", {})
    write_json(tmp_path / "a" / "a.1" / "agent-logs" / "x.trajectory.json", {})
    assert detect(tmp_path) == "terminal-bench"


def test_without_metadata_the_trials_are_taken(tmp_path: Path) -> None:
    """The missing file is reported; trials without a number in their name are numbered
    consecutively."""
    records = [trial_record("a", trial_name=name) for name in ("x", "y")]
    file = write_json(tmp_path / "results.json", {"results": records})
    trials, problems = taken(read(file, "given"))
    assert [(trial.cell.run, trial.cell.model, trial.trial) for trial in trials] == [
        ("given", "unknown", 0),
        ("given", "unknown", 1),
    ]
    assert [problem.file.name for problem in problems] == ["run_metadata.json"]


@pytest.mark.parametrize(
    ("where", "value", "kept"),
    [
        ("task_id", DROP, False),
        ("is_resolved", DROP, False),
        ("is_resolved", "yes", False),
        ("failure_mode", "meteor", True),
        ("total_input_tokens", -1, True),
        ("agent_started_at", "noon", True),
        ("parser_results", [], True),
        ("instruction", 7, True),
    ],
)
def test_a_bad_field_is_named(tmp_path: Path, where: str, value: Any, kept: bool) -> None:
    bad = changed(trial_record("b"), where, value)
    file = a_run(tmp_path, trial_record("a"), bad, trial_record("c"))
    trials, problems = taken(read(file, "run"))
    assert [trial.task_id for trial in trials] == (["a", "b", "c"] if kept else ["a", "c"])
    assert problems[0].field == f"results.1.{where}"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"results": 3}', '{"results": [3]}'])
def test_other_files_are_problems(tmp_path: Path, text: str) -> None:
    write_json(tmp_path / "run_metadata.json", METADATA)
    (tmp_path / "results.json").write_text(text)
    for path in (tmp_path, tmp_path / "results.json"):
        trials, problems = taken(read(path, "run"))
        assert (trials, bool(problems)) == ([], True)
    (tmp_path / "empty").mkdir()
    assert "there is no results.json" in str(taken(read(tmp_path / "empty", "run"))[1][0])


@given(bad=mutations(trial_record("b")))
def test_no_trial_costs_another_its_attempt(
    tmp_path_factory: pytest.TempPathFactory, bad: Record
) -> None:
    file = a_run(tmp_path_factory.mktemp("t"), trial_record("a"), bad, trial_record("c"))
    trials, _ = taken(read(file, "run"))
    assert {"a", "c"} <= {trial.task_id for trial in trials}
    assert keys(trials) == keys(taken(read(file, "run"))[0])


@pytest.mark.parametrize("digits", [20, 5000])
def test_a_trials_number_beyond_use_is_no_number(tmp_path: Path, digits: int) -> None:
    """The import continues, and the trial gets the next number of its task."""
    record = trial_record("vim-quine") | {"trial_name": f"vim-quine.{'9' * digits}-of-5.{RUN}"}
    assert only(tmp_path, record).trial == 0
