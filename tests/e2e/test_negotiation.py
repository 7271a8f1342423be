"""Tests of a strategist and an actor on real vLLM that negotiate, run by the commands a user types.

Both are the pocket model, by two entries that share an engine. They negotiate poorly; the tests
check that calls have the right role, that the strategist's are recorded token by token, and that
the score follows from the recorded moves.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.benchmarks.negotiation.play import replay
from tests.e2e.conftest import Store
from tutti.tasks.benchmarks import Source, benchmark_named
from tutti.tasks.benchmarks.negotiation.scenario import Scenario
from tutti.tasks.benchmarks.negotiation.view import STRATEGIES
from tutti.tasks.platform.project import POCKET

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
COUNT = 5
AGENT = {
    "extends": "negotiation",
    "tools": {"act": {"structured_strategies": True}},  # the pocket does not know the form
}
ENTRY: dict[str, Any] = {"provider": "vllm", "checkpoint": str(POCKET), "context_tokens": 512}
# No prompt is prefilled in parts: vLLM on the CPU fails at that where a call has a seed.
ENGINE = {"kv_blocks": 96, "max_sequences": 8, "max_batched_tokens": 4096}


def run(store: Store, folder: Path, benchmark: str, **roles: str) -> None:
    """Run a sweep of a few scenarios."""
    entry = ENTRY | {"engine": ENGINE}
    models = {"strategist": entry | {"record_tokens": True}, "actor": entry}
    (folder / "models.yaml").write_text(yaml.safe_dump({"models": models}))
    (folder / "agent.yaml").write_text(yaml.safe_dump(AGENT))
    suite: dict[str, Any] = {"name": benchmark, "benchmark": benchmark, "model": "strategist"}
    suite |= {"policies": ["passthrough"], "concurrency": [4], "limit": COUNT}
    suite |= {"roles": {"agent": str(folder / "agent.yaml")} | roles}
    suite |= {"sampling": {"temperature": 1.0, "max_tokens": 16}}
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    models_file = str(folder / "models.yaml")
    done = store.run("sweep", "run", str(folder / "suite.yaml"), "--models", models_file)
    assert done.returncode == 0, done.stderr[-3000:]


def check_scores(store: Store, benchmark: str) -> None:
    """Check that each score is that of its recorded moves, and that these are the moves shown to
    the parties."""
    scenarios = [each.target["scenario"] for each in benchmark_named(benchmark).load(Source())]
    rows = store.sql(
        "select distinct a.attempt_id, s.value, s.detail, t.slots from attempts a join scores s "
        f"using (attempt_id) join tasks t using (task_id) where a.benchmark = '{benchmark}'"
    )
    assert len(rows) == COUNT
    by_id = {each["id"]: Scenario(**each) for each in scenarios}
    for row in rows:
        state = json.loads(row["detail"])
        made = replay(by_id[json.loads(row["slots"])["id"]], state["moves"])
        assert (made.share, made.deal) == (row["value"], state["deal"])
        told = store.sql(
            f"select result from tool_runs where attempt_id = '{row['attempt_id']}' "
            "and name = 'act' order by step"
        )
        own = [move.partition(": ")[2] for move in state["moves"] if move.startswith("own")]
        assert [each["result"] for each in told] == own


def test_strategist_and_actor(store: Store, tmp_path: Path) -> None:
    """Two models of one sweep negotiate with a program and then with themselves."""
    run(store, tmp_path, "negotiation")
    assert store.sql("select distinct status from attempts") == [{"status": "ok"}]
    check_scores(store, "negotiation")
    calls = store.sql(
        "select role, model, count(*) as n, count(token_ids) as ids, count(logprobs) as logprobs, "
        "bool_and(len(token_ids) = len(logprobs)) as alike from calls group by all order by role"
    )
    assert [(each["role"], each["model"]) for each in calls] == [
        ("expert", "actor"),
        ("orchestrator", "strategist"),
    ]
    assert calls[0]["n"] == calls[1]["n"] == calls[1]["ids"] == calls[1]["logprobs"]
    assert calls[1]["alike"]
    assert store.sql("select count(distinct endpoint) as n from calls") == [{"n": 1}]
    said = store.sql("select distinct content from messages where role = 'assistant'")
    assert {each["content"] for each in said} <= set(STRATEGIES)
    run(store, tmp_path, "negotiation-self-play", user="actor")
    check_scores(store, "negotiation-self-play")
    played = store.sql(
        "select c.role, count(*) as n from calls c join attempts a using (attempt_id) "
        "where a.benchmark = 'negotiation-self-play' group by all order by 1"
    )
    by_role = {each["role"]: each["n"] for each in played}
    assert by_role.keys() == {"expert", "orchestrator", "user"}
    assert by_role["user"] % 2 == 0, "a strategy and a move each time"
