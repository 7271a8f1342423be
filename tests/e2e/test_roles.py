"""Tests of a judge and a simulated user on real vLLM, run by the commands a user types.

One engine serves all of them. The pocket model's output as judge or user is nonsense; the tests
check the role of each call, which role its cost is charged to, and that nonsense makes no answer
wrong.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Store
from tutti.tasks.platform.project import PROJECT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

COMMON: dict[str, Any] = {"model": "pocket", "policies": ["passthrough"], "concurrency": [2]}
COMMON |= {"sampling": {"max_tokens": 32}}
DB = {"tasks": {}, "users": {"user_1": {"user_id": "user_1", "name": "U", "tasks": []}}}
TASK = {
    "id": "meeting",
    "user_scenario": {"instructions": "Have a task called Meeting made for user_1."},
    "evaluation_criteria": {
        "actions": [
            {
                "action_id": "a",
                "name": "create_task",
                "arguments": {"user_id": "user_1", "title": "Meeting"},
            }
        ],
        "reward_basis": ["DB"],
    },
}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a registry in which the pocket model's calls have a price, under a second name too."""
    registry = yaml.safe_load((PROJECT / "deployments" / "models.yaml").read_text())
    pocket = registry["models"]["pocket"]
    pocket["checkpoint"] = str(PROJECT / "assets" / "pocket")
    pocket.pop("dialect", None)  # vLLM parses its calls; what it leaves in the text is its answer
    pocket["context_tokens"], pocket["engine"]["kv_blocks"] = 1024, 96  # a customer's part is long
    pocket["prices"] = {"prompt": 1.0, "cached": 1.0, "completion": 1.0}
    file = tmp_path / "models.yaml"
    file.write_text(yaml.safe_dump({"models": {"pocket": pocket, "again": pocket}}))
    return file


def test_a_judge_beside_the_candidate(store: Store, models: Path, tmp_path: Path) -> None:
    """Votes and the customer's messages are calls of their roles; the same weights are started
    once."""
    facts, suite = tmp_path / "facts.jsonl", tmp_path / "facts.yaml"
    facts.write_text(json.dumps({"problem": "What is 1?", "answer": "1"}) + "\n")
    suite.write_text(
        yaml.safe_dump(
            COMMON
            | {"name": "facts", "benchmark": "simpleqa"}
            | {"data": {"source": str(facts), "rule": "three_votes"}}
            | {"limits": {"max_turns": 1}}
        )
    )
    chosen = ("--models", str(models), "--judge", "again")
    done = store.run("sweep", "run", str(suite), *chosen)
    assert done.returncode == 0, done.stderr[-3000:]
    (row,) = store.sql("select status, correct, cost_usd, calls from attempts")
    assert row["status"] in ("ok", "scorer_error") and row["calls"] == 1
    assert (row["correct"] is None) == (row["status"] == "scorer_error")
    calls = {
        row["role"]: row
        for row in store.sql("select role, count(*) n, sum(cost_usd) cost from calls group by role")
    }
    assert (calls["orchestrator"]["n"], calls["judge"]["n"]) == (1, 3)
    assert store.sql("select count(distinct endpoint) n from calls") == [{"n": 1}]
    assert row["cost_usd"] == pytest.approx(calls["orchestrator"]["cost"])
    assert calls["judge"]["cost"] > 0


def test_a_user_beside_the_candidate(store: Store, models: Path, tmp_path: Path) -> None:
    """The customer's messages are calls of role user, and the stored messages refer to those
    calls."""
    folder, suite = tmp_path / "tau2" / "mock", tmp_path / "customer.yaml"
    folder.mkdir(parents=True)
    (folder / "tasks.json").write_text(json.dumps([TASK]))
    (folder / "db.json").write_text(json.dumps(DB))
    (folder / "policy.md").write_text("Be quick.")
    suite.write_text(
        yaml.safe_dump(
            COMMON
            | {"name": "customer", "benchmark": "tau2-mock"}
            | {"data": {"source": str(folder.parent)}}
        )
    )
    chosen = ("--models", str(models), "--user", "again")
    done = store.run("sweep", "run", str(suite), *chosen)
    assert done.returncode == 0, done.stderr[-3000:]
    (row,) = store.sql("select * from attempts")
    assert row["status"] in ("ok", "limit", "model_error"), row  # the pocket model's own doing
    calls = {
        each["role"]: each["cost"]
        for each in store.sql("select role, sum(cost_usd) as cost from calls group by role")
    }
    assert calls.keys() == {"orchestrator", "user"} and calls["user"] > 0
    assert row["cost_usd"] == pytest.approx(calls["orchestrator"])
    said = store.sql(
        "select distinct c.role as made_by from messages m join calls c using (call_id) "
        "where m.role = 'user'"
    )
    assert said == [{"made_by": "user"}]
