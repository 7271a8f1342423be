"""Kill what can be killed while a sweep runs: nothing finished is lost or counted twice."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import PROJECT, Store

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SUITE = """
name: crash
policies: [passthrough]
concurrency: [2]
tasks: {families: [module, parameter, expression], train_per_family: 0, test_per_family: 50}
"""
STARTED_TIMEOUT_S = 240.0


def test_kill_the_run_then_the_engine_then_finish(store: Store, tmp_path: Path) -> None:
    """kill -9 of the run, then of vLLM; each time the next run goes on where it was."""
    suite = tmp_path / "crash.yaml"
    suite.write_text(SUITE)

    run = store.start("sweep", "run", str(suite))
    _wait_for_attempts(store, 6)
    run.kill()
    run.wait()
    assert not store.wait_until_gone(), "vLLM, gateway and retrieval end with their owner"
    finished = _counted(store)
    assert finished

    run = store.start("sweep", "run", str(suite))
    _wait_for_attempts(store, len(finished) + 6)
    _kill_engine(store)
    assert run.wait(timeout=60) == 1
    output = (tmp_path / "output.log").read_text()
    assert "the engine died while serving" in output and "run the same command again" in output
    assert not store.wait_until_gone()
    assert set(finished) <= set(_counted(store))

    done = store.run("sweep", "run", str(suite))
    assert done.returncode == 0, done.stderr[-3000:]
    samples = store.sql("select samples from cells")[0]["samples"]
    rows = store.sql(
        "select sample_id, count(*) filter (status != 'infra_error') counted, "
        "count(distinct attempt_id) ids, count(*) n from attempts group by all"
    )
    assert len(rows) == samples
    assert all(row["counted"] == 1 and row["ids"] == row["n"] for row in rows)
    lost = store.sql("select count(*) n from attempts where stop_reason = 'worker_lost'")
    assert lost[0]["n"] >= 1, "attempts in flight at the kill are on record, not counted wrong"
    assert {k: v for k, v in _counted(store).items() if k in finished} == finished
    missing = store.sql(
        "select count(*) n from attempts a where status = 'ok' and (select count(*) from calls c "
        "where c.attempt_id = a.attempt_id) != a.calls"
    )
    assert missing == [{"n": 0}], "a finished attempt has all its calls"


def test_a_missing_models_environment(store: Store) -> None:
    done = store.run("sweep", "run", "smoke", TUTTI_MODELS_PYTHON="/nowhere/python")
    assert done.returncode == 1
    assert "make setup" in done.stderr and "Traceback" not in done.stderr


def test_an_engine_that_cannot_start(store: Store, tmp_path: Path) -> None:
    """vLLM's own last words are shown."""
    models = tmp_path / "deployments" / "models.yaml"
    models.parent.mkdir()
    text = (PROJECT / "deployments" / "models.yaml").read_text()
    text = text.replace("assets/pocket", str(PROJECT / "assets/pocket"))
    models.write_text(text.replace("kv_blocks: 48", "kv_blocks: 8"))
    done = store.run("sweep", "run", "smoke", "--models", str(models))
    assert done.returncode == 1
    assert "its log ends" in done.stderr and "KV cache" in done.stderr


def _wait_for_attempts(store: Store, wanted: int) -> None:
    deadline = time.monotonic() + STARTED_TIMEOUT_S
    while time.monotonic() < deadline:
        if (store.root / "catalog.db").exists() and len(_counted(store)) >= wanted:
            return
        time.sleep(0.3)
    raise AssertionError(f"fewer than {wanted} attempts after {STARTED_TIMEOUT_S:.0f} s")


def _counted(store: Store) -> dict[str, bool]:
    rows = store.sql("select attempt_id, correct from attempts where status != 'infra_error'")
    return {row["attempt_id"]: row["correct"] for row in rows}


def _kill_engine(store: Store) -> None:
    servers = [
        pid
        for pid, command in store.processes().items()
        if "vllm.entrypoints" in command and "supervise.py" not in command
    ]
    assert servers
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
