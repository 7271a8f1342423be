"""Tests with tau2's real package: gold actions have reward 1, and so does a scripted dialogue
through the harness.

They need `make tau2 TAU2=CHECKOUT` (or its Python in TUTTI_HARNESS_TAU2) and the checkout in
TUTTI_TAU2_CHECKOUT; without one of them, or a domain's data, the test is skipped.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.deployments.tau2_players import Players, read_tasks, serving
from tests.deployments.test_tau2_episode import Played
from tutti.tasks.agents.commands.shipped import TAU2
from tutti.tasks.platform.project import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

GOLD = PROJECT / "deployments" / "harnesses" / "tau2_gold.py"
DOMAINS = {"retail": "retail", "airline": "airline", "telecom": "telecom"}
DOMAINS |= {"banking_knowledge": "banking"}
REPLAYED = 5
EXPERT = {"model": "expert-a", "request": {"max_tokens": 64}}
TOOL = {"type": "function", "function": {"name": "call_expert", "parameters": {}}}


@pytest.fixture
def checkout() -> Path:
    """Return the checkout, which also has the package."""
    named = os.environ.get("TUTTI_TAU2_CHECKOUT")
    if named is None:
        pytest.skip("no checkout of tau2-bench: name it in TUTTI_TAU2_CHECKOUT")
    if not TAU2.python.exists():
        pytest.skip(f"no Python with tau2's package at {TAU2.python}: `{TAU2.install}`")
    return Path(named)


def folder_of(checkout: Path, domain: str) -> Path:
    """Return the domain's data folder; skip the test if the checkout lacks it."""
    folder = checkout / "data" / "tau2" / "domains" / domain
    for names in (("tasks.json", "tasks_small.json"), ("db.json", "db.toml")):
        if not any((folder / name).is_file() for name in names):
            pytest.skip(f"{folder} holds none of {', '.join(names)}")
    return folder


@pytest.mark.parametrize("domain", DOMAINS)
def test_gold_actions_are_reward_1(checkout: Path, domain: str) -> None:
    """tau2's own evaluator scores the first tasks of each domain."""
    folder_of(checkout, domain)
    done = subprocess.run(
        [str(TAU2.python), str(GOLD), str(checkout), domain, str(REPLAYED)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["tasks"], found["rewarded"], found["not_rewarded"]) == (REPLAYED, REPLAYED, {})


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_dialogue_by_the_harness(checkout: Path, domain: str, tmp_path: Path) -> None:
    """Agent, user, expert and judge are endpoints, and the reward is 1. Telecom's users make calls
    themselves."""
    rows = read_tasks(folder_of(checkout, domain))
    acting = {"retail": "2", "banking_knowledge": "task_001"}
    name = acting.get(domain) or next(
        each["id"] for each in rows.values() if (each["evaluation_criteria"]["actions"] or [])[1:]
    )
    players = Players({name: rows[name]})
    roles = {"judge": {"model": "judge-m", "request": {}}}
    experts = {"tool": TOOL, "experts": {"expert-1": EXPERT}}
    with serving(players) as url:
        played = Played(players, url, checkout, tmp_path)
        played.benchmark = f"tau2-{DOMAINS[domain]}"
        found = played.said(name, call_expert=experts, **roles)
    assert (found["score"], found["scorer"]) == (1.0, "tau2"), found
    assert found["detail"]["termination_reason"] == "user_stop"
    assert all(value == 1.0 for value in found["detail"]["reward_breakdown"].values())
    assert {("agent", None), ("user", "user")} <= players.roles
    if domain == "retail":
        assert ("judge", "judge") in players.roles and ("expert", "expert") in players.roles
