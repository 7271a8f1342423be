"""Tests of `tutti sweep pause` and `resume`, which set the state in the catalog and refuse invalid
uses, and of `cancel --finish`, which pauses, waits for running attempts, and leaves no pause
behind."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from tests.cli.sweep.test_cancel import HOLD, home
from tutti import storage
from tutti.cli.main import app
from tutti.cli.sweep import control
from tutti.cli.sweep.control import paused_at, running, set_paused
from tutti.storage import catalog as cat

__all__ = ["home"]


@pytest.fixture
def catalog(home: Path) -> Iterator[storage.Catalog]:
    """Yield the store's catalog, with a cell and a running attempt."""
    with storage.open_catalog() as catalog:
        cell = {"cell_id": "cell:1", "sweep_id": "sweep:1", "benchmark": "", "model": ""}
        cell |= {"policy": "", "task_set_id": "", "index_id": "", "status": "running"}
        numbers = {"concurrency": 1, "repeat": 0, "position": 0, "samples": 2}
        catalog.upsert(cat.cells, cell | numbers)
        attempt: dict[str, Any] = {"attempt_id": "attempt:1", "cell_id": "cell:1"}
        attempt |= {"sample_id": "s", "task_id": "t", "run_id": "run:1"}
        attempt |= {"state": "running", "lease_token": 1}
        catalog.upsert(cat.attempt_states, attempt | {"trial": 0, "attempt": 1})
        # Of a run that was killed: it waits for the next to end it, and nobody waits for it.
        lost = attempt | {"attempt_id": "attempt:0", "sample_id": "r", "lease_token": 0}
        catalog.upsert(cat.attempt_states, lost | {"trial": 0, "attempt": 1})
        yield catalog


def typed(*words: str) -> tuple[int, str]:
    """Return the exit code and output of ``tutti sweep WORDS``."""
    done = CliRunner().invoke(app, ["sweep", *words])
    return done.exit_code, done.output


def test_pause_and_resume(catalog: storage.Catalog) -> None:
    """A second pause keeps the time of the first."""
    with storage.held(catalog, "sweep:1"):
        told = "sweep:1: paused, 1 attempts still running; `tutti sweep resume` continues\n"
        assert typed("pause", "mine") == (0, told)
        since = paused_at(catalog, "sweep:1")
        assert since is not None
        code, output = typed("pause", "--json")
        assert (code, json.loads(output)) == (0, {"sweep_id": "sweep:1", "running": 1})
        assert paused_at(catalog, "sweep:1") == since
        assert typed("resume", "mine") == (0, "sweep:1: resumed\n")
        assert paused_at(catalog, "sweep:1") is None


def test_what_makes_no_sense_is_refused(catalog: storage.Catalog) -> None:
    assert typed("pause", "mine") == (2, "tutti: sweep:1 is not running\n")
    assert typed("resume", "mine") == (2, "tutti: sweep:1 is not paused\n")
    set_paused(catalog, "sweep:1", cat.now())
    assert typed("resume", "mine")[1].startswith("sweep:1: no process runs it")


def test_cancel_may_wait_for_what_runs(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is interrupted only when no attempt runs, and the sweep is not paused
    afterwards."""
    monkeypatch.setattr(control, "SETTLED_S", 0.3)
    ended: list[float] = []

    def end() -> None:
        assert paused_at(catalog, "sweep:1") is not None
        with catalog.transaction() as connection:
            connection.execute(sa.update(cat.attempt_states).values(state="done", status="ok"))
        ended.append(time.monotonic())

    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, stderr=-3) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        timer = Timer(0.5, end)
        timer.start()
        code, output = typed("cancel", "mine", "--finish")
        timer.join()
        assert code == 0, output
        assert ended and time.monotonic() >= ended[0] + 0.3
        assert child.wait(60) != 0
    assert running(catalog, "sweep:1") == 0 and paused_at(catalog, "sweep:1") is None
