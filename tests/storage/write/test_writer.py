"""Tests of the commit protocol: whole or not at all, through failures, kills and a full disk."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.write.writer import encode_part

WORKER = """
import sys
from pathlib import Path
from tutti import storage
root, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with storage.open_catalog(storage.Home(root)) as catalog:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(count):
        rows = {"attempts": [{"attempt_id": f"{name}-{i}", "trial": i}],
                "messages": [{"attempt_id": f"{name}-{i}", "position": p} for p in range(2)]}
        state = {"attempt_id": f"{name}-{i}", "cell_id": "c", "sample_id": f"{name}-{i}",
                 "task_id": "t", "trial": 0, "attempt": 1, "run_id": "r", "state": "done"}
        storage.commit(catalog, rows, lambda connection: storage.catalog.upsert(
            connection, storage.catalog.attempt_states, state))
        print(i, flush=True)
"""


only_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def attempts(home: storage.Home) -> list[str]:
    """Return the ids of all attempts visible to a reader."""
    rows = storage.query("select attempt_id from attempts order by all", home)
    return [row["attempt_id"] for row in rows]


def part_files(home: storage.Home) -> list[Path]:
    """Return every file under the tables' folder."""
    return sorted(path for path in home.tables.rglob("*") if path.is_file())


def test_rows_are_visible_only_once_their_parts_are_entered(catalog: storage.Catalog) -> None:
    """Inside the transaction the file exists, whole, and no reader sees it."""
    seen: list[Any] = []

    def look(_: sa.Connection) -> None:
        seen.append((len(part_files(catalog.home)), attempts(catalog.home)))

    storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]}, look)
    assert seen == [(1, [])]
    assert attempts(catalog.home) == ["a"]


def test_rows_of_several_tables_and_the_state_come_together(catalog: storage.Catalog) -> None:
    """One commit enters one part per table; empty lists make no part."""
    rows = {"attempts": [{"attempt_id": "a"}], "calls": [{"call_id": "c"}] * 2, "messages": []}
    storage.commit(catalog, rows)
    parts = storage.query('select table_name, "rows" from parts order by all', catalog.home)
    assert parts == [{"table_name": "attempts", "rows": 1}, {"table_name": "calls", "rows": 2}]
    assert len(part_files(catalog.home)) == 2


def test_a_part_is_what_its_entry_says(catalog: storage.Catalog) -> None:
    """By size and hash, `tutti verify` detects a damaged file."""
    import hashlib

    storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]})
    (entry,) = catalog.rows(sa.select(cat.parts))
    data = (catalog.home.root / entry["path"]).read_bytes()
    assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())


def test_a_part_holds_the_rows_of_one_sweep(catalog: storage.Catalog) -> None:
    """The part's folder names the sweep; rows without one have their own part."""
    rows = [
        {"call_id": f"{sweep}{n}", "sweep_id": sweep} for sweep in ("a", "b", None) for n in "12"
    ]
    storage.commit(catalog, {"calls": rows})
    parts = catalog.rows(sa.select(cat.parts))
    assert {part["sweep_id"]: part["rows"] for part in parts} == {"a": 2, "b": 2, None: 2}
    assert len(parts) == 3
    assert storage.query(
        "select call_id, sweep_id from calls order by all", catalog.home
    ) == sorted(rows, key=lambda row: str(row["call_id"]))


def test_half_characters_are_escaped_however_deep() -> None:
    """This holds in any mapping."""
    odd, read = "a\ud800", "a\\ud800"
    given = {"text": odd, "list": [odd], "dict": {"x": odd}, "other": MappingProxyType({"x": odd})}
    said = {"text": read, "list": [read], "dict": {"x": read}, "other": {"x": read}}
    assert storage.storable(given) == said


def test_an_archive_keeps_in_dictionaries_what_repeats() -> None:
    """Dictionaries are used for texts that occur twice on average, and for other values that occur
    eight times."""
    columns: dict[str, list[Any]] = {
        "own": [f"{n}" for n in range(64)],
        "twice": [f"{n // 2}" for n in range(64)],
    }
    columns |= {"seven": [n // 7 for n in range(64)], "eight": [n // 8 for n in range(64)]}
    table = pa.table(columns | {"lists": [[1]] * 64})
    file = pq.ParquetFile(pa.BufferReader(encode_part(table, archive=True)))
    assert file.read().equals(table)
    group = file.metadata.row_group(0)
    found = [group.column(place) for place in range(group.num_columns)]
    kept = [column.path_in_schema for column in found if column.has_dictionary_page]
    assert kept == ["twice", "eight"]


def test_a_failure_in_complete_leaves_nothing(catalog: storage.Catalog) -> None:
    """There is no row, no state and no file, so the attempt can be committed again."""

    def fail(connection: sa.Connection) -> None:
        cat.upsert(connection, cat.sweeps, {"sweep_id": "s", "name": "s", "spec": "{}"})
        raise RuntimeError("the state is not what it should be")

    with pytest.raises(RuntimeError, match="should be"):
        storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]}, fail)
    assert part_files(catalog.home) == []
    assert attempts(catalog.home) == []
    assert storage.query("select * from sweeps", catalog.home) == []
    storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]})
    assert attempts(catalog.home) == ["a"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"attempts": [{"attempt_id": "a"}], "no_such": [{}]}, "no table 'no_such'"),
        ({"attempts": [{"attempt_id": "a", "colour": "red"}]}, r"\(attempt_id='a'\): no column"),
        ({"attempts": [{"attempt_id": "a", "trial": "first"}]}, "column trial: 'first'"),
        ({"attempts": [{}], "calls": [{"model": 5}]}, "table calls, row 0, column model: 5"),
        ({"attempts": [{"attempt_id": "a", "correct": "yes"}]}, "column correct: 'yes'"),
        ({"attempts": [{"attempt_id": "a", "score": float("nan")}]}, "column score: nan"),
        ({"attempts": [{}, {"working_s": float("inf")}]}, "row 1, column working_s: inf"),
        ({"messages": [{"content": "ok"}, {"content": "\ud800"}]}, "row 1, column content"),
        ({"messages": [{"tool_calls": [{"id": "c", "colour": "red"}]}]}, "column tool_calls"),
        ({"calls": [{"logprobs": [-0.1, float("nan")]}]}, "column logprobs: holds NaN"),
    ],
)
def test_rows_that_do_not_fit_are_refused_whole(
    catalog: storage.Catalog, rows: Any, message: str
) -> None:
    """The error names table, row and column; nothing becomes visible."""
    with pytest.raises(storage.RowRefused, match=message):
        storage.commit(catalog, rows)
    assert attempts(catalog.home) == []
    assert part_files(catalog.home) == []


@only_sqlite  # none of it goes through the catalog
def test_odd_text_is_stored_as_it_is(catalog: storage.Catalog) -> None:
    """NUL, the highest code point, 50 MB and an infinite log probability are read back
    unchanged."""
    texts = ["a\0b", "\U0010ffff\ufeff", "", "'\"\\", "x" * 50_000_000]
    rows = [{"attempt_id": "a", "position": i, "content": text} for i, text in enumerate(texts)]
    calls = [{"call_id": "c", "logprobs": [float("-inf"), -0.5], "token_ids": [0, 2**31 - 1]}]
    storage.commit(catalog, {"messages": rows, "calls": calls})
    found = storage.query("select content from transcript('a')", catalog.home)
    assert [row["content"] for row in found] == texts
    (call,) = storage.query("select logprobs, token_ids from calls", catalog.home)
    assert call == {"logprobs": [float("-inf"), -0.5], "token_ids": [0, 2**31 - 1]}


def test_files_without_an_entry_are_never_read(catalog: storage.Catalog) -> None:
    """A crash leaves partial files, and complete files without a commit."""
    storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]})
    folder = catalog.home.tables / "attempts"
    (folder / "part-1.parquet.tmp").write_bytes(b"PAR1 half")
    (folder / "part-2.parquet").write_bytes(b"not parquet at all")
    shutil.copy(part_files(catalog.home)[-1], folder / "part-3.parquet")
    assert attempts(catalog.home) == ["a"]


@only_sqlite
def test_an_interrupt_right_after_the_commit_keeps_the_entered_part(
    catalog: storage.Catalog,
) -> None:
    """Ctrl-C can arrive after the transaction and before the function returns."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    sa.event.listen(catalog.engine, "checkin", interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]})
    finally:
        sa.event.remove(catalog.engine, "checkin", interrupt)
    with storage.open_catalog(catalog.home) as reopened:
        entered = reopened.rows(sa.select(cat.parts))
    missing = [row["path"] for row in entered if not (catalog.home.root / row["path"]).exists()]
    assert missing == [], "an entered part is gone: every query of its table fails from now on"


def test_a_failed_sync_of_the_folder_leaves_no_file(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part already has its final name and is removed nevertheless."""
    real = os.fsync

    def failing(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
            raise OSError(5, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(storage.StoreError, match="Input/output"):
        storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]})
    assert part_files(catalog.home) == []


def start_worker(home: storage.Home, name: str, count: int, env: Any) -> "subprocess.Popen[str]":
    """Start a process that opens the store and waits for the signal to commit `count` times."""
    command = [sys.executable, "-c", WORKER, str(home.root), name, str(count)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)


def let_go(workers: "list[subprocess.Popen[str]]") -> None:
    """Start all workers' commits at once when all are ready."""
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()


@pytest.mark.slow
def test_a_killed_process_loses_no_committed_row_and_doubles_none(
    home: storage.Home, worker_environment: dict[str, str]
) -> None:
    """After kill -9 in the middle of commits, reported commits are stored exactly once."""
    storage.open_catalog(home).close()
    workers = [start_worker(home, f"w{i}", 10_000, worker_environment) for i in range(3)]
    let_go(workers)
    rng, acknowledged = Random(0), {}
    for i, worker in enumerate(workers):
        assert worker.stdout is not None
        for _ in range(rng.randint(3, 15)):
            acknowledged[i] = int(worker.stdout.readline())
        threading.Event().wait(rng.uniform(0, 0.02))  # anywhere in the protocol
        worker.send_signal(signal.SIGKILL)
    for i, worker in enumerate(workers):
        assert worker.stdout is not None
        assert worker.stdin is not None
        with worker.stdout, worker.stdin:
            reports = worker.stdout.read().split("\n")[:-1]
        worker.wait()
        acknowledged[i] = max([acknowledged[i], *map(int, reports)])
    seen = attempts(home)
    assert len(seen) == len(set(seen))
    for i, last in acknowledged.items():
        numbers = sorted(int(name.split("-")[1]) for name in seen if name.startswith(f"w{i}-"))
        # One more may be in: the kill came between its commit and its report.
        assert numbers in (list(range(last + 1)), list(range(last + 2)))
    messages = storage.query("select count(*) as n from messages", home)
    states = storage.query("select count(*) as n from parts where table_name = 'attempts'", home)
    assert (messages, states) == ([{"n": 2 * len(seen)}], [{"n": len(seen)}])
    with storage.open_catalog(home) as catalog:
        done = {row["attempt_id"] for row in catalog.rows(sa.select(cat.attempt_states))}
        assert done == set(seen)
        storage.commit(catalog, {"attempts": [{"attempt_id": "next"}]})  # no lock was left behind
    assert "next" in attempts(home)


@pytest.mark.slow
def test_processes_that_commit_at_once_all_land(
    home: storage.Home, worker_environment: dict[str, str]
) -> None:
    """Four writers make 25 commits each at the same time."""
    storage.open_catalog(home).close()
    workers = [start_worker(home, f"w{i}", 25, worker_environment) for i in range(4)]
    let_go(workers)
    for worker in workers:
        worker.communicate()
        assert worker.returncode == 0
    assert attempts(home) == sorted(f"w{w}-{i}" for w in range(4) for i in range(25))


def test_a_new_store_can_be_opened_by_many_at_once(tmp_path: Path) -> None:
    """Gateway, sweep and reader may start together on a machine without a store."""
    together = threading.Barrier(4)

    def open_one(root: Path) -> str:
        together.wait()
        try:
            storage.open_catalog(storage.Home(root)).close()
        except storage.StoreError as error:
            return str(error)
        return ""

    failures = set()
    with ThreadPoolExecutor(4) as pool:
        for i in range(5):
            failures |= set(pool.map(open_one, [tmp_path / str(i)] * 4))
    assert failures == {""}


@only_sqlite  # PostgreSQL locks rows, and another writer's are none of ours
def test_a_catalog_that_stays_locked_is_a_store_error(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time limit a writer raises StoreBusy, and its part is removed."""
    monkeypatch.setattr("tutti.storage.catalog.store.BUSY_TIMEOUT_S", 0.05)
    with storage.open_catalog(catalog.home) as other, catalog.transaction():
        with pytest.raises(storage.StoreBusy, match="locked"):
            storage.commit(other, {"attempts": [{"attempt_id": "a"}]})
    assert part_files(catalog.home) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of 2 MiB; skip the test if this user cannot mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("a full disk needs a tmpfs of its own, and mounting one needs root")
    options = ["-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    done = subprocess.run([mount, *options], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Use all space of `disk` but `leave` bytes."""
    ballast = disk / "ballast"
    stat = os.statvfs(disk)
    ballast.write_bytes(b"\0" * max(0, stat.f_bavail * stat.f_frsize - leave))
    return ballast


@pytest.mark.parametrize("leave", [0, 16 * 1024, 400 * 1024])
def test_a_full_disk_is_store_full_and_nothing_is_lost(small_disk: Path, leave: int) -> None:
    """There is no space for the part, or for the catalog's entry: the message says what to do,
    earlier rows stay readable, and the same commit works when space is free."""
    home = storage.Home(small_disk / "store")
    big = {"attempt_id": "big", "answer": Random(0).randbytes(400_000).hex()}
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"attempts": [{"attempt_id": "small"}]})
        ballast = fill(small_disk, leave)
        with pytest.raises(storage.StoreFull, match="TUTTI_HOME") as failure:
            storage.commit(catalog, {"attempts": [big]})
        assert str(home.root) in str(failure.value)
        assert attempts(home) == ["small"]
        assert len(part_files(home)) == 1
        ballast.unlink()
        storage.commit(catalog, {"attempts": [big]})
    assert attempts(home) == ["big", "small"]


def test_a_full_disk_stops_a_change_of_the_catalog_alone(small_disk: Path) -> None:
    """SQLite's own full error becomes StoreFull too, and the catalog stays intact."""
    home = storage.Home(small_disk / "store")
    with storage.open_catalog(home) as catalog:
        catalog.enter_artifact("index:1", {"documents": 1})
        ballast = fill(small_disk, 0)
        detail = {"text": Random(0).randbytes(200_000).hex()}
        with pytest.raises(storage.StoreFull, match="TUTTI_HOME"):
            catalog.enter_artifact("index:2", detail)
        assert catalog.artifact("index:1") is not None
        assert catalog.artifact("index:2") is None
        ballast.unlink()
        catalog.enter_artifact("index:2", detail)
        assert catalog.artifact("index:2") is not None
