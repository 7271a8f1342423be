"""Tests of compaction: the same rows in fewer parts, with concurrent readers and writers."""

import shutil
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.base.columns import OLDEST_READ, SCHEMA_VERSION
from tutti.storage.maintenance import compact, compaction, verify
from tutti.storage.maintenance.compaction import CompactionReport
from tutti.storage.read.readers import read_whole
from tutti.storage.write.writer import settle, write_part

STORES = Path(__file__).parents[1] / "stores"


def fill(catalog: storage.Catalog, commits: int = 6) -> None:
    """Make several small commits to two sweeps and to none."""
    for nth in range(commits):
        sweep = (None, "sweep:1", "sweep:2")[nth % 3]
        ids = [f"attempt:{commits - nth}-{i}" for i in range(3)]
        storage.commit(
            catalog,
            {
                "attempts": [{"attempt_id": i, "sweep_id": sweep, "trial": nth} for i in ids],
                "messages": [
                    {"attempt_id": i, "sweep_id": sweep, "position": p, "content": f"{i} {p}"}
                    for i in ids
                    for p in range(2)
                ],
            },
        )


def everything(home: storage.Home) -> list[dict[str, Any]]:
    """Return all rows of both tables."""
    sql = "select * from attempts left join messages using (attempt_id) order by all"
    return storage.query(sql, home)


def files(home: storage.Home) -> int:
    """Return the number of files under the tables' folder."""
    return sum(path.is_file() for path in home.tables.rglob("*"))


def test_the_same_rows_in_one_part_a_table_and_sweep(catalog: storage.Catalog) -> None:
    """Nothing is lost or duplicated; a second compaction has nothing to do."""
    fill(catalog)
    before = everything(catalog.home)
    done = compact(catalog)
    assert (done.sources, done.merged, done.files_removed) == (12, 6, 0)
    assert everything(catalog.home) == before
    assert storage.query("select count(*) as n from parts", catalog.home) == [{"n": 6}]
    assert compact(catalog) == CompactionReport()


def test_replaced_files_go_when_their_grace_is_over(catalog: storage.Catalog) -> None:
    """Replaced files leave the tables' folders at once and are kept beside them until then."""
    fill(catalog)
    before = everything(catalog.home)
    assert compact(catalog).files_waiting == 0
    assert files(catalog.home) == 6
    assert sum(path.is_file() for path in (catalog.home.root / "replaced").rglob("*")) == 12
    checked = verify(catalog, min_age_s=0)
    assert (checked.replaced_files, checked.waiting_files, checked.findings) == (12, 0, [])
    assert compact(catalog, grace_s=0).files_removed == 12
    assert not any(path.is_file() for path in (catalog.home.root / "replaced").rglob("*"))
    assert files(catalog.home) == 6
    assert everything(catalog.home) == before


def test_an_open_reader_keeps_the_parts_that_it_resolved(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts are moved when the reader has ended and compaction runs again."""
    monkeypatch.setattr(compaction, "READERS_WAIT_S", 0.05)
    fill(catalog)
    before = everything(catalog.home)
    reader: Any = storage.connect(catalog.home)
    assert compact(catalog).files_waiting == 12
    assert files(catalog.home) == 18
    assert verify(catalog, min_age_s=0).waiting_files == 12
    assert reader.execute("select count(*) from messages").fetchall() == [(36,)]
    assert everything(catalog.home) == before
    reader.close()
    del reader
    assert compact(catalog).files_waiting == 0
    assert files(catalog.home) == 6
    assert everything(catalog.home) == before


def test_a_part_that_is_replaced_meanwhile_is_still_read_whole(catalog: storage.Catalog) -> None:
    """A verifier or compactor that knows only the old path reads the file beside the tables."""
    fill(catalog)
    entries = catalog.rows(sa.select(cat.parts))
    compact(catalog)
    assert all(read_whole(catalog.home, entry)[1] == "" for entry in entries)


def test_what_was_entered_is_remembered_after_its_file_is_gone(catalog: storage.Catalog) -> None:
    """A writer that was disconnected for long asks whether its parts were entered, and they
    were."""
    fill(catalog)
    entries = catalog.rows(sa.select(cat.parts))
    compact(catalog)
    compact(catalog, grace_s=0)
    assert settle(catalog, entries[:2])
    with catalog.transaction() as connection:
        long_ago = cat.now() - timedelta(days=8)
        old = cat.parts.c.removed_at.is_not(None)
        connection.execute(sa.update(cat.parts).where(old).values(removed_at=long_ago))
    compact(catalog)
    assert storage.query("select count(*) as n from parts", catalog.home) == [{"n": 6}]
    assert len(catalog.rows(sa.select(cat.parts))) == 6


def test_parts_are_sorted_so_that_a_cell_lies_together(catalog: storage.Catalog) -> None:
    """Rows of a part are in its table's order."""
    fill(catalog)
    compact(catalog)
    sql = "select attempt_id, position from messages where sweep_id = 'sweep:1'"
    rows = [tuple(row.values()) for row in storage.query(sql, catalog.home)]
    assert rows == sorted(rows) and len(rows) == 12


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_parts_of_an_older_schema_are_rewritten(database: str, tmp_path: Path) -> None:
    """The values stay; the rewritten parts have the columns of this version."""
    shutil.copytree(STORES / f"v{OLDEST_READ}", tmp_path / "old")
    home = storage.Home(tmp_path / "old")
    before = storage.query("select * from calls order by call_id", home)
    with storage.open_catalog(home) as catalog:
        compact(catalog)
    assert storage.query("select distinct schema_version as v from parts", home) == [
        {"v": SCHEMA_VERSION}
    ]
    assert storage.query("select * from calls order by call_id", home) == before


def test_a_large_part_is_left_alone(catalog: storage.Catalog) -> None:
    """The rows of a large part are not rewritten repeatedly."""
    fill(catalog)
    assert compact(catalog, target_bytes=1).sources == 0


def test_a_part_removed_meanwhile_is_not_brought_back(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep is removed between reading and entering, so the merge is dropped."""
    fill(catalog, commits=3)
    fill(catalog, commits=3)
    real = write_part

    def meanwhile(*given: Any, **named: Any) -> Any:
        with catalog.transaction() as connection:
            gone = sa.update(cat.parts).values(removed_at=cat.now(), removed_why="retention")
            connection.execute(gone)
        return real(*given, **named)

    monkeypatch.setattr(compaction, "write_part", meanwhile)
    count = files(catalog.home)
    with pytest.raises(storage.StoreError, match="removed meanwhile; compact again"):
        compact(catalog)
    assert everything(catalog.home) == []
    assert files(catalog.home) == count


def test_one_compactor_at_a_time(catalog: storage.Catalog) -> None:
    """The second one raises an error that says so."""
    with (
        storage.held(catalog, "compact"),
        pytest.raises(storage.StoreBusy, match="compact is held"),
    ):
        compact(catalog)


def test_a_damaged_part_is_named_and_not_merged(catalog: storage.Catalog) -> None:
    """The part's damage must not become part of a part with a valid checksum."""
    fill(catalog)
    path = next((catalog.home.tables / "messages").rglob("*.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(storage.PartDamaged, match=str(path)):
        compact(catalog)


def test_writers_and_readers_go_on(catalog: storage.Catalog) -> None:
    """Every read while writing and compacting sees whole commits: three attempts, six messages."""
    over, failures, reads = threading.Event(), [], 0

    def write() -> None:
        with storage.open_catalog(catalog.home) as mine:
            while not over.is_set():
                fill(mine, commits=1)

    def squeeze() -> None:
        with storage.open_catalog(catalog.home) as mine:
            while not over.is_set():
                compact(mine)

    def guarded(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (write, write, squeeze)]
    for thread in threads:
        thread.start()
    try:
        while reads < 15 and not failures:
            (row,) = storage.query(
                "select (select count(*) from attempts) as a, (select count(*) from messages) as m",
                catalog.home,
            )
            assert row["a"] % 3 == 0 and row["m"] == 2 * row["a"]
            reads += 1
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failures == []
