"""Tests of real processes that compete for GPUs: never two on one GPU, and no GPU is lost with its
holder."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.platform.gpus.conftest import MakeGpus
from tutti import storage
from tutti.tasks.platform.gpus import GpuClaim, GpusBusy, lease_gpus, list_gpus, read_inventory
from tutti.tasks.platform.project import PROJECT

PROCESSES, N_GPUS, TURNS = 5, 3, 15


def command(catalog: storage.Catalog, turns: int, lease_s: float, most: int, to: Path) -> Any:
    words = [str(catalog.home.root), str(turns), str(lease_s), str(most), str(to)]
    return [sys.executable, "-m", "tests.platform.gpus.worker", *words]


@contextmanager
def holder(
    catalog: storage.Catalog, tmp_path: Path, environment: dict[str, Any], lease_s: float
) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """Yield a process that holds a GPU with a child on it, and its log file."""
    record = tmp_path / "record"
    started = command(catalog, 0, lease_s, 1, record)
    with subprocess.Popen(started, env=environment, cwd=PROJECT) as process:
        try:
            until(users, 60)
            yield process, record
        finally:
            process.kill()


def until(is_so: Any, timeout_s: float) -> float:
    """Return the seconds until `is_so` was true."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < timeout_s, "it never was so"
        time.sleep(0.02)
    return time.monotonic() - began


def users() -> list[int]:
    """Return the processes on a GPU of this test's holder, not of another test's."""
    found = []
    ours = f"TUTTI_GPUS={os.environ['TUTTI_GPUS']}".encode()
    for entry in (name for name in os.listdir("/proc") if name.isdecimal()):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        used = {ours, b"CUDA_VISIBLE_DEVICES=GPU-0000-aa"} <= set(environment)
        if words[:2] == [b"sleep", b"1000"] and used:
            found.append(int(entry))
    return found


@pytest.mark.slow
def test_never_two_on_one_card(
    catalog: storage.Catalog,
    listed: MakeGpus,
    worker_environment: dict[str, Any],
    tmp_path: Path,
) -> None:
    """Processes claim one or two GPUs, and each gets its turns, however busy the machine is."""
    listed(N_GPUS)
    environment = {**worker_environment, **dict(os.environ)}
    records = [tmp_path / f"record-{n}" for n in range(PROCESSES)]
    running = [
        subprocess.Popen(command(catalog, TURNS, 1.0, 2, to), env=environment, cwd=PROJECT)
        for to in records
    ]
    assert [process.wait(120) for process in running] == [0] * PROCESSES
    holds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for record in records:
        for line in record.read_text().splitlines():
            uuid, *span = line.split()
            holds[uuid].append((float(span[0]), float(span[1])))
    assert len(holds) == N_GPUS and sum(map(len, holds.values())) >= PROCESSES * TURNS
    for spans in holds.values():
        for (_, left), (entered, _) in itertools.pairwise(sorted(spans)):
            assert left <= entered, "two held it"


@pytest.mark.slow
def test_a_killed_holder_frees_its_card(
    catalog: storage.Catalog,
    listed: MakeGpus,
    worker_environment: dict[str, Any],
    tmp_path: Path,
) -> None:
    """The GPU is free when its child has ended, long before the lease expires."""
    listed(1)
    environment = {**worker_environment, **dict(os.environ)}
    with holder(catalog, tmp_path, environment, lease_s=300) as (process, _):
        (shown,) = [e for e in list_gpus(catalog, read_inventory(catalog.home)) if e.uuid][:1]
        assert (shown.state, shown.run_id, shown.pid) == ("held", "run:w", process.pid)
        with pytest.raises(GpusBusy, match=r"gpu 0 held by run:w \(holding\) since"):
            with lease_gpus(catalog, GpuClaim(1, wait_s=0)):
                pass
        process.send_signal(signal.SIGKILL)
        with lease_gpus(catalog, GpuClaim(1, wait_s=60)):
            assert users() == [], "its child was on the GPU"


@pytest.mark.slow
def test_a_stopped_holder_is_waited_for_where_its_child_still_uses_the_card(
    catalog: storage.Catalog,
    listed: MakeGpus,
    worker_environment: dict[str, Any],
    tmp_path: Path,
) -> None:
    """The supervisor ends the child; the stopped process itself still holds its lock."""
    listed(1)
    environment = {**worker_environment, **dict(os.environ)}
    with holder(catalog, tmp_path, environment, lease_s=1.0) as (process, record):
        process.send_signal(signal.SIGSTOP)
        until(lambda: not users(), 15)
        with pytest.raises(GpusBusy), lease_gpus(catalog, GpuClaim(1, wait_s=0.5)):
            pass
        process.send_signal(signal.SIGCONT)
        process.wait(60)
        assert record.read_text().startswith("ended"), "its lease was not taken by anybody"


@pytest.mark.slow
def test_a_stopped_holder_that_comes_back_is_fenced(
    catalog: storage.Catalog,
    listed: MakeGpus,
    worker_environment: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a container with its own /tmp the lock is not shared: the child ends before the lease
    expires, another process takes the GPU, and the holder gets an error when it resumes."""
    listed(1)
    environment = {**worker_environment, **dict(os.environ)}
    monkeypatch.setenv("TUTTI_GPU_LOCKS", str(tmp_path / "other-locks"))
    with holder(catalog, tmp_path, environment, lease_s=3.0) as (process, record):
        process.send_signal(signal.SIGSTOP)
        with lease_gpus(catalog, GpuClaim(1, wait_s=20, lease_s=60)) as lease:
            assert users() == [], "two on one GPU"
            process.send_signal(signal.SIGCONT)
            process.wait(60)
            assert record.read_text().startswith("lost gpu 0 was taken over by another run")
            lease.check()
