"""Tests of verification, which detects faults of a store, and of repair, which sets files aside
without deleting."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.base import home
from tutti.storage.catalog import leasing as leases
from tutti.storage.maintenance import compact, verification, verify
from tutti.storage.programs.states import begin_program
from tutti.storage.programs.tally import ProgramCell
from tutti.storage.read.views import connect


def part(home: storage.Home, table: str) -> Path:
    """Return the only part of a table."""
    (found,) = (home.tables / table).rglob("*.parquet")
    return found


@pytest.fixture
def filled(catalog: storage.Catalog) -> storage.Catalog:
    """Return a store of two attempts, both done, each with a call."""
    for each in ("a", "b"):
        state = {"attempt_id": each, "cell_id": "c", "sample_id": each, "task_id": "t", "trial": 0}
        catalog.upsert(cat.attempt_states, state | {"attempt": 1, "run_id": "r", "state": "done"})
    ids = ("a", "b")
    storage.commit(
        catalog,
        {"attempts": [{"attempt_id": i} for i in ids], "calls": [{"call_id": i} for i in ids]},
    )
    return catalog


def kinds(catalog: storage.Catalog, **options: Any) -> list[str]:
    """Return the kinds of verification's findings."""
    return [finding.kind for finding in verify(catalog, **options).findings]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def flip_unseen(path: Path) -> None:
    """Change one bit as a failing disk does, keeping size and times."""
    before = path.stat()
    flip(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def cut(path: Path) -> None:
    """Truncate a file."""
    path.write_bytes(path.read_bytes()[:-20])


def test_a_whole_store_has_no_findings(filled: storage.Catalog) -> None:
    """The result lists what was checked."""
    report = verify(filled, min_age_s=0)
    assert (report.parts, report.files, report.attempts, report.findings) == (2, 2, 2, [])


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
@pytest.mark.parametrize("table", ["attempts", "calls"])
def test_no_query_answers_from_a_damaged_part(
    filled: storage.Catalog, harm: Any, table: str
) -> None:
    """A truncated, changed or missing part is refused by name before any row is read."""
    path = part(filled.home, table)
    harm(path)
    with pytest.raises(storage.PartDamaged, match=f"{path}: .*tutti verify --repair"):
        storage.connect(filled.home)


@pytest.mark.parametrize("harm", [flip, flip_unseen, cut])
def test_repair_sets_a_damaged_part_aside_and_the_rest_answers(
    filled: storage.Catalog, harm: Any
) -> None:
    """Nothing is deleted; attempts without their rows are marked as lost, so their samples run
    again."""
    path = part(filled.home, "attempts")
    harm(path)
    data = path.read_bytes()
    assert kinds(filled) == ["damaged"]
    assert path.exists(), "without --repair nothing is touched"
    assert kinds(filled, repair=True) == ["damaged", "lost", "lost"]
    moved = filled.home.quarantine / path.relative_to(filled.home.root)
    assert not path.exists() and moved.read_bytes() == data
    assert storage.query("select call_id from calls order by all", filled.home) == [
        {"call_id": "a"},
        {"call_id": "b"},
    ]
    assert {row["state"] for row in filled.rows(sa.select(cat.attempt_states))} == {"lost"}
    assert kinds(filled) == []


def test_files_nobody_entered_go_to_quarantine(filled: storage.Catalog) -> None:
    """Such files are a writer's leftovers and a foreign file; a recent file may still be
    entered."""
    (filled.home.tables / "calls" / "notes.txt").write_text("mine")
    (filled.home.tables / "calls" / "part-x.parquet.tmp").write_bytes(b"half")
    assert storage.query("select count(*) as n from calls", filled.home) == [{"n": 2}]
    assert kinds(filled) == []
    assert kinds(filled, min_age_s=0) == ["orphan", "orphan"]
    assert kinds(filled, min_age_s=0, repair=True) == ["orphan", "orphan"]
    assert kinds(filled, min_age_s=0) == []
    assert (filled.home.quarantine / "tables" / "calls" / "notes.txt").read_text() == "mine"


def test_a_writer_meanwhile_loses_no_attempt(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that ends between the check of rows and the check of states is not marked as
    lost."""
    real = connect

    def meanwhile(home: storage.Home, **given: Any) -> Any:
        connection = real(home, **given)
        state = {"attempt_id": "a", "cell_id": "c", "sample_id": "a", "task_id": "t", "trial": 0}
        state |= {"attempt": 1, "run_id": "r", "state": "done"}
        storage.commit(
            catalog,
            {"attempts": [{"attempt_id": "a"}]},
            lambda transaction: cat.upsert(transaction, cat.attempt_states, state),
        )
        return connection

    monkeypatch.setattr(verification, "connect", meanwhile)
    assert kinds(catalog, repair=True) == []
    assert catalog.rows(sa.select(cat.attempt_states.c.state)) == [{"state": "done"}]


def test_a_compactor_meanwhile_is_no_finding(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replaced part may be removed, file and entry, between the listing and the check of the
    catalog."""
    for nth in range(2):
        storage.commit(catalog, {"attempts": [{"attempt_id": str(nth)}]})
    compact(catalog)
    for file in catalog.home.tables.rglob("*.parquet"):
        os.utime(file, (1, 1))
    real = home.LocalFiles.list

    def listing(self: home.LocalFiles, folder: str) -> Iterator[home.FileState]:
        found = list(real(self, folder))
        compact(catalog, grace_s=0)
        return iter(found)

    monkeypatch.setattr(home.LocalFiles, "list", listing)
    assert kinds(catalog, repair=True) == []


def test_files_are_listed_while_writers_rename_them(catalog: storage.Catalog) -> None:
    """A listed temporary name may no longer exist when it is checked."""
    over = threading.Event()

    def write() -> None:
        with storage.open_catalog(catalog.home) as mine:
            while not over.is_set():
                storage.commit(mine, {table: [{}] for table in ("attempts", "calls", "scores")})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            list(home.files_of(catalog.home).list("tables"))
    finally:
        over.set()
        writer.join()


def test_a_row_twice_is_found(filled: storage.Catalog) -> None:
    """Our writers cannot cause it; somebody copied a part and entered it."""
    (entry,) = filled.rows(sa.select(cat.parts).where(cat.parts.c.table_name == "attempts"))
    copy = filled.home.tables / "attempts" / "part-copy.parquet"
    copy.write_bytes((filled.home.root / entry["path"]).read_bytes())
    copied = {"part_id": "copy", "path": "tables/attempts/part-copy.parquet", "mtime_ns": None}
    filled.upsert(cat.parts, entry | copied)
    assert kinds(filled) == ["doubled", "doubled"]


def test_a_copied_store_is_hashed_once_and_then_opens_as_before(
    filled: storage.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copying changes the files' times; the first reader verifies the hashes, later ones do not."""
    if "TUTTI_CATALOG_URL" in os.environ:
        pytest.skip("a copied folder with a catalog elsewhere is no copy of the store")
    subprocess.run(["cp", "-r", str(filled.home.root), str(tmp_path / "copy")], check=True)
    home = storage.Home(tmp_path / "copy")
    storage.connect(home).close()
    monkeypatch.setattr("tutti.storage.read.readers.hashlib.sha256", None)
    storage.connect(home).close()


@pytest.mark.parametrize(("left_s", "found"), [(30.0, []), (-0.001, ["open"])])
def test_programs_of_a_gateway_whose_host_is_gone_are_repaired(
    catalog: storage.Catalog, left_s: float, found: list[str]
) -> None:
    """The gateway's lease stays in the catalog and is respected until it expires."""
    cell = ProgramCell("mine", "m", "adaptive")
    with catalog.transaction() as connection:
        begin_program(connection, "program", cell, "run", cat.now())
    leases.release(catalog, leases.acquire(catalog, cell.sweep_id))
    host = json.dumps({"host": "elsewhere/1234", "pid": 1, "start_ticks": 1})
    with catalog.transaction() as connection:
        until = cat.database_now(connection) + timedelta(seconds=left_s)
        change = sa.update(cat.leases).where(cat.leases.c.name == cell.sweep_id)
        connection.execute(change.values(holder=host, expires_at=until))
    assert kinds(catalog) == kinds(catalog, repair=True) == found
    assert kinds(catalog) == []
    rows = storage.query("select attempt_id, status from attempts", catalog.home)
    assert rows == [{"attempt_id": "program", "status": "cancelled"}][: len(found)]
