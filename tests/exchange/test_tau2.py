"""Tests of results of tau2-bench, in the format of its data model (simulation, message, task)."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.imported import (
    DROP,
    Record,
    changed,
    keys,
    mutations,
    taken,
    write_json,
)
from tutti.tasks.exchange.base.imported import ImportedAttempt
from tutti.tasks.exchange.tau2 import STATUS, read

REAL_TASKS = Path(__file__).parents[4] / "shared" / "data" / "tau2"
AT = "2026-06-30T11:40:{:02d}.500000"


def message(role: str, second: int, content: str | None = None, **more: Any) -> Record:
    """Return a message of the agent or the user that a model wrote."""
    usage = {"prompt_tokens": 100 + second, "completion_tokens": 5}
    raw: Record = {"model": f"{role}-1", "choices": [{"finish_reason": "stop"}]}
    raw["usage"] = usage | {"prompt_tokens_details": {"cached_tokens": 64}}
    return {
        "role": role,
        "content": content,
        "tool_calls": None,
        "turn_idx": second,
        "timestamp": AT.format(second),
        "cost": 0.25,
        "usage": usage,
        "raw_data": raw,
        "generation_time_seconds": 1.5,
    } | more


def asks(id: str, name: str, requestor: str, **arguments: Any) -> list[Record]:
    """Return a message's tool calls."""
    return [{"id": id, "name": name, "arguments": arguments, "requestor": requestor}]


def tool(id: str, requestor: str, second: int, **more: Any) -> Record:
    """Return a tool's result."""
    found = {"id": id, "role": "tool", "content": "done", "requestor": requestor, "error": False}
    return found | {"turn_idx": second, "timestamp": AT.format(second)} | more


def greeting() -> Record:
    """Return the agent's first message, which no model wrote."""
    found = {"role": "assistant", "content": "Hi!", "tool_calls": None, "turn_idx": 0, "cost": 0.0}
    return found | {"timestamp": AT.format(0), "usage": None, "raw_data": None}


def simulation(task_id: Any = "0", trial: int | None = 0, **more: Any) -> Record:
    """Return one simulation in which both sides use a tool."""
    order = asks("c1", "get_order", "assistant", order="#1")
    reboot = asks("c2", "reboot", "user")
    action = {"action_id": "0_1", "name": "get_order", "arguments": {}, "requestor": "assistant"}
    check = {"action": action, "action_match": True}
    assertion = {"env_type": "user", "func_name": "assert_on", "arguments": {}}
    met = {"nl_assertion": "is kind", "met": False, "justification": "was not"}
    return {
        "id": f"sim-{task_id}-{trial}",
        "task_id": task_id,
        "timestamp": AT.format(50),
        "start_time": AT.format(0),
        "end_time": AT.format(40),
        "duration": 40.0,
        "termination_reason": "user_stop",
        "agent_cost": 0.5,
        "user_cost": 0.75,
        "reward_info": {
            "reward": 1.0,
            "db_check": {"db_match": True, "db_reward": 1.0},
            "env_assertions": [{"env_assertion": assertion, "met": True, "reward": 1.0}],
            "action_checks": [check | {"action_reward": 1.0, "tool_type": "read"}],
            "nl_assertions": [met],
            "communicate_checks": [{"info": "4", "met": True, "justification": "said"}],
            "reward_basis": ["DB", "COMMUNICATE"],
            "reward_breakdown": {"DB": 1.0, "COMMUNICATE": 1.0},
            "info": None,
        },
        "messages": [
            greeting(),
            message("user", 1, "Where is it?"),
            message("assistant", 2, tool_calls=order),
            tool("c1", "assistant", 3),
            message("assistant", 4, "Please restart."),
            message("user", 5, tool_calls=reboot),
            tool("c2", "user", 6, error=True, content="Error: no"),
            message("user", 7, "###STOP###"),
        ],
        "trial": trial,
        "seed": 626729,
        "mode": "half_duplex",
    } | more


def results(*simulations: Any, **more: Any) -> Record:
    """Return the content of a results file."""
    return {
        "timestamp": "2026-06-30T11:17:32.561540",
        "info": {
            "git_commit": "c0dd",
            "num_trials": 2,
            "max_steps": 200,
            "max_errors": 10,
            "user_info": {"implementation": "user_simulator", "llm": "gpt-u", "llm_args": {"t": 0}},
            "agent_info": {"implementation": "llm_agent", "llm": "gpt-a", "llm_args": {"t": 1}},
            "environment_info": {"domain_name": "retail", "policy": "Be kind."},
            "seed": 300,
        },
        "tasks": [{"id": "0", "user_scenario": {"instructions": "…"}}],
        "simulations": list(simulations),
    } | more


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a results file."""
    return tmp_path / "run.json"


def only(path: Path, record: Record) -> ImportedAttempt:
    """Return the only attempt of a file with one simulation and no issues."""
    trials, problems = taken(read(write_json(path, results(record)), "run"))
    assert problems == []
    (trial,) = trials
    return trial


def test_a_simulation_becomes_a_trial(path: Path) -> None:
    """Times of a simulation have no time zone and are read as UTC."""
    trial = only(path, simulation("7", 1))
    cell = trial.cell
    assert (cell.run, cell.benchmark, cell.model) == (
        "2026-06-30T11:17:32.561540",
        "tau2-retail",
        "gpt-a",
    )
    assert (cell.detail["user_model"], cell.detail["max_steps"]) == ("gpt-u", 200)
    assert (trial.task_id, trial.trial, trial.line) == ("7", 1, None)
    assert trial.outcome == {
        "status": "ok",
        "stop_reason": "user_stop",
        "started_at": datetime(2026, 6, 30, 11, 40, 0, 500_000, UTC),
        "ended_at": datetime(2026, 6, 30, 11, 40, 40, 500_000, UTC),
        "working_s": 40.0,
        "cost_usd": 1.25,
        "score": 1.0,
        "correct": True,
    }
    assert [row["role"] for row in trial.messages] == [
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "tool",
        "user",
    ]


def test_both_sides_call_models_and_tools(path: Path) -> None:
    """The agent's calls are steps; the user's belong to the preceding step."""
    trial = only(path, simulation())
    assert [(call["role"], call["step"]) for call in trial.calls] == [
        ("user", 0),
        ("orchestrator", 1),
        ("orchestrator", 2),
        ("user", 2),
        ("user", 2),
    ]
    assert "call_id" not in trial.messages[0]  # the greeting
    agent = trial.calls[1]
    assert (agent["model"], agent["finish_reason"]) == ("assistant-1", "stop")
    assert (agent["prompt_tokens"], agent["cached_tokens"]) == (102, 64)
    assert (agent["cost_usd"], json.loads(agent["params"])) == (0.25, {"t": 1})
    assert agent["ended_at"] - agent["sent_at"] == timedelta(seconds=1.5)
    assert json.loads(trial.calls[0]["params"]) == {"t": 0}
    assert trial.messages[2]["tool_calls"] == [
        {"id": "c1", "name": "get_order", "arguments": '{"order": "#1"}'}
    ]
    runs = [(r["step"], r["name"], r["arguments"], r["status"]) for r in trial.tool_runs]
    assert runs == [(1, "get_order", '{"order": "#1"}', "ok"), (2, "reboot", "{}", "error")]
    assert trial.tool_runs[1]["result"] == "Error: no"
    assert trial.tool_runs[0]["ended_at"].second == 3


def test_each_part_of_the_reward_is_a_score(path: Path) -> None:
    trial = only(path, simulation())
    assert [(s["scorer"], s["value"], s.get("correct")) for s in trial.scores] == [
        ("reward", 1.0, True),
        ("reward/DB", 1.0, None),
        ("reward/COMMUNICATE", 1.0, None),
        ("db_check", 1.0, True),
        ("action_check/0", 1.0, True),
        ("env_assertion/0", 1.0, True),
        ("nl_assertion/0", 0.0, False),
        ("communicate_check/0", 1.0, True),
    ]
    assert json.loads(trial.scores[0]["detail"])["reward_basis"] == ["DB", "COMMUNICATE"]
    assert json.loads(trial.scores[6]["detail"])["justification"] == "was not"


@pytest.mark.parametrize("reason", STATUS)
def test_why_it_ended_gives_the_status(path: Path, reason: str) -> None:
    """A simulation that the infrastructure or the user simulator ended has no score, although tau2
    writes 0."""
    trial = only(path, simulation(termination_reason=reason))
    assert (trial.outcome["status"], trial.outcome["stop_reason"]) == (STATUS[reason], reason)
    assert bool(trial.scores) == (STATUS[reason] != "infra_error")


def test_a_reason_that_is_unknown_is_named(path: Path) -> None:
    cases: list[tuple[Record, str]] = [({}, "ok"), ({"reward_info": None}, "infra_error")]
    for more, status in cases:
        record = simulation(termination_reason="meteor", **more)
        ((trial,), problems) = taken(read(write_json(path, results(record)), "run"))
        assert trial.outcome["status"] == status
        assert [p.field for p in problems] == ["simulations.0.termination_reason"]
        assert "'meteor'" in problems[0].reason


def test_a_failed_simulation_says_why(path: Path) -> None:
    record = simulation(termination_reason="infrastructure_error", messages=[], reward_info=None)
    trial = only(path, record | {"info": {"error": "x", "error_type": "APIError"}})
    assert trial.outcome["error_type"] == "APIError"
    assert trial.outcome["error_message"] == "x"
    assert trial.messages == []


def test_results_of_several_tools_in_one_message(path: Path) -> None:
    """Each result becomes a message and a tool run."""
    record = simulation()
    calls = asks("a", "f", "assistant") + asks("b", "g", "assistant")
    both = {"role": "tool", "tool_messages": [tool("b", "assistant", 3), tool("a", "assistant", 3)]}
    record["messages"] = [message("assistant", 2, tool_calls=calls), both]
    trial = only(path, record)
    assert [run["name"] for run in trial.tool_runs] == ["g", "f"]
    assert [row["role"] for row in trial.messages] == ["assistant", "tool", "tool"]


def test_trials_are_numbered_by_the_data_or_by_their_order(path: Path) -> None:
    """A duplicate is reported; a grown file gives the same trials."""
    lines = [
        simulation("0", 1),
        simulation("0", 0),
        simulation("1", trial=None),
        simulation("0", 1),
    ]
    before, problems = taken(read(write_json(path, results(*lines)), "run"))
    assert [(t.task_id, t.trial) for t in before] == [("0", 1), ("0", 0), ("1", 0)]
    assert [p.field for p in problems] == ["simulations.3.trial"]
    grown = results(*lines, simulation("1", trial=None))
    after, _ = taken(read(write_json(path, grown), "other"))
    assert keys(after)[:3] == keys(before)
    assert (after[3].task_id, after[3].trial) == ("1", 1)


def test_a_folder_has_a_file_for_each_simulation(tmp_path: Path) -> None:
    """A broken file is reported, and so is one that is in the index but not in the folder."""
    index = [{"id": name, "task_id": "0", "trial": 0} for name in ("s1", "s2", "s3")]
    meta = results(simulation_index=index)
    del meta["simulations"]
    write_json(tmp_path / "results.json", meta)
    write_json(tmp_path / "simulations" / "s1.json", simulation("0", 0))
    (tmp_path / "simulations" / "s2.json").write_text('{"id": ')
    for path in (tmp_path, tmp_path / "results.json"):
        trials, problems = taken(read(path, "run"))
        assert keys(trials) == [(trials[0].cell, "0", 0, 1)]
        assert trials[0].file == tmp_path / "simulations" / "s1.json"
        assert [(p.file.name, p.field) for p in problems] == [
            ("s2.json", ""),
            ("results.json", "simulation_index.2.id"),
        ]


def test_voice_has_its_outcome_taken(path: Path) -> None:
    """The messages of a voice simulation are in ticks, which are reported."""
    record = changed(simulation(), "messages", DROP) | {"ticks": [{"tick_id": 0}]}
    ((trial,), problems) = taken(read(write_json(path, results(record)), "run"))
    assert (trial.outcome["score"], trial.messages) == (1.0, [])
    assert [p.field for p in problems] == ["simulations.0.ticks"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"info": null}', '{"simulations": []}'])
def test_other_files_are_problems(path: Path, text: str) -> None:
    path.write_text(text)
    assert len(taken(read(path, "run"))[1]) == 1
    assert len(taken(read(path.parent, "run"))[1]) == 1


@pytest.mark.parametrize(
    "where, value, field, kept",
    [
        ("duration", -1, "duration", True),
        ("duration", "40", "duration", True),
        ("start_time", "noon", "start_time", True),
        ("reward_info.reward", "1.0", "reward_info.reward", True),
        ("reward_info.reward_breakdown.DB", "x", "reward_info.reward_breakdown.DB", True),
        ("reward_info.action_checks.0", 3, "reward_info.action_checks.0", True),
        ("messages.2.cost", -1, "messages.2.cost", True),
        ("messages.2.usage.prompt_tokens", 1.5, "messages.2.usage.prompt_tokens", True),
        ("messages.2.tool_calls.0.name", None, "messages.2.tool_calls.0.name", True),
        ("messages.3.error", "no", "messages.3.error", True),
        ("messages.1.content", 5, "messages.1.content", False),
        ("messages.1", "text", "messages.1", False),
        ("messages.1.role", DROP, "messages.1.role", False),
        ("task_id", None, "task_id", False),
        ("trial", -1, "trial", False),
        ("trial", "first", "trial", False),
    ],
)
def test_a_bad_field_is_named(path: Path, where: str, value: Any, field: str, kept: bool) -> None:
    bad = changed(simulation("1"), where, value)
    record = results(simulation("0"), bad, simulation("2"))
    trials, problems = taken(read(write_json(path, record), "run"))
    assert [t.task_id for t in trials] == (["0", "1", "2"] if kept else ["0", "2"])
    # A NaN anywhere is the document's problem, told before any simulation's.
    assert problems[0].field == f"simulations.1.{field}"
    assert problems[0].line is None


def test_a_member_that_is_no_simulation_is_named(path: Path) -> None:
    trials, problems = taken(read(write_json(path, results(3, simulation())), "run"))
    assert (len(trials), [p.field for p in problems]) == (1, ["simulations.0"])
    trials, problems = taken(read(write_json(path, results() | {"simulations": 3}), "run"))
    assert (trials, [p.field for p in problems]) == ([], ["simulations"])


@given(bad=mutations(simulation("beta")), about=st.just({}) | mutations(results()["info"]))
def test_no_simulation_costs_another_its_trial(
    tmp_path_factory: pytest.TempPathFactory, bad: Record, about: Record
) -> None:
    path = tmp_path_factory.mktemp("t") / "run.json"
    record = results(simulation("alpha"), bad, simulation("gamma"))
    trials, _ = taken(read(write_json(path, record | ({"info": about} if about else {})), "run"))
    whole, _ = taken(read(write_json(path, results(simulation("alpha"))), "run"))
    found = {trial.task_id: trial for trial in trials}
    assert {"alpha", "gamma"} <= found.keys()
    assert found["alpha"].outcome == whole[0].outcome
    assert found["alpha"].messages == whole[0].messages


def test_results_of_real_tasks(path: Path) -> None:
    """The file has every task of the retail domain, with its own ids and reward checks."""
    tasks_file = REAL_TASKS / "retail" / "tasks.json"
    if not tasks_file.is_file():
        pytest.skip(f"{tasks_file} is not there")
    simulations = []
    for task in json.loads(tasks_file.read_text()):
        actions = (task.get("evaluation_criteria") or {}).get("actions") or []
        checks = [{"action": a, "action_match": True, "action_reward": 1.0} for a in actions]
        record = changed(simulation(task["id"]), "reward_info.action_checks", checks)
        simulations.append(record)
    trials, problems = taken(read(write_json(path, results(*simulations)), "run"))
    assert problems == []
    assert len(trials) == len(simulations) > 50
    assert len({trial.task_id for trial in trials}) == len(trials)
