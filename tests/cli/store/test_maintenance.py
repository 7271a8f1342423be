"""Tests of the maintenance verbs: output, exit codes and the flow."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tutti import storage
from tutti.cli.main import app
from tutti.storage import catalog as cat


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Catalog]:
    """Yield a store of one sweep with two small commits."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    with storage.open_catalog() as catalog:
        row = {"sweep_id": "sweep:1", "name": "nights", "spec": "{}", "created_at": cat.now()}
        catalog.upsert(cat.sweeps, row)
        for cell in ("a", "b"):
            rows = [
                {"attempt_id": f"{cell}{i}", "cell_id": cell, "task_id": f"t{i}", "trial": 0}
                | {"sample_id": f"{cell}{i}", "attempt": 1, "status": "ok", "sweep_id": "sweep:1"}
                | {"correct": cell == "b" or i == 0, "score": float(cell == "b" or i == 0)}
                for i in range(12)
            ]
            storage.commit(catalog, {"attempts": rows})
        yield catalog


def tutti(*arguments: str) -> tuple[int, str]:
    """Return the exit code and standard output of the command."""
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout


def as_json(*arguments: str) -> Any:
    """Return the command's JSON output; the command must succeed."""
    code, text = tutti(*arguments, "--json")
    assert code == 0, text
    return json.loads(text)


def test_compact_says_what_it_merged() -> None:
    assert "2 parts became 1" in tutti("compact")[1]
    assert as_json("compact", "--grace", "0") == {
        "sources": 0,
        "merged": 0,
        "bytes_before": 0,
        "bytes_after": 0,
        "files_removed": 2,
        "files_waiting": 0,
    }


def test_verify_tells_by_its_exit_code(store: storage.Catalog) -> None:
    """The exit code is 0 if all is well, 1 with the file's name if not, and 0 after the repair."""
    assert tutti("verify")[0] == 0
    path = next(store.home.tables.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    code, text = tutti("verify")
    assert code == 1 and f"damaged: {path.relative_to(store.home.root)}: " in text
    code, text = tutti("verify", "--repair")
    assert code == 0 and "moved to quarantine/" in text
    assert tutti("verify")[0] == 0


def test_expire_shows_before_it_does() -> None:
    (found,) = as_json("expire", "--sweep", "nights", "--dry-run")
    assert (found["sweep_id"], found["rows"]) == ("sweep:1", 24)
    assert "would go" in tutti("expire", "--older-than", "0", "--dry-run")[1]
    assert tutti("expire")[0] == 2
    assert tutti("expire", "--sweep", "days")[0] == 1
    as_json("expire", "--sweep", "nights")
    assert storage.query("select count(*) as n from attempts") == [{"n": 0}]


async def test_the_maintenance_flow_runs_with_no_arguments() -> None:
    """The flow runs as a plain function and returns its findings."""
    from tutti.flows.maintenance import maintenance

    done = await maintenance.fn()
    assert done["compacted"]["merged"] == 1 and done["verified"]["findings"] == []
