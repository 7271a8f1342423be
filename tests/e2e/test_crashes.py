"""Tests that kill processes while a sweep runs: nothing finished is lost or counted twice."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import PATIENCE_S, Store
from tutti.tasks.platform.project import PROJECT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(4 * PATIENCE_S)]

SUITE = """
name: crash
policies: [passthrough]
concurrency: [2]
execution: {restarts: 0}
tasks: {families: [module, parameter, expression], train_per_family: 0, test_per_family: 50}
"""


def test_kill_the_run_then_the_engine_then_finish(store: Store, tmp_path: Path) -> None:
    """The run and then vLLM are killed with kill -9; each time the next run continues."""
    suite = tmp_path / "crash.yaml"
    suite.write_text(SUITE)

    run = store.start("sweep", "run", str(suite), output=tmp_path / "output.log")
    wait_for_attempts(store, 6)
    run.kill()
    run.wait()
    assert not store.wait_until_gone(), "vLLM, gateway and retrieval end with their owner"
    finished = _counted(store)
    assert finished

    run = store.start("sweep", "run", str(suite), output=tmp_path / "output.log")
    wait_for_attempts(store, len(finished) + 6)
    kill_engine(store)
    assert run.wait(timeout=PATIENCE_S) == 5
    output = (tmp_path / "output.log").read_text()
    assert "the engine died while serving" in output and "run the same command again" in output
    assert not store.wait_until_gone()
    assert set(finished) <= set(_counted(store))

    done = store.run("sweep", "run", str(suite))
    assert done.returncode == 0, done.stderr[-3000:]
    samples = store.sql("select samples from cells")[0]["samples"]
    rows = store.sql(
        "select sample_id, count(*) filter (status not in ('infra_error', 'cancelled')) counted, "
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
    """The message quotes vLLM's last lines of output."""
    models = tmp_path / "deployments" / "models.yaml"
    models.parent.mkdir()
    text = (PROJECT / "deployments" / "models.yaml").read_text()
    text = text.replace("assets/pocket", str(PROJECT / "assets/pocket"))
    models.write_text(text.replace("kv_blocks: 32", "kv_blocks: 8"))
    done = store.run("sweep", "run", "smoke", "--models", str(models))
    assert done.returncode == 1
    assert "its log says" in done.stderr and "KV cache" in done.stderr


@pytest.fixture()
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of 64 MB; mounting needs root."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a small file system here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_during_the_sweep(small_disk: Path, tmp_path: Path) -> None:
    """There is one clear message and exit code 1, and nothing finished is lost; after space is
    freed, the next run finishes."""
    store = Store(small_disk / "home")
    suite = tmp_path / "crash.yaml"
    suite.write_text(SUITE)
    run = store.start("sweep", "run", str(suite), output=tmp_path / "output.log")
    wait_for_attempts(store, 6)
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    assert run.wait(timeout=PATIENCE_S) == 1
    output = (tmp_path / "output.log").read_text()
    assert "no space left on the device" in output and "Traceback" not in output
    assert not store.wait_until_gone()
    finished = _counted(store)
    assert len(finished) >= 6
    ballast.unlink()
    done = store.run("sweep", "run", str(suite))
    assert done.returncode == 0, done.stderr[-3000:]
    assert finished.items() <= _counted(store).items()
    samples = store.sql("select samples from cells")[0]["samples"]
    assert len(_counted(store)) == samples


def wait_for_attempts(store: Store, wanted: int) -> None:
    """Wait until `wanted` attempts are counted."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (store.root / "catalog.db").exists() and len(_counted(store)) >= wanted:
            return
        time.sleep(0.3)
    raise AssertionError(f"fewer than {wanted} attempts after {PATIENCE_S:.0f} s")


def _counted(store: Store) -> dict[str, bool]:
    rows = store.sql(
        "select attempt_id, correct from attempts where status not in ('infra_error', 'cancelled')"
    )
    return {row["attempt_id"]: row["correct"] for row in rows}


def kill_engine(store: Store) -> None:
    """Kill every vLLM process of the store, but not its supervisor."""
    servers = [
        pid
        for pid, command in store.processes().items()
        if "vllm.entrypoints" in command and "supervise.py" not in command
    ]
    assert servers
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
