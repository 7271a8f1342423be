"""Tests of trajectories of mini-swe-agent, in the formats that 2.4.6 and 1.17.5 write."""

import json
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
from tutti.tasks.exchange.swe_bench import add_verdicts
from tutti.tasks.exchange.swe_bench.mini_swe_agent import NOT_EXECUTED, STATUS, read

PATCH = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
START = 1795487747.0


def usage(place: int) -> Record:
    return {
        "prompt_tokens": 100 + place,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
    }


def asked(place: int, command: str) -> Record:
    """Return an assistant's message with one command in the API's format."""
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    call = {"id": f"c{place}", "type": "function", "function": function}
    return {"role": "assistant", "content": "Let me look.", "tool_calls": [call]}


def response(place: int, message: Record) -> Record:
    choice = {"finish_reason": "tool_calls", "index": 0, "message": message}
    return {"model": "m-1", "object": "chat.completion", "choices": [choice], "usage": usage(place)}


def reply(place: int, command: str, cost: float = 0.25) -> Record:
    """Return the agent's record of a reply."""
    actions = [{"command": command, "tool_call_id": f"c{place}"}]
    extra: Record = {"actions": actions, "cost": cost}
    extra |= {"response": response(place, asked(place, command)), "timestamp": START + place}
    return asked(place, command) | {"function_call": None, "extra": extra}


def output(place: int, text: str, failure: str = "", **more: Any) -> Record:
    """Return the agent's record of a command's output."""
    extra: Record = {
        "raw_output": text,
        "returncode": -1 if failure else 0,
        "exception_info": failure,
    }
    extra |= {"timestamp": START + place + 0.5, **more}
    return {"role": "tool", "tool_call_id": f"c{place}", "content": text, "extra": extra}


def refused(place: int) -> Record:
    """Return the agent's record of a reply without a command."""
    said = {"role": "assistant", "content": "I would rather not."}
    extra = {"interrupt_type": "FormatError", "cost": 0.0, "response": response(place, said)}
    return {"role": "user", "content": "No tool calls found.", "extra": extra}


def exit_entry(status: str = "Submitted", submission: str = PATCH) -> Record:
    extra = {"exit_status": status, "submission": submission}
    return {"role": "exit", "content": submission, "extra": extra}


OPENING: list[Record] = [
    {"role": "system", "content": "You can use bash."},
    {"role": "user", "content": "Fix it."},
]
HISTORY = [*OPENING, reply(1, "ls"), output(1, "a.py"), reply(2, "submit"), exit_entry()]


def trajectory(
    instance: str | None = "a__a-1",
    status: str | None = "Submitted",
    submission: str | None = PATCH,
    messages: list[Record] | None = None,
    **info: Any,
) -> Record:
    """Return a file of format 1.1."""
    model = {"model_name": "openai/m", "model_kwargs": {"api_key": "SECRET", "temperature": 0.5}}
    agent = {"system_template": "long", "step_limit": 250, "cost_limit": 3.0}
    config = {"agent": agent, "model": model, "agent_type": "minisweagent.agents.default"}
    about = {"model_stats": {"instance_cost": 0.5, "api_calls": 2}, "config": config}
    about |= {"mini_version": "2.4.6", "exit_status": status, "submission": submission, **info}
    record = {"info": about, "messages": HISTORY if messages is None else messages}
    return record | {"trajectory_format": "mini-swe-agent-1.1", "instance_id": instance}


def place_of(folder: Path, instance: str) -> Path:
    return folder / instance / f"{instance}.traj.json"


def only(tmp_path: Path, record: Record) -> ImportedAttempt:
    """Return the attempt of a file without issues."""
    trials, problems = taken(read(write_json(tmp_path / "one.traj.json", record), "run"))
    assert problems == []
    (trial,) = trials
    return trial


def test_a_trajectory_becomes_an_attempt(tmp_path: Path) -> None:
    """The submission is the answer; settings that may contain keys are not stored."""
    trial = only(tmp_path, trajectory())
    cell = trial.cell
    assert (cell.run, cell.benchmark, cell.model) == ("run", "swe-bench", "openai/m")
    assert (cell.detail["step_limit"], cell.detail["mini_version"]) == (250, "2.4.6")
    assert (trial.task_id, trial.trial, trial.scores) == ("a__a-1", 0, [])
    assert trial.outcome == {
        "status": "ok",
        "stop_reason": "Submitted",
        "answer": PATCH,
        "cost_usd": 0.5,
        "ended_at": datetime.fromtimestamp(START + 2, UTC),
    }
    assert [row["role"] for row in trial.messages] == [
        "system",
        "user",
        *["assistant", "tool"] * 2,
    ][:5]
    first, second = trial.calls
    assert (first["prompt_tokens"], first["cached_tokens"], first["completion_tokens"]) == (
        101,
        64,
        20,
    )
    assert (first["model"], first["finish_reason"], first["cost_usd"]) == (
        "m-1",
        "tool_calls",
        0.25,
    )
    assert json.loads(first["params"]) == {"temperature": 0.5}
    assert second["prompt_spans"] == [{"first": 0, "last": 3}]
    assert [row.get("call_id") for row in trial.messages] == [None, None, "1", None, "2"]
    (run,) = trial.tool_runs
    assert (run["step"], run["name"], run["status"], run["result"]) == (1, "bash", "ok", "a.py")
    assert json.loads(run["arguments"]) == {"command": "ls"}
    assert "SECRET" not in json.dumps([dict(cell.detail), trial.calls], default=str)


def test_a_refused_reply_is_a_call_and_in_no_prompt(tmp_path: Path) -> None:
    """The call has a cost; the model saw only the reason of the refusal."""
    messages = [*OPENING, refused(1), reply(2, "submit"), exit_entry()]
    trial = only(tmp_path, trajectory(messages=messages))
    said = [(row["role"], row.get("call_id")) for row in trial.messages]
    assert said[2:] == [("assistant", "1"), ("user", None), ("assistant", "2")]
    assert trial.messages[2]["content"] == "I would rather not."
    assert trial.calls[1]["prompt_spans"] == [{"first": 0, "last": 1}, {"first": 3, "last": 3}]
    assert "cost_usd" not in trial.calls[0]  # 0 is a price that the agent did not know
    as_text = changed(refused(1), "extra.response", "ModelResponse(...)")
    trial = only(tmp_path, trajectory(messages=[*OPENING, as_text, exit_entry()]))
    assert len(trial.calls) == 1 and len(trial.messages) == 3


def test_what_was_not_executed_is_no_tool_run(tmp_path: Path) -> None:
    late = output(1, "", "An error occurred", exception_type="TimeoutExpired")
    shown = output(2, "", NOT_EXECUTED)
    messages = [*OPENING, reply(1, "sleep 99"), late, reply(2, "submit"), shown, exit_entry()]
    (run,) = only(tmp_path, trajectory(messages=messages)).tool_runs
    assert (run["status"], run["error_type"]) == ("timeout", "TimeoutExpired")


def test_outputs_told_as_the_user_are_tool_runs(tmp_path: Path) -> None:
    plain = reply(1, "ls")
    del plain["tool_calls"]
    told = {name: value for name, value in output(1, "a.py").items() if name != "tool_call_id"}
    trial = only(tmp_path, trajectory(messages=[*OPENING, plain, told | {"role": "user"}]))
    assert [row["name"] for row in trial.tool_runs] == ["bash"]


def test_the_responses_api(tmp_path: Path) -> None:
    """The API's items are one message, and its usage fields have other names."""
    items: list[Record] = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "So"}],
        },
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
    ]
    used = {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 0}}
    said: Record = {"object": "response", "status": "completed", "output": items, "usage": used}
    said |= {"extra": {"actions": [{"command": "ls"}], "timestamp": START}}
    told: Record = {"type": "function_call_output", "call_id": "c1", "output": "a.py"}
    told |= {"extra": {"returncode": 0, "exception_info": ""}}
    trial = only(tmp_path, trajectory(messages=[*OPENING, said, told, exit_entry()]))
    row, result = trial.messages[2:]
    assert (row["content"], row["reasoning"]) == ("So", "hm")
    assert row["tool_calls"] == [{"id": "c1", "name": "bash", "arguments": "{}"}]
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "c1", "a.py")
    (call,) = trial.calls
    assert (call["prompt_tokens"], call["cached_tokens"], call["completion_tokens"]) == (7, 0, 3)
    assert len(trial.tool_runs) == 1


@pytest.mark.parametrize("ended", [*STATUS, "RateLimitError"])
def test_how_it_ended_gives_the_status(tmp_path: Path, ended: str) -> None:
    """An exception that is not the model's is an infrastructure error with its text."""
    submission = PATCH if ended == "Submitted" else ""
    record = trajectory(status=ended, submission=submission, exception_str="too many")
    outcome = only(tmp_path, record).outcome
    assert (outcome["status"], outcome["stop_reason"]) == (STATUS.get(ended, "infra_error"), ended)
    assert outcome.get("answer") == (PATCH if ended == "Submitted" else None)
    failed = ("RateLimitError", "too many") if ended == "RateLimitError" else (None, None)
    assert (outcome.get("error_type"), outcome.get("error_message")) == failed


def test_format_1(tmp_path: Path) -> None:
    """Times are in the messages, and the last message is the submission."""
    texts = [("system", "S"), ("user", "T"), ("assistant", "```bash\nls\n```"), ("user", PATCH)]
    messages: list[Record] = [
        {"role": role, "content": content, "timestamp": START + place}
        for place, (role, content) in enumerate(texts)
    ]
    messages[2]["extra"] = {"response": response(1, asked(1, "ls"))}
    record = trajectory(messages=messages) | {"trajectory_format": "mini-swe-agent-1"}
    trial = only(tmp_path, record)
    assert [row["role"] for row in trial.messages] == ["system", "user", "assistant"]
    assert (trial.outcome["answer"], trial.outcome["working_s"]) == (PATCH, 3.0)
    assert trial.calls[0]["prompt_tokens"] == 101
    failed = trajectory(status="RuntimeError", submission="no docker", messages=[])
    outcome = only(tmp_path, failed | {"trajectory_format": "mini-swe-agent-1"}).outcome
    assert (outcome["status"], outcome["error_message"]) == ("infra_error", "no docker")


def test_a_run_that_goes_on_is_taken_again_when_it_has_ended(
    catalog: storage.Catalog, tmp_path: Path
) -> None:
    file = tmp_path / "a.traj.json"
    write_json(file, trajectory(status="", submission="", messages=HISTORY[:4]))
    assert load(catalog, read(file, "run"), "mini-swe-agent").problems_total == 1
    write_json(file, trajectory())
    assert load(catalog, read(file, "run"), "mini-swe-agent").taken == 1
    assert load(catalog, read(file, "run"), "mini-swe-agent").there == 1
    sql = "select attempt, status, stop_reason from attempts order by attempt"
    assert [tuple(row.values()) for row in storage.query(sql, catalog.home)] == [
        (1, "infra_error", "unfinished"),
        (2, "ok", "Submitted"),
    ]


def test_a_folder_is_a_run_and_so_is_each_below_it(tmp_path: Path) -> None:
    """The same instance in two output folders is not a repetition of one file."""
    for folder in ("night", "day"):
        write_json(place_of(tmp_path / folder, "a__a-1"), trajectory())
    write_json(tmp_path / "last.traj.json", trajectory(None))
    trials, problems = taken(read(tmp_path, "runs"))
    assert problems == []
    assert [(trial.cell.run, trial.cell.benchmark, trial.task_id) for trial in trials] == [
        ("runs/day", "swe-bench", "a__a-1"),
        ("runs", "mini-swe-agent", "last"),
        ("runs/night", "swe-bench", "a__a-1"),
    ]
    for path in (tmp_path / "day", tmp_path / "day" / "a__a-1"):
        (trial,) = taken(read(path, "run"))[0]
        assert trial.cell.run == "run"
    (tmp_path / "empty").mkdir()
    assert "there is no *.traj.json" in str(taken(read(tmp_path / "empty", "run"))[1][0])


def test_swe_benchs_verdicts_come_onto_an_imported_folder(
    catalog: storage.Catalog, tmp_path: Path
) -> None:
    ids = ("a__a-1", "a__a-2", "a__a-3")
    for instance in ids:
        write_json(place_of(tmp_path / "night", instance), trajectory(instance))
    assert detect(tmp_path / "night") == "mini-swe-agent"
    done = load(catalog, read(tmp_path / "night", "night"), "mini-swe-agent")
    (sweep_id,) = done.sweeps
    row = {"model_name_or_path": "openai/m", "model_patch": PATCH}
    write_json(tmp_path / "preds.json", {id: row | {"instance_id": id} for id in ids})
    verdicts: Record = {"submitted_ids": ids, "resolved_ids": ids[:1], "error_ids": []}
    verdicts |= {"unresolved_ids": ids[1:2], "empty_patch_ids": ids[2:]}
    report = write_json(tmp_path / "openai__m.night.json", verdicts)
    assert add_verdicts(catalog, report, sweep_id).added == 3
    assert add_verdicts(catalog, report, sweep_id).known == 3
    sql = "select task_id, correct from counted order by task_id"
    found = [tuple(row.values()) for row in storage.query(sql, catalog.home)]
    assert found == [(ids[0], True), (ids[1], False), (ids[2], False)]


@pytest.mark.parametrize(
    ("where", "value", "field"),
    [
        ("trajectory_format", DROP, "trajectory_format"),
        ("trajectory_format", "mini-swe-agent-2", "trajectory_format"),
        ("messages", DROP, "messages"),
        ("messages", {}, "messages"),
        ("messages.1", "text", "messages.1"),
        ("messages.1.role", DROP, "messages.1.role"),
        ("messages.3.content", 5, "messages.3.content"),
        ("info", DROP, "info"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, where: str, value: Any, field: str
) -> None:
    bad = write_json(place_of(tmp_path, "a__a-1"), changed(trajectory(), where, value))
    write_json(place_of(tmp_path, "a__a-2"), trajectory("a__a-2"))
    broken = place_of(tmp_path, "a__a-3")
    broken.parent.mkdir()
    broken.write_text('{"info": {')
    trials, problems = taken(read(tmp_path, "run"))
    assert [trial.task_id for trial in trials] == ["a__a-2"]
    assert [(problem.file, problem.field) for problem in problems] == [(bad, field), (broken, "")]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("messages.2.extra.response.usage.prompt_tokens", "many"),
        ("messages.2.extra.timestamp", "noon"),
        ("messages.2.extra.actions.0", 3),
        ("messages.2.extra.cost", -1),
        ("info.model_stats.instance_cost", "free"),
        ("info.submission", 4),
    ],
)
def test_a_bad_value_costs_only_itself(tmp_path: Path, where: str, value: Any) -> None:
    """The value is reported, and the attempt is imported."""
    record = changed(trajectory(), where, value)
    trials, problems = taken(read(write_json(tmp_path / "a.traj.json", record), "run"))
    assert (len(trials), [problem.field for problem in problems]) == (1, [where])


@given(bad=mutations(trajectory(messages=[*OPENING, refused(1), *HISTORY[2:]])))
def test_no_file_costs_another_its_attempt(
    tmp_path_factory: pytest.TempPathFactory, bad: Record
) -> None:
    folder = tmp_path_factory.mktemp("t")
    write_json(place_of(folder, "a__a-1"), bad)
    write_json(place_of(folder, "b__b-1"), trajectory("b__b-1"))
    trials, _ = taken(read(folder, "run"))
    assert "b__b-1" in [trial.task_id for trial in trials]
    assert keys(trials) == keys(taken(read(folder, "run"))[0])
