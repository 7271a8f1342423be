"""Tests of retention: it removes whole sweeps, lists them first, and disturbs no reader."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.maintenance import compact, expire, verify

CELL = {"benchmark": "b", "model": "m", "policy": "cap", "concurrency": 1, "repeat": 0}
CELL |= {"position": 0, "task_set_id": "t", "index_id": "i", "samples": 1, "status": "finished"}


@pytest.fixture
def sweeps(catalog: storage.Catalog) -> storage.Catalog:
    """Return a store with sweep ``sweep:old`` of ten days ago and ``sweep:new`` of now, with one
    attempt each."""
    for name, days in (("old", 10), ("new", 0)):
        at = cat.now() - timedelta(days=days)
        sweep, cell = f"sweep:{name}", f"cell:{name}"
        catalog.upsert(
            cat.sweeps, {"sweep_id": sweep, "name": name, "spec": "{}", "created_at": at}
        )
        catalog.upsert(cat.cells, CELL | {"cell_id": cell, "sweep_id": sweep, "ended_at": at})
        state: dict[str, Any] = {"attempt_id": name, "cell_id": cell, "sample_id": name}
        state |= {"task_id": "t", "trial": 0, "attempt": 1, "run_id": "r", "state": "done"}
        catalog.upsert(cat.attempt_states, state)
        rows = {"attempt_id": name, "cell_id": cell}
        storage.commit(catalog, {"attempts": [rows], "calls": [rows, rows], "train_steps": [{}]})
    return catalog


def attempts(catalog: storage.Catalog) -> list[str]:
    """Return the attempts visible to readers."""
    rows = storage.query("select attempt_id from attempts order by all", catalog.home)
    return [row["attempt_id"] for row in rows]


def test_a_dry_run_says_what_would_go_and_nothing_goes(sweeps: storage.Catalog) -> None:
    """The list has rows and bytes, by age."""
    (found,) = expire(sweeps, older_than=timedelta(days=7), dry_run=True)
    assert (found.sweep_id, found.cells, found.parts, found.rows) == ("sweep:old", 1, 2, 3)
    assert found.bytes > 0
    assert attempts(sweeps) == ["new", "old"]


def test_an_old_sweep_goes_with_all_its_rows(sweeps: storage.Catalog) -> None:
    """The sweep's cell is marked, its files are removed by a later compaction, and other rows
    stay."""
    expire(sweeps, older_than=timedelta(days=7))
    assert attempts(sweeps) == ["new"]
    assert storage.query("select count(*) as n from calls", sweeps.home) == [{"n": 2}]
    assert storage.query("select count(*) as n from train_steps", sweeps.home) == [{"n": 2}]
    (cell,) = storage.query(
        "select status, reason from cells where status = 'expired'", sweeps.home
    )
    assert cell["reason"].startswith("let go on")
    states = sweeps.rows(sa.select(cat.attempt_states.c.attempt_id))
    assert states == [{"attempt_id": "new"}]
    assert verify(sweeps, min_age_s=0).findings == []
    assert compact(sweeps, grace_s=0).files_removed == 2
    assert expire(sweeps, older_than=timedelta(days=7)) == []


@pytest.mark.parametrize("name", ["new", "sweep:new"])
def test_a_sweep_goes_by_name_or_id(sweeps: storage.Catalog, name: str) -> None:
    """The sweep's age does not matter."""
    expire(sweeps, sweeps=[name])
    assert attempts(sweeps) == ["old"]


def test_a_sweep_that_is_running_stays(sweeps: storage.Catalog) -> None:
    """The sweep's process continues to commit."""
    with storage.held(sweeps, "sweep:old") as lease:
        (found,) = expire(sweeps, older_than=timedelta(days=7))
        assert "sweep:old is held by process" in found.kept
        storage.commit(sweeps, {"calls": [{"cell_id": "cell:old"}]}, lease=lease)
    assert attempts(sweeps) == ["new", "old"]


def test_a_wrong_name_lets_nothing_go(sweeps: storage.Catalog) -> None:
    """A typing error in one name must not remove the others."""
    with pytest.raises(storage.StoreError, match="no sweep is called older"):
        expire(sweeps, sweeps=["old", "older"])
    with pytest.raises(storage.StoreError, match="no sweep was selected"):
        expire(sweeps)
    assert attempts(sweeps) == ["new", "old"]


def test_a_clock_set_back_lets_nothing_go(
    sweeps: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sweeps dated in the future are not old."""
    real = cat.now
    monkeypatch.setattr(cat, "now", lambda: real() - timedelta(days=30))
    assert expire(sweeps, older_than=timedelta(days=7)) == []
