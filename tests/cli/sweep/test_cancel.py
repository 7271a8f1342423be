"""Tests of `tutti sweep cancel`: it ends a sweep of another process and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from tutti import storage
from tutti.cli.main import app
from tutti.storage import catalog as cat

HOLD = """
import sys, time
from tutti import storage
with storage.open_catalog() as catalog, storage.held(catalog, "sweep:1"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store with one sweep."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    with storage.open_catalog() as catalog, catalog.transaction() as connection:
        row = {"sweep_id": "sweep:1", "name": "mine", "spec": "{}", "created_at": cat.now()}
        connection.execute(sa.insert(cat.sweeps).values(row))
    return tmp_path


def test_a_running_sweep_is_ended(home: Path) -> None:
    """The sweep's process gets the signal of Ctrl-C and has ended when the verb returns."""
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, stderr=-3) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        done = CliRunner().invoke(app, ["sweep", "cancel", "mine"])
        assert done.exit_code == 0, done.output
        assert f"process {child.pid} has ended;" in done.output
        assert child.wait(60) != 0


def test_a_sweep_that_does_not_run_is_said_to(home: Path) -> None:
    done = CliRunner().invoke(app, ["sweep", "cancel", "mine"])
    assert (done.exit_code, done.output) == (2, "tutti: sweep:1 is not running\n")


def test_another_hosts_sweep_is_left_alone(home: Path) -> None:
    with storage.open_catalog() as catalog, storage.held(catalog, "sweep:1") as lease:
        with catalog.transaction() as connection:
            elsewhere = '{"host": "far/00000000", "pid": 1, "start_ticks": 1}'
            connection.execute(sa.text("update leases set holder = :h"), {"h": elsewhere})
        done = CliRunner().invoke(app, ["sweep", "cancel", "mine"])
    assert lease.name == "sweep:1"
    assert done.exit_code == 2
    assert "runs on far, process 1: cancel it there" in done.output
