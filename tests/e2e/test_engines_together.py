"""Tests of several real engines in one sweep: replicas in one pool, and a model of the Hub beside
its judge."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import PATIENCE_S, Store
from tests.e2e.test_crashes import wait_for_attempts
from tests.serving.weights.checkpoints import make_cache
from tutti.tasks.platform.project import POCKET

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(4 * PATIENCE_S)]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB_NAME = "small/Pocket"
COMMON: dict[str, Any] = {"policies": ["passthrough"], "limits": {"max_turns": 1}}
SAMPLES = 200
CALLED_S = 60.0


def write(file: Path, content: dict[str, Any]) -> str:
    """Write a YAML file and return its path."""
    file.write_text(yaml.safe_dump(content))
    return str(file)


def entry(checkpoint: Path | str, **engine: Any) -> dict[str, Any]:
    """Return the pocket model's entry with these settings."""
    return {
        "provider": "vllm",
        "checkpoint": str(checkpoint),
        "context_tokens": 512,
        "engine": engine,
    }


def test_two_replicas_share_the_calls_and_the_run_ends_with_one_of_them(
    store: Store, tmp_path: Path
) -> None:
    """kill -9 of one of two replicas ends a run that may not restart it; a later run continues the
    same cell."""
    problems = tmp_path / "gsm8k"
    problems.mkdir()
    lines = [
        json.dumps({"question": f"{n} + 1?", "answer": f"#### {n + 1}"}) for n in range(SAMPLES)
    ]
    (problems / "test.jsonl").write_text("\n".join(lines))
    suite = write(
        tmp_path / "pair.yaml",
        {
            **COMMON,
            "name": "pair",
            "benchmark": "gsm8k",
            "model": "pocket",
            "concurrency": [4],
            "data": {"source": str(problems)},
            "sampling": {"max_tokens": 48},
            "execution": {"restarts": 0},
        },
    )
    two = write(tmp_path / "2.yaml", {"models": {"pocket": entry(POCKET, replicas=2)}})
    output = tmp_path / "output.log"
    run = store.start("sweep", "run", suite, "--models", two, output=output)
    try:
        wait_for_attempts(store, 6)
        shared = _wait_for_calls_of_both(store)
        pair = servers(store)
        assert len(pair) == 2
        os.kill(pair[-1], signal.SIGKILL)
        assert run.wait(timeout=PATIENCE_S) == 5, output.read_text()[-3000:]
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=PATIENCE_S)
    said = " ".join(output.read_text().split())
    assert "the engine died while serving" in said and "run the same command again" in said
    assert not store.wait_until_gone(), "the other one has ended with the run"
    assert store.sql("select status from cells") == [{"status": "incomplete"}]

    done = store.run("sweep", "run", suite, "--models", two)
    assert done.returncode == 0, done.stderr[-3000:]
    (first, second) = sorted(shared)
    assert second == f"{first}#2" and _calls(store)[first] > shared[first]
    assert store.sql("select status, samples from cells") == [
        {"status": "finished", "samples": SAMPLES}
    ]
    counted = store.sql(
        "select count(*) n, count(distinct sample_id) samples from attempts "
        "where status not in ('infra_error', 'cancelled')"
    )
    assert counted == [{"n": SAMPLES, "samples": SAMPLES}]


def test_a_model_of_the_hub_beside_its_judge(store: Store, tmp_path: Path) -> None:
    """Two engines run at once: the measured one comes from a Hub's cache by its commit, without
    network. Each gets the calls of its role, and each has the estimated cache size."""
    make_cache(tmp_path / "hub", HUB_NAME, COMMIT, POCKET)
    offline = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    models = {
        "measured": entry(f"{HUB_NAME}@{COMMIT}", max_sequences=8),
        "judge": entry(POCKET, kv_blocks=96, max_sequences=4),
    }
    facts = tmp_path / "facts.jsonl"
    facts.write_text(json.dumps({"problem": "What is 1?", "answer": "1"}) + "\n")
    suite = write(
        tmp_path / "facts.yaml",
        {
            **COMMON,
            "name": "facts",
            "benchmark": "simpleqa",
            "model": "measured",
            "concurrency": [1],
            "roles": {"judge": "judge"},
            "data": {"source": str(facts)},
            "sampling": {"max_tokens": 32},
        },
    )
    registry = write(tmp_path / "models.yaml", {"models": models})
    chosen = (suite, "--models", registry)
    done = store.run("sweep", "run", *chosen, **offline)
    assert done.returncode == 0, done.stderr[-3000:]

    (row,) = store.sql("select status, engine_id, calls from attempts")
    assert row["status"] in ("ok", "scorer_error") and row["calls"] == 1
    calls = store.sql("select role, endpoint, count(*) n from calls group by all order by role")
    assert [(each["role"], each["n"]) for each in calls] == [("judge", 1), ("orchestrator", 1)]
    assert calls[0]["endpoint"] != calls[1]["endpoint"] == row["engine_id"]
    (folder,) = store.sql(
        "select a.detail->>'folder' folder from artifacts a join artifact_parents p on "
        f"a.artifact_id = p.parent_id where p.artifact_id = '{row['engine_id']}'"
    )
    assert folder["folder"].endswith(f"snapshots/{COMMIT}")

    told = _tells(store, chosen, offline)
    assert told == {
        "measured": "KV cache: estimated 262,144 tokens, engine reported 262,144",
        "judge": "KV cache: estimated 3,072 tokens, engine reported 3,072",
    }
    (page,) = store.root.glob("artifacts/report-*/index.html")
    assert "estimated 262,144 tokens, engine reported 262,144" in page.read_text()


def _tells(store: Store, chosen: tuple[str, ...], environment: dict[str, str]) -> dict[str, str]:
    """Return the cache sizes reported by engines, as shown in the plan."""
    done = store.run("sweep", "plan", *chosen, "--json", **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = json.loads(done.stdout)["engines"]
    return {
        name: next(part for part in line.split("; ") if part.startswith("KV cache"))
        for name, line in lines.items()
        if "reported" in line
    }


def servers(store: Store) -> list[int]:
    """Return the pids of the store's vLLM servers, without their supervisors and engine
    processes."""
    return [
        pid
        for pid, command in store.processes().items()
        if "vllm.entrypoints" in command and "supervise.py" not in command
    ]


def _calls(store: Store) -> dict[str, int]:
    """Return the model's calls by engine."""
    rows = store.sql(
        "select endpoint, count(*) n from calls where attempt_id is not null group by all"
    )
    return {row["endpoint"]: row["n"] for row in rows}


def _wait_for_calls_of_both(store: Store) -> dict[str, int]:
    deadline = time.monotonic() + CALLED_S
    while len(found := _calls(store)) < 2:
        assert time.monotonic() < deadline, f"only {found} got calls"
        time.sleep(0.2)
    return found
