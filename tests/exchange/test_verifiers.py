"""Tests of rollouts of verifiers and prime-rl, in the formats that verifiers 0.1.9, 0.2 and 0.4
write."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.imported import (
    DROP,
    Record,
    changed,
    check_others_are_kept,
    keys,
    mutated_lines,
    said,
    taken,
    write_json,
    write_lines,
)
from tutti.tasks.exchange.base.imported import ImportedAttempt
from tutti.tasks.exchange.verifiers import read

T0 = 1_780_000_000.0
METADATA = {
    "env_id": "math-env",
    "env_args": {},
    "model": "org/m-8b",
    "base_url": "http://x/v1",
    "num_examples": 2,
    "rollouts_per_example": 2,
    "sampling_args": {"temperature": 0.7},
    "pass_threshold": 0.5,
    "version_info": {"vf_version": "0.2.0", "vf_commit": None},
}


def step(tokens: list[int], logprobs: list[float], finish: str, prompt_tokens: int) -> Record:
    usage = {"prompt_tokens": prompt_tokens, "reasoning_tokens": 0, "completion_tokens": 5}
    return {
        "prompt": [{"role": "user", "content": "2+2?"}],
        "completion": [{"role": "assistant", "content": "4"}],
        "response": {
            "id": "r",
            "created": 1,
            "model": "org/m-8b",
            "usage": usage | {"total_tokens": prompt_tokens + 5},
            "message": {"role": "assistant", "content": "4", "finish_reason": finish},
        },
        "tokens": {
            "prompt_ids": [1, 2],
            "prompt_mask": [0, 0],
            "completion_ids": tokens,
            "completion_mask": [1] * len(tokens),
            "completion_logprobs": logprobs,
            "is_truncated": False,
        },
        "reward": None,
        "advantage": None,
        "trajectory_id": "t",
        "extras": {},
    }


def rollout(example_id: Any = 0, **more: Any) -> Record:
    """Return a line of results.jsonl (verifiers 0.2)."""
    call = json.dumps({"id": "c1", "name": "calc", "arguments": '{"e": "2+2"}'})
    asked = {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "hm"}
    spans = [{"start": T0 + 1, "end": T0 + 2, "duration": 1.0}]
    spans.append({"start": T0 + 3, "end": T0 + 4, "duration": 1.0})
    return {
        "example_id": example_id,
        "prompt": [{"role": "system", "content": "sys"}, {"role": "user", "content": "2+2?"}],
        "completion": [
            asked,
            {"role": "tool", "tool_call_id": "c1", "content": "4"},
            {"role": "assistant", "content": "It is 4."},
        ],
        "answer": "4",
        "info": {"k": 1},
        "reward": 1.0,
        "error": None,
        "timing": {
            "start_time": T0,
            "setup": {"start": T0, "end": T0 + 1, "duration": 1.0},
            "generation": {"start": T0 + 1, "end": T0 + 4, "duration": 3.0},
            "scoring": {"start": T0 + 4, "end": T0 + 5, "duration": 1.0},
            "model": {"spans": spans, "duration": 2.0},
            "env": {"spans": [], "duration": 0},
            "total": 4.0,
            "overhead": 1.0,
        },
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": "no_tools_called",
        "metrics": {"correct": 1.0, "num_turns": 2.0},
        "token_usage": {"input_tokens": 30.0, "output_tokens": 9.0},
        "correct": 1.0,
        "num_turns": 2.0,
        "trajectory": [
            step([4, 5], [-0.1, -0.2], "tool_calls", 10),
            step([7], [-0.01], "stop", 20),
        ],
    } | more


def node(parent: int | None, message: Record, tokens: list[int], mask: list[bool]) -> Record:
    """Return one message of a trace as it is written, without null fields."""
    found = {"semantic_parents": [], "message": message, "timestamp": T0, "is_content": []}
    found |= {"sampled": any(mask), "token_ids": tokens, "mask": mask}
    found["logprobs"] = [-0.5] * sum(mask)
    return found if parent is None else found | {"parent": parent}


def trace(key: str = "key0", name: str = "agent", **more: Any) -> Record:
    """Return a trace of verifiers 0.4."""
    asked = {"id": "c1", "type": "function", "name": "calc", "arguments": '{"e": "2+2"}'}
    said = {"role": "assistant", "reasoning_content": "use it", "tool_calls": [asked]}
    usage = {"prompt_tokens": 4, "completion_tokens": 2, "cached_input_tokens": 6, "cost": 0.5}
    return {
        "version": 1,
        "id": "5c1b",
        "verifiers": {"version": "0.4.0"},
        "task": {"type": "MathTask", "data": {"idx": 0, "prompt": "2+2?"}, "key": key, "hash": "h"},
        "agent": {
            "config": {
                "harness": {"id": "bash", "env": {"SECRET": "s"}},
                "model": "org/m-8b",
                "sampling": {"temperature": 0.7},
                "max_turns": 8,
            },
            "name": name,
            "trainable": True,
        },
        "tools": [],
        "nodes": [
            node(None, {"role": "system", "content": "Be short."}, [1, 2], [False, False]),
            node(0, {"role": "user", "content": "2+2?"}, [3], [False]),
            node(1, said, [5, 6, 7], [False, True, True]),
            node(2, {"role": "tool", "tool_call_id": "c1", "content": "4"}, [8], [False]),
            node(3, {"role": "assistant", "content": "4"}, [9, 10], [False, True]),
        ],
        "calls": [
            {
                "node": 2,
                "model": "org/m-8b",
                "sampling": {"temperature": 0.7},
                "endpoint": "/chat/completions",
                "finish_reason": "tool_calls",
                "usage": usage,
                "time": {"start": T0 + 1, "end": T0 + 2},
            },
            {
                "node": 4,
                "model": "org/m-8b",
                "finish_reason": "stop",
                "usage": {"prompt_tokens": 12, "completion_tokens": 1},
                "time": {"start": T0 + 3, "end": T0 + 4},
            },
        ],
        "rewards": {"correct": {"score": 1.0, "weight": 0.5}, "style": {"score": 0.2, "weight": 1}},
        "metrics": {"turns": 2.0},
        "info": {},
        "extra_usage": [{"prompt_tokens": 100, "completion_tokens": 3}],
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
        "is_timeout": False,
        "errors": [],
        "timing": {
            "start": T0,
            "agent": {"start": T0 + 1, "end": T0 + 4},
            "scoring": {"start": 0.0},
        },
    } | more


def episode(*traces: Record, key: str = "key0", **more: Any) -> Record:
    """Return a line of traces.jsonl (verifiers 0.4, prime-rl)."""
    return {
        "id": "d338",
        "env": {"id": "math-env", "name": "math"},
        "task": {"type": "MathTask", "data": {"idx": 0}, "key": key, "hash": "h"},
        "group": {"id": "g1"},
        "run": {"type": "train", "id": "run-7", "work": {"type": "train", "step": 3}},
        "ok": True,
        "is_timeout": False,
        "errors": [],
        "traces": list(traces),
    } | more


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return the path of a run's results, with its metadata."""
    write_json(tmp_path / "run" / "metadata.json", METADATA)
    return tmp_path / "run" / "results.jsonl"


def only(path: Path, record: Any) -> ImportedAttempt:
    """Return the only attempt of a file with one line and no issues."""
    trials, problems = taken(read(write_lines(path, [record]), "run"))
    assert problems == []
    (trial,) = trials
    return trial


def test_a_rollout_becomes_a_trial(results: Path) -> None:
    """Prompt and completion are messages; the trajectory's steps are calls with their tokens."""
    trial = only(results, rollout())
    assert (trial.cell.run, trial.cell.benchmark, trial.cell.model) == (
        "run",
        "math-env",
        "org/m-8b",
    )
    assert trial.cell.detail["sampling_args"] == {"temperature": 0.7}
    assert (trial.task_id, trial.trial, trial.line) == ("0", 0, 1)
    assert [row["role"] for row in trial.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert trial.messages[2]["tool_calls"][0]["name"] == "calc"
    assert trial.messages[2]["reasoning"] == "hm"
    assert [row.get("call_id") for row in trial.messages[2:]] == ["call-1", None, "call-2"]
    first, second = trial.calls
    assert (first["token_ids"], first["logprobs"]) == ([4, 5], [-0.1, -0.2])
    assert (first["step"], first["role"], first["finish_reason"]) == (
        1,
        "orchestrator",
        "tool_calls",
    )
    assert (second["prompt_tokens"], second["latency_s"]) == (20, 1.0)
    assert second["sent_at"] == datetime.fromtimestamp(T0 + 3, UTC)
    assert trial.tool_runs == [
        {"step": 1, "name": "calc", "arguments": '{"e": "2+2"}', "result": "4"}
    ]
    assert trial.outcome == {
        "status": "ok",
        "stop_reason": "no_tools_called",
        "started_at": datetime.fromtimestamp(T0, UTC),
        "ended_at": datetime.fromtimestamp(T0 + 5, UTC),
        "working_s": 3.0,
        "prompt_tokens": 30,
        "completion_tokens": 9,
        "answer": "It is 4.",
        "score": 1.0,
        "correct": True,
    }
    assert [(row["scorer"], row["value"]) for row in trial.scores] == [
        ("reward", 1.0),
        ("correct", 1.0),
        ("num_turns", 2.0),
    ]
    assert json.loads(trial.scores[0]["detail"]) == {"expected": "4", "info": {"k": 1}}


def test_rollouts_of_an_example_are_its_trials_in_order(results: Path) -> None:
    lines = [rollout(0), rollout(1), changed(rollout(0), "completion.0.role", DROP), rollout(0)]
    before, _ = taken(read(write_lines(results, lines), "run"))
    assert [(t.task_id, t.trial) for t in before] == [("0", 0), ("1", 0), ("0", 2)]
    after, problems = taken(read(write_lines(results, [*lines, rollout(1)]), "run"))
    assert keys(after)[:3] == keys(before)
    assert (after[3].task_id, after[3].trial) == ("1", 1)
    assert said(problems) == [(3, "completion.0.role")]


@pytest.mark.parametrize(
    "reward, threshold, correct",
    [
        (0.5, 0.5, True),
        (0.49, 0.5, False),
        (0.9, 1.0, False),
        (-3.0, 0.5, False),
        (0.6, None, True),
    ],
)
def test_a_reward_is_correct_from_the_runs_threshold_on(
    results: Path, reward: float, threshold: float | None, correct: bool
) -> None:
    write_json(results.parent / "metadata.json", METADATA | {"pass_threshold": threshold})
    trial = only(results, rollout(reward=reward))
    assert (trial.outcome["score"], trial.outcome["correct"]) == (reward, correct)


@pytest.mark.parametrize(
    "more, status",
    [
        ({"stop_condition": "max_turns_reached"}, "limit"),
        ({"stop_condition": "timeout_reached"}, "limit"),
        ({"is_truncated": True}, "limit"),
        ({"is_completed": False}, "cancelled"),
        ({"error": "ModelError('no route')"}, "infra_error"),
        ({"error": {"error": "SandboxError", "message": "gone"}}, "infra_error"),
        ({"error": {"error": "OverlongPromptError", "message": "x"}}, "limit"),
        ({"error": {}}, "infra_error"),
    ],
)
def test_status(results: Path, more: Record, status: str) -> None:
    """An error is never a wrong answer: verifiers' reward 0 is not imported."""
    trial = only(results, rollout(reward=0.0, **more))
    assert trial.outcome["status"] == status
    assert bool(trial.scores) == (status != "infra_error")
    if "error" in more:
        assert trial.outcome["error_type"]


def test_the_first_releases_wrote_text_and_milliseconds(tmp_path: Path) -> None:
    """Verifiers 0.1.9 has flat timing, errors as text and plain prompts, but no trajectory and no
    metadata."""
    record = {"example_id": 3, "prompt": "2+2=", "completion": " 4", "task": "sums"}
    record |= {"reward": 1.0, "error": None, "generation_ms": 1500.0, "scoring_ms": 3.0}
    trial = only(tmp_path / "results.jsonl", record)
    assert (trial.cell.benchmark, trial.cell.model) == ("sums", "unknown")
    assert trial.messages == [
        {"role": "user", "content": "2+2="},
        {"role": "assistant", "content": " 4", "call_id": "call-1"},
    ]
    assert trial.outcome["working_s"] == 1.5
    assert len(trial.calls) == 1


def test_prime_rl_kept_rollouts_by_step(tmp_path: Path) -> None:
    """In its first format, rollouts of verifiers are in a folder per step; the folder is part of
    the run."""
    for name in ("step_1/train_rollouts.jsonl", "step_2/train_rollouts.jsonl"):
        write_lines(tmp_path / "rollouts" / name, [rollout(4)])
    trials, problems = taken(read(tmp_path / "rollouts", "exp"))
    assert problems == []
    assert [trial.cell.run for trial in trials] == [
        "exp/step_1/train_rollouts",
        "exp/step_2/train_rollouts",
    ]
    assert trials[0].cell.model == "org/m-8b"  # the trajectory's responses name it


def test_a_trace_becomes_a_trial(tmp_path: Path) -> None:
    """Nodes are messages; calls have the tokens that the model sampled, not those of the
    template."""
    trial = only(tmp_path / "traces.jsonl", episode(trace()))
    assert trial.cell.run == "run-7/train/step-3"
    assert (trial.cell.benchmark, trial.cell.model) == ("math-env", "org/m-8b")
    assert trial.cell.detail["harness"] == "bash"
    assert "SECRET" not in json.dumps(dict(trial.cell.detail))
    assert (trial.task_id, trial.trial) == ("key0", 0)
    first, second, judge = trial.calls
    assert (first["token_ids"], first["logprobs"]) == ([6, 7], [-0.5, -0.5])
    assert (first["prompt_tokens"], first["cached_tokens"], first["cost_usd"]) == (10, 6, 0.5)
    assert json.loads(first["params"]) == {"temperature": 0.7}
    assert second["latency_s"] == 1.0
    assert (judge["role"], judge["prompt_tokens"]) == ("judge", 100)
    assert [row.get("call_id") for row in trial.messages] == [None, None, "call-1", None, "call-2"]
    assert trial.tool_runs[0]["name"] == "calc"
    assert trial.tool_runs[0]["step"] == 1
    assert trial.outcome["score"] == pytest.approx(0.7)
    assert trial.outcome["correct"] is True
    assert (trial.outcome["working_s"], trial.outcome["answer"]) == (3.0, "4")
    assert [row["scorer"] for row in trial.scores] == ["reward", "correct", "style", "turns"]


def test_agents_of_an_episode_are_trials_of_their_own(tmp_path: Path) -> None:
    """Solvers' attempts at one task are its trials; a judge's attempts are not trials of the
    solver."""
    line = episode(trace(name="solver"), trace(name="solver"), trace(name="judge"))
    trials, _ = taken(read(write_lines(tmp_path / "traces.jsonl", [line]), "run"))
    assert [(t.cell.benchmark, t.trial) for t in trials] == [
        ("math-env:solver", 0),
        ("math-env:solver", 1),
        ("math-env:judge", 0),
    ]


def test_a_trace_that_is_refused_does_not_cost_its_episodes_others(tmp_path: Path) -> None:
    bad = changed(trace(), "nodes.1.message.content", 5)
    line = episode(bad, trace())
    trials, problems = taken(read(write_lines(tmp_path / "traces.jsonl", [line]), "run"))
    assert [trial.trial for trial in trials] == [1]
    assert said(problems) == [(1, "traces.0.nodes.1.message.content")]


def test_a_bare_trace_is_read_too(tmp_path: Path) -> None:
    """Verifiers 0.2 has one trace per line, weighted rewards, and usage and finish reason on the
    node."""
    old = trace()
    for name in ("calls", "agent", "ok", "is_timeout", "version", "verifiers"):
        del old[name]
    del old["task"]["key"]
    old["rewards"] = {"correct": 0.25}
    old["nodes"][4] |= {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    old["nodes"][4] |= {"finish_reason": "stop"}
    old["timing"] = {"start": T0, "generation": {"start": T0, "end": T0 + 2}}
    trial = only(tmp_path / "traces.jsonl", old)
    assert (trial.cell.run, trial.cell.benchmark, trial.cell.model) == (
        "run",
        "MathTask",
        "unknown",
    )
    assert trial.task_id == "0"
    assert trial.outcome["status"] == "ok"
    assert (trial.outcome["score"], trial.outcome["working_s"]) == (0.25, 2.0)
    assert [call["step"] for call in trial.calls if call["role"] == "orchestrator"] == [1, 2]
    assert trial.calls[1]["finish_reason"] == "stop"
    assert trial.calls[1]["token_ids"] == [10]


@pytest.mark.parametrize(
    "more, status",
    [
        ({"stop_condition": "max_turns"}, "limit"),
        ({"stop_condition": "max_total_tokens"}, "limit"),
        ({"stop_condition": "agent_timeout", "is_timeout": True}, "limit"),
        ({"stop_condition": "setup_timeout", "is_timeout": True, "ok": False}, "infra_error"),
        ({"stop_condition": "scoring_timeout", "is_timeout": True}, "scorer_error"),
        ({"ok": False, "errors": [{"type": "ProviderError", "message": "502"}]}, "infra_error"),
        ({"ok": True, "errors": [{"type": "ProviderError", "message": "retried"}]}, "ok"),
        ({"ok": False, "is_completed": False}, "cancelled"),
        ({"ok": False}, "infra_error"),
    ],
)
def test_status_of_a_trace(tmp_path: Path, more: Record, status: str) -> None:
    """Errors that were resolved by a retry do not count."""
    trial = only(tmp_path / "traces.jsonl", episode(trace(**more)))
    assert trial.outcome["status"] == status


def test_rewards_that_were_not_scored_give_no_score(tmp_path: Path) -> None:
    trial = only(tmp_path / "traces.jsonl", episode(trace(rewards={"correct": None})))
    assert "score" not in trial.outcome
    assert [row["scorer"] for row in trial.scores] == ["turns"]


def test_an_episode_that_failed_without_a_trace_is_counted(tmp_path: Path) -> None:
    """Such an episode has no model of its own and gets that of the preceding episodes."""
    failed = episode(key="key9", ok=False, errors=[{"type": "EnvError", "message": "run() raised"}])
    lines = [episode(trace()), failed]
    trials, problems = taken(read(write_lines(tmp_path / "traces.jsonl", lines), "run"))
    assert problems == []
    assert trials[1].task_id == "key9"
    assert trials[1].cell == trials[0].cell
    said = {"error_type": "EnvError", "error_message": "EnvError: run() raised"}
    assert trials[1].outcome == {"status": "infra_error", **said}


def test_a_call_knows_its_prompt_in_a_graph_with_branches(tmp_path: Path) -> None:
    """Messages keep their order; the path to a call's message is its prompt."""
    trial = only(tmp_path / "traces.jsonl", episode(changed(trace(), "nodes.4.parent", 1)))
    assert len(trial.messages) == 5
    assert [call.get("prompt_spans") for call in trial.calls] == [
        [{"first": 0, "last": 1}],
        [{"first": 0, "last": 1}],
        None,
    ]
    last = changed(trace(), "nodes.3.parent", 0)
    trial = only(tmp_path / "traces.jsonl", episode(last))
    assert trial.calls[1]["prompt_spans"] == [{"first": 0, "last": 0}, {"first": 3, "last": 3}]
    for parent in (4, 7, -1, "2"):
        line = episode(changed(trace(), "nodes.4.parent", parent))
        trials, problems = taken(read(write_lines(tmp_path / "traces.jsonl", [line]), "run"))
        assert (len(trials), said(problems)) == (1, [(1, "traces.0.nodes.4.parent")])


def test_of_prime_rls_two_copies_one_is_taken(tmp_path: Path) -> None:
    """`effective` repeats episodes of `all`."""
    for copy in ("all", "effective"):
        path = tmp_path / "rollouts" / "step_3" / "train" / copy / "traces.jsonl"
        write_lines(path, [episode(trace())])
    trials, _ = taken(read(tmp_path, "x"))
    assert [trial.cell.run for trial in trials] == ["run-7/train/step-3"]
    trials, _ = taken(read(path, "x"))
    assert [trial.cell.run for trial in trials] == ["run-7/train/step-3/effective"]


@pytest.mark.parametrize(
    "path, value, field, kept",
    [
        ("reward", "1.0", "reward", True),
        ("reward", float("nan"), "reward", True),
        ("metrics.correct", "x", "metrics.correct", True),
        ("timing.generation.duration", -1, "timing.generation.duration", True),
        ("stop_condition", ["x"], "stop_condition", True),
        ("timing.start_time", "now", "timing.start_time", True),
        ("token_usage.input_tokens", -5, "token_usage.input_tokens", True),
        ("trajectory.1.tokens.completion_ids.0", "7", "trajectory.1.tokens.completion_ids.0", True),
        ("trajectory.0.tokens.completion_logprobs", [-1.0], None, True),
        ("trajectory.0", 7, "trajectory.0", True),
        ("prompt.1.content", 7, "prompt.1.content", False),
        ("completion", {"a": 1}, "completion", False),
        ("example_id", None, "example_id", False),
        ("example_id", [1], "example_id", False),
    ],
)
def test_a_bad_field_is_named(
    results: Path, path: str, value: Any, field: str | None, kept: bool
) -> None:
    """The issue names line, field and value; the record is kept unless its identity or messages are
    invalid."""
    lines = [rollout(0), changed(rollout(1), path, value), rollout(2)]
    trials, problems = taken(read(write_lines(results, lines), "run"))
    names = {"0", "1", "2"} if kept else {"0", "2"}
    assert {trial.task_id for trial in trials} == names
    assert problems[0].line == 2
    assert problems[0].field == (field or path)
    assert str(problems[0]).startswith(f"{results}:2: ")


def test_a_folder_without_rollouts_is_a_problem(tmp_path: Path) -> None:
    assert len(taken(read(tmp_path, "run"))[1]) == 1
    (tmp_path / "metadata.json").write_text("{")
    trials, problems = taken(read(write_lines(tmp_path / "results.jsonl", [rollout()]), "run"))
    assert len(trials) == 1
    assert [p.file.name for p in problems] == ["metadata.json"]


@given(line=st.data())
def test_no_line_costs_another_its_trial(
    tmp_path_factory: pytest.TempPathFactory, line: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("v") / "results.jsonl"
    write_json(path.with_name("metadata.json"), METADATA)
    names = ["alpha", "beta", "gamma"]
    if line.draw(st.booleans()):
        records = [rollout(name) for name in names]
    else:
        records = [episode(trace(key=name), key=name) for name in names]
    check_others_are_kept(read, path, records, line.draw(mutated_lines(records[1])))
