"""Tests of a public benchmark on real vLLM, run by the command a user types and then scored
again."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Store

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SUITE = """
name: numbers
benchmark: gsm8k:2
model: pocket
policies: [adaptive]
concurrency: [4]
sampling: {max_tokens: 48}
limits: {max_turns: 1}
"""


def test_a_benchmark_runs_by_its_name(store: Store, tmp_path: Path) -> None:
    """Each item runs twice, every call is recorded, and a second scoring gives the same scores."""
    data, suite = tmp_path / "test.jsonl", tmp_path / "numbers.yaml"
    rows = [{"question": f"What is {n} plus 2?", "answer": f"#### {n + 2}"} for n in range(5)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    suite.write_text(SUITE)
    chosen = ("--source", str(data), "--limit", "3")
    shown = store.run("sweep", "run", str(suite), *chosen, "--dry-run")
    assert shown.returncode == 0 and "What is 0 plus 2?" in shown.stdout
    done = store.run("sweep", "run", str(suite), *chosen)
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = store.sql(
        "select count(*) n, count(distinct task_id) tasks, count(distinct answer is null) kinds, "
        "count(score) scored, sum(calls) calls from attempts where status != 'infra_error'"
    )
    assert (found["n"], found["tasks"], found["scored"], found["calls"]) == (6, 3, 6, 6)
    assert store.sql("select count(*) n from calls where status = 'ok'") == [{"n": 6}]
    again = store.run("score", "numbers", "--json")
    assert json.loads(again.stdout) == {"scored": 6, "flipped": [], "failed": {}}
    twice = store.run("sweep", "run", str(suite), *chosen)
    assert twice.returncode == 0 and "1 finished cells reused" in twice.stderr
