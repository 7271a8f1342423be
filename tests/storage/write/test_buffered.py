"""The background writer: bounded, honest about what it could not keep, quick to its caller."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import BufferedWriter, leases
from tutti.storage import catalog as cat
from tutti.storage.write import buffered
from tutti.storage.write.writer import commit_tables

UNDOING = ("do_commit", "do_rollback", "do_close", "do_terminate")
Fail = Callable[[storage.StoreError | None], None]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Make every commit raise, until called with None."""
    error: list[storage.StoreError | None] = [None]
    real = commit_tables

    def commit(*given: Any, **named: Any) -> None:
        if error[0] is not None:
            raise error[0]
        real(*given, **named)

    monkeypatch.setattr(buffered, "commit_tables", commit)

    def change(new: storage.StoreError | None) -> None:
        error[0] = new

    return change


def count(catalog: storage.Catalog, table: str = "calls") -> int:
    """Rows that readers see."""
    (row,) = storage.query(f"select count(*) as n from {table}", catalog.home)
    return int(row["n"])


def call(nth: int) -> dict[str, Any]:
    """A row of `calls`."""
    return {"call_id": f"c{nth}", "latency_s": 0.5}


def test_rows_are_committed_within_their_time_without_being_asked(
    catalog: storage.Catalog,
) -> None:
    """A reader sees a running cell."""
    with BufferedWriter(catalog, commit_s=0.05) as writer:
        writer.add("calls", call(1))
        until = time.monotonic() + 10
        while not count(catalog) and time.monotonic() < until:
            time.sleep(0.01)
        assert count(catalog) == 1


def test_rows_from_many_threads_are_all_there_once(catalog: storage.Catalog) -> None:
    """`add` and `put` at once, commits in between."""
    with BufferedWriter(catalog, commit_s=0.01) as writer:

        def work(thread: int) -> None:
            for nth in range(200):
                writer.add("calls", call(1000 * thread + nth))
                writer.put({"attempts": [{"attempt_id": f"a{thread}-{nth}"}]})

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (writer.committed, writer.dropped) == (1600, 0)
    (row,) = storage.query(
        "select (select count(distinct call_id) from calls) as calls, (select count(distinct "
        "attempt_id) from attempts) as attempts",
        catalog.home,
    )
    assert row == {"calls": 800, "attempts": 800}
    assert count(catalog) == 800


def test_add_beyond_the_bound_is_refused_and_counted(catalog: storage.Catalog, fail: Fail) -> None:
    """A gateway goes on when the disk does not; what it could not keep is known."""
    fail(storage.StoreFull("no room"))
    writer = BufferedWriter(catalog, max_rows=3, commit_s=0.01)
    assert [writer.add("calls", call(i)) for i in range(5)] == [True] * 3 + [False] * 2
    assert writer.dropped == 2
    with pytest.raises(storage.StoreFull):
        writer.flush()
    assert writer.last_error == "no room" and writer.failing_s > 0
    fail(None)
    assert writer.flush() == 3
    assert (writer.last_error, writer.failing_s) == ("", 0.0)
    writer.close()
    assert count(catalog) == 3


def test_put_waits_for_room(catalog: storage.Catalog, fail: Fail) -> None:
    """Back-pressure: the producer is as fast as the disk."""
    fail(storage.StoreBusy("locked"))
    writer = BufferedWriter(catalog, max_rows=2, commit_s=0.01)
    writer.put({"calls": [call(0), call(1)]})
    with pytest.raises(storage.StoreError, match="nothing was committed for 0 s: locked"):
        writer.put({"calls": [call(2)]}, timeout_s=0.1)
    waiting = threading.Thread(target=writer.put, args=({"calls": [call(3)]},))
    waiting.start()
    fail(None)
    waiting.join(10)
    assert not waiting.is_alive()
    writer.put({"calls": [call(i) for i in range(10, 20)]})  # larger than the bound, alone
    writer.close()
    assert count(catalog) == 13


def test_rows_and_what_they_complete_are_one(catalog: storage.Catalog) -> None:
    """A group whose state cannot change is not there; others of its batch are."""
    lost = {"attempts": [{"attempt_id": "lost"}]}

    def fail_always(_: sa.Connection) -> None:
        raise AssertionError("lost was committed before")

    writer = BufferedWriter(catalog, commit_s=60)
    writer.put({"attempts": [{"attempt_id": "before"}]})
    writer.put(lost, fail_always)
    writer.put({"attempts": [{"attempt_id": "after"}]})
    writer.add("calls", call(1))
    with pytest.raises(AssertionError, match="lost was committed before"):
        writer.close()
    assert (count(catalog, "attempts"), count(catalog)) == (2, 1)


def test_attempts_of_many_groups_end_with_their_rows(catalog: storage.Catalog) -> None:
    """One statement ends them all; one that was not running costs itself, not the others."""
    row = {"cell_id": "c", "task_id": "t", "trial": 0, "attempt": 1, "run_id": "r"}
    for nth in range(4):
        state = row | {"attempt_id": f"a{nth}", "sample_id": f"s{nth}", "state": "running"}
        catalog.upsert(cat.attempt_states, state | ({"state": "done"} if nth == 2 else {}))
    writer = BufferedWriter(catalog, commit_s=60)
    for nth in range(4):
        writer.put({"attempts": [{"attempt_id": f"a{nth}"}]}, ended={f"a{nth}": "limit"})
    with pytest.raises(AssertionError, match="a2 or one of 1 attempts was committed before"):
        writer.close()
    states = catalog.rows(sa.select(cat.attempt_states).order_by(cat.attempt_states.c.attempt_id))
    assert [(state["state"], state["status"]) for state in states] == [
        ("done", "limit"),
        ("done", "limit"),
        ("done", None),
        ("done", "limit"),
    ]
    assert count(catalog, "attempts") == 3


def test_commits_are_a_second_apart_however_steady_the_load(catalog: storage.Catalog) -> None:
    """Rows that come while a commit is under way wait for the next: parts are few."""
    with BufferedWriter(catalog, commit_s=0.3) as writer:
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            writer.add("calls", call(1))
            time.sleep(0.001)
    (row,) = storage.query("select count(*) as n from parts", catalog.home)
    assert row["n"] <= 6


def test_a_caller_that_breaks_the_thread_hears_of_it(catalog: storage.Catalog) -> None:
    """It would wait forever for a thread that ended."""

    def make() -> dict[str, list[Any]]:
        raise KeyError("no body")

    writer = BufferedWriter(catalog, commit_s=60)
    writer.add_made(make)
    with pytest.raises(KeyError, match="no body"):
        writer.flush()
    writer.add("calls", call(1))
    writer.close()
    assert count(catalog) == 1


@pytest.mark.parametrize("arrived", [True, False])
@pytest.mark.parametrize("unreachable", [0, 1, 2])
def test_a_commit_that_is_not_answered_is_neither_lost_nor_doubled(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch, arrived: bool, unreachable: int
) -> None:
    """The database goes away between the commit and its answer; a retry asks before it writes."""
    real, breaks = catalog.transaction, [True] + [False] * unreachable

    @contextmanager
    def breaking() -> Iterator[sa.Connection]:
        if not breaks:
            with real() as connection:
                yield connection
            return
        if breaks.pop(0):  # the commit itself
            with nullcontext() if arrived else pytest.raises(ZeroDivisionError):
                with real() as connection:
                    yield connection
                    1 / arrived
        raise storage.StoreError("server closed the connection unexpectedly")

    monkeypatch.setattr(catalog, "transaction", breaking)
    writer = BufferedWriter(catalog, commit_s=60)
    writer.add("calls", call(1))
    failures = 0
    while writer.committed < 1:
        try:
            writer.flush()
        except storage.StoreError as error:
            assert "closed the connection" in str(error)
            failures += 1
            writer.add("calls", call(1 + failures))
    assert failures == (unreachable if arrived or unreachable else 1)
    writer.add("calls", call(100))
    writer.close()
    assert count(catalog) == writer.committed == 2 + failures
    assert len(list(catalog.home.tables.rglob("*.parquet"))) <= writer.committed


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_commit_that_lands_after_its_client_lost_touch(catalog: storage.Catalog) -> None:
    """Asked while the server is still at work on it: the answer waits for what becomes of it."""
    psycopg = pytest.importorskip("psycopg")
    dialect: Any = catalog.engine.dialect
    lost: list[Any] = []
    originals = {name: getattr(dialect, name) for name in UNDOING}

    def commit_later(connection: Any) -> None:
        if lost:
            originals["do_commit"](connection)
            return
        lost.append(getattr(connection, "driver_connection", connection))
        raise psycopg.OperationalError("connection lost")

    def unless_lost(name: str) -> Callable[[Any], None]:
        def act(connection: Any) -> None:
            if not lost or getattr(connection, "driver_connection", connection) is not lost[0]:
                originals[name](connection)

        return act

    for name in UNDOING[1:]:
        setattr(dialect, name, unless_lost(name))
    dialect.do_commit = commit_later
    dialect.is_disconnect = lambda error, *_: "connection lost" in str(error)
    writer = BufferedWriter(catalog, commit_s=60)
    writer.add("calls", call(1))

    def land() -> None:
        time.sleep(0.5)
        lost[0].commit()

    landing = threading.Thread(target=land)
    landing.start()
    assert writer.flush() == 1
    writer.close()
    landing.join()
    lost[0].close()
    assert count(catalog) == 1


def test_a_row_no_table_takes_costs_only_itself(catalog: storage.Catalog) -> None:
    """Of loose rows it is counted, of a group it is raised."""
    writer = BufferedWriter(catalog, commit_s=60)
    for row in (call(1), {"call_id": 5}, {"latency_s": float("nan")}, call(2)):
        writer.add("calls", row)
    writer.put({"attempts": [{"attempt_id": "good"}]})
    writer.put({"attempts": [{"attempt_id": "bad", "score": float("nan")}]})
    with pytest.raises(storage.RowRefused, match=r"\(attempt_id='bad'\), column score: nan"):
        writer.flush()
    assert writer.dropped == 3 and "a row was dropped" in writer.last_error
    writer.close()
    assert (count(catalog), count(catalog, "attempts")) == (2, 1)


def test_a_lost_lease_is_raised_and_nothing_more_is_committed(catalog: storage.Catalog) -> None:
    """Also what was put after it."""
    lease = leases.acquire(catalog, "sweep:1", seconds=0)
    writer = BufferedWriter(catalog, lease=lease, commit_s=60)
    leases.acquire(catalog, "sweep:1", seconds=0)
    for _ in range(2):
        writer.put({"attempts": [{"attempt_id": "late"}]})
        with pytest.raises(storage.LeaseLost):
            writer.flush()
    writer.close()
    assert count(catalog, "attempts") == 0


def test_costly_rows_are_made_on_the_writers_thread_and_once(
    catalog: storage.Catalog, fail: Fail
) -> None:
    """A prompt is hashed on the writer's thread, and not again after a full disk."""
    made: list[str] = []

    def make() -> dict[str, list[Any]]:
        made.append(threading.current_thread().name)
        return {"calls": [call(1)], "messages": [{"attempt_id": "a", "position": 0}] * 2}

    fail(storage.StoreFull("no room"))
    writer = BufferedWriter(catalog, commit_s=60)
    writer.add_made(make)
    with pytest.raises(storage.StoreFull):
        writer.flush()
    fail(None)
    assert writer.flush() == 3
    writer.close()
    assert made == ["store writer"]
    assert (count(catalog), count(catalog, "messages")) == (1, 2)


def test_before_each_commit_the_callers_own_is_called(catalog: storage.Catalog) -> None:
    """Its store error fails the commit; the rows stay."""
    errors: list[storage.StoreError] = [storage.StoreError("the gateway is away")]

    def before() -> None:
        if errors:
            raise errors.pop()

    writer = BufferedWriter(catalog, before=before, commit_s=60)
    writer.put({"attempts": [{"attempt_id": "a"}]})
    with pytest.raises(storage.StoreError, match="the gateway is away"):
        writer.flush()
    writer.close()
    assert count(catalog, "attempts") == 1


def test_add_drops_nothing_while_the_writer_writes(catalog: storage.Catalog) -> None:
    """What it costs is measured by the store's benchmark."""
    row = call(1) | {"params": "{}" * 50, "prompt_hash": "0" * 16}
    with BufferedWriter(catalog, commit_s=0.05) as writer:
        for _ in range(20_000):
            writer.add("calls", row)
        assert writer.dropped == 0
    assert count(catalog) == 20_000
