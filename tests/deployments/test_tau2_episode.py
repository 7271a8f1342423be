"""Tests of the harness for tau2 with a fake of its package: the requests to each role, and the
output.

`test_tau2_real` does the same with the real package.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deployments.tau2_players import Players, read_tasks, serving
from tests.deployments.tau2_standin import install_into
from tutti.tasks.agents.commands.shipped import TAU2

EXPERT = {"model": "expert-a", "request": {"temperature": 0.5, "max_tokens": 7}}


def task(name: str, *numbers: int, **criteria: Any) -> dict[str, Any]:
    """Return a task whose gold actions add the numbers."""
    actions = [{"name": "add", "action_id": f"a{n}", "arguments": {"n": n}} for n in numbers]
    given = {"actions": actions, "communicate_info": ["6"], "reward_basis": ["DB", "COMMUNICATE"]}
    instructions = f"You are the customer of {name}."
    return {
        "id": name,
        "user_scenario": {"instructions": instructions},
        "evaluation_criteria": given | criteria,
    }


TASKS = [
    task("plain", 1, 2, 3),
    task("judged", 6, nl_assertions=["polite"], reward_basis=["DB", "NL_ASSERTION"]),
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with one domain's data."""
    folder = tmp_path / "checkout" / "data" / "tau2" / "domains" / "retail"
    folder.mkdir(parents=True)
    (folder / "tasks.json").write_text(json.dumps(TASKS))
    (folder / "db.json").write_text("{}")
    (folder / "policy.md").write_text("Be quick.")
    return tmp_path / "checkout"


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a Python with the fake, in the place where the harness looks for it."""
    made = install_into(tmp_path / "environment")
    monkeypatch.setenv("TUTTI_HARNESS_TAU2", str(made))
    return made


class Played:
    """The players of the checkout's tasks, and the harness run against them."""

    def __init__(self, players: Players, url: str, checkout: Path, folder: Path) -> None:
        self.benchmark, self.seconds = "tau2-retail", 120
        self.players, self._url, self._checkout, self._folder = players, url, checkout, folder

    def run(self, name: str, *options: str, **roles: Any) -> "subprocess.CompletedProcess[str]":
        """Run one attempt at the task `name`."""
        request = {"temperature": 0.0, "max_tokens": 64}
        user = {"model": "user-m", "request": {"temperature": 1.0, "max_tokens": 99}}
        asked: dict[str, Any] = {
            "benchmark": self.benchmark,
            "id": name,
            "source": str(self._checkout),
        }
        asked |= {"seconds": self.seconds, "request": request, "roles": {"user": user, **roles}}
        file = self._folder / "task.json"
        file.write_text(json.dumps(asked))
        environment = {"PATH": os.environ["PATH"], "OPENAI_BASE_URL": self._url}
        environment |= {"TUTTI_TASK": str(file), "TUTTI_SEED": "7", "TUTTI_MODEL": "agent-m"}
        environment |= {"TUTTI_PROGRAM": "p1", "TUTTI_GATEWAY": self._url.removesuffix("/v1")}
        return subprocess.run(
            [*TAU2.words, *options],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def said(self, name: str, *options: str, **roles: Any) -> dict[str, Any]:
        """Return the last line of a successful attempt."""
        done = self.run(name, *options, **roles)
        assert done.returncode == 0, done.stderr[-2000:]
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


@pytest.fixture
def played(checkout: Path, python: Path, tmp_path: Path) -> Iterator[Played]:
    """Yield players that follow the gold actions."""
    players = Players(read_tasks(checkout / "data/tau2/domains/retail"))
    with serving(players) as url:
        yield Played(players, url, checkout, tmp_path)


def test_gold_actions_are_reward_1(played: Played) -> None:
    """The result has the parts of the reward, the reason of the end and tau2's version; each role
    is called with its own options."""
    found = played.said("plain")
    assert (found["score"], found["correct"], found["scorer"]) == (1.0, True, "tau2")
    assert found["version"] == "1.0.1" and found["answer"].startswith("6;")
    detail = found["detail"]
    assert detail["reward_breakdown"] == {"DB": 1.0, "COMMUNICATE": 1.0}
    assert (detail["termination_reason"], detail["domain"]) == ("user_stop", "retail")
    asked = {role: body for role, body in played.players.requests}
    assert asked.keys() == {"agent", "user"}
    assert (asked["agent"]["max_tokens"], asked["user"]["max_tokens"]) == (64, 99)
    assert asked["agent"]["seed"] == 7
    assert [tool["function"]["name"] for tool in asked["agent"]["tools"]] == ["add"]
    assert set(played.players.roles) == {("agent", None), ("user", "user")}


def test_a_missing_action_is_reward_0(checkout: Path, python: Path, tmp_path: Path) -> None:
    """The part that the action belongs to is 0."""
    players = Players(read_tasks(checkout / "data/tau2/domains/retail"), lazy=True)
    with serving(players) as url:
        found = Played(players, url, checkout, tmp_path).said("plain")
    assert (found["score"], found["correct"]) == (0.0, False)
    assert found["detail"]["reward_breakdown"] == {"DB": 0.0, "COMMUNICATE": 1.0}


def test_a_dialogue_without_an_end_is_reward_0(played: Played) -> None:
    """The result has a reason and no parts."""
    found = played.said("plain", "--max-steps", "1")
    assert found["score"] == 0.0 and "reward_breakdown" not in found["detail"]
    assert found["detail"]["termination_reason"] == "max_steps"


@pytest.mark.parametrize(
    ("waited_s", "score", "reason"), [(0.0, 0.0, "timeout"), (600.0, 1.0, "user_stop")]
)
def test_its_time_is_the_working_time(
    played: Played, waited_s: float, score: float, reason: str
) -> None:
    """Waits reported by its gateway do not count; an attempt over its time limit has reward 0."""
    played.seconds, played.players.pause_s = 1, 1.1
    played.players.clock = {"held_s": waited_s / 2, "partner_s": waited_s / 2}
    found = played.said("plain")
    assert (found["score"], found["detail"]["termination_reason"]) == (score, reason)


def test_an_expert_writes_turns(played: Played) -> None:
    """The expert gets the same conversation with the domain's tools only. An unknown expert name
    gives the model an error, and neither is part of the dialogue."""
    tool = {"type": "function", "function": {"name": "call_expert", "parameters": {}}}
    found = played.said("plain", call_expert={"tool": tool, "experts": {"expert-1": EXPERT}})
    assert found["score"] == 1.0 and found["detail"]["experts"]["expert-1"] >= 1
    by_role = {
        role: [body for r, body in played.players.requests if r == role]
        for role in ("agent", "expert")
    }
    names = [tool["function"]["name"] for tool in by_role["agent"][0]["tools"]]
    assert names == ["add", "call_expert"]
    for body in by_role["expert"]:
        assert [tool["function"]["name"] for tool in body["tools"]] == ["add"]
        assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.5, 7, 7)
        assert "call_expert" not in json.dumps(body["messages"])
    refused = [b for b in by_role["agent"] if "no expert 'nobody'" in json.dumps(b["messages"])]
    assert refused, "the model heard that there is no such expert"
    assert ("expert", "expert") in played.players.roles


def test_the_judge_is_the_suites(played: Played) -> None:
    """The judge's verdict is a part of the reward; without a verdict there is no score but a
    reason."""
    judge = {"model": "judge-m", "request": {"max_tokens": 50}}
    found = played.said("judged", judge=judge)
    assert found["detail"]["reward_breakdown"]["NL_ASSERTION"] == 1.0
    assert ("judge", "judge") in played.players.roles
    played.players.odd["judge"] = {"role": "assistant", "content": "Fine by me."}
    found = played.said("judged", judge=judge)
    assert "score" not in found and "JSONDecodeError" in found["scorer_error"]


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"role": "assistant", "content": ""}, "agent_error"),
        (
            {
                "role": "assistant",
                "tool_calls": [{"id": "1", "function": {"name": "add", "arguments": "{n"}}],
            },
            "agent_error",
        ),
        ("maximum context length", "context_window_exceeded"),
    ],
)
def test_what_the_model_does_wrong_is_reward_0(played: Played, odd: Any, reason: str) -> None:
    """The attempt counts and is not repeated until it succeeds."""
    played.players.odd["agent"] = odd
    found = played.said("plain")
    assert (found["score"], found["detail"]["termination_reason"]) == (0.0, reason)
    assert found["detail"]["note"]


def test_what_fails_elsewhere_ends_the_program(played: Played) -> None:
    """The sweep then counts no attempt; the reason is on standard error."""
    played.players.odd["user"] = "overloaded"
    done = played.run("plain")
    assert done.returncode != 0 and "overloaded" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--save", "here"), "--save: give the whole path"), (("--max-steps", "x"), "invalid int")],
)
def test_bad_options_are_named(played: Played, options: tuple[str, ...], words: str) -> None:
    """The error quotes the invalid value."""
    done = played.run("plain", *options)
    assert done.returncode == 2 and words in done.stderr


def test_a_folder_that_is_no_checkout(played: Played, tmp_path: Path) -> None:
    """The error names the folder."""
    played._checkout = tmp_path / "environment"
    done = played.run("plain")
    assert done.returncode == 1 and "is no checkout of tau2-bench" in done.stderr
