"""Tests of the background writer: bounded, with an exact count of lost rows, and fast for its
caller."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import BufferedWriter, Group
from tutti.storage import catalog as cat
from tutti.storage.base.home import LocalFiles
from tutti.storage.catalog import leasing as leases
from tutti.storage.write import buffered
from tutti.storage.write import writer as writer_module
from tutti.storage.write.writer import commit_tables, write_part

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
    """Return the number of rows visible to readers."""
    (row,) = storage.query(f"select count(*) as n from {table}", catalog.home)
    return int(row["n"])


def parts_of(catalog: storage.Catalog) -> list[Path]:
    """Return all files of the tables, entered or not."""
    return [each for each in (catalog.home.root / "tables").rglob("*") if each.is_file()]


def call(nth: int) -> dict[str, Any]:
    """Return a row of `calls`."""
    return {"call_id": f"c{nth}", "latency_s": 0.5}


def test_rows_are_committed_within_their_time_without_being_asked(
    catalog: storage.Catalog,
) -> None:
    """A reader sees a running cell."""
    with BufferedWriter(catalog, commit_s=0.05) as writer:
        writer.add("calls", call(1))
        until = time.monotonic() + 60
        while not count(catalog) and time.monotonic() < until:
            time.sleep(0.01)
        assert count(catalog) == 1


def test_rows_from_many_threads_are_all_there_once(catalog: storage.Catalog) -> None:
    """`add` and `put` run concurrently, with commits in between."""
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
    """A gateway continues when the disk fails; the number of lost rows is known."""
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
    """Through back-pressure, the producer is as fast as the disk."""
    fail(storage.StoreBusy("locked"))
    writer = BufferedWriter(catalog, max_rows=2, commit_s=0.01)
    writer.put({"calls": [call(0), call(1)]})
    with pytest.raises(storage.StoreBusy):
        writer.flush()
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
    """A group whose state cannot change is not stored; others of its batch are."""
    lost = {"attempts": [{"attempt_id": "lost"}]}

    def fail_always(_: sa.Connection) -> None:
        raise AssertionError("lost was committed before")

    refused: list[Exception] = []
    others: list[Exception] = []
    writer = BufferedWriter(catalog, commit_s=60)
    writer.put({"attempts": [{"attempt_id": "before"}]}, on_refused=others.append)
    writer.put(lost, fail_always, on_refused=refused.append)
    writer.put({"attempts": [{"attempt_id": "after"}]}, on_refused=others.append)
    writer.add("calls", call(1))
    assert writer.flush() == 3, "the error is another group's"
    writer.close()
    assert [str(error) for error in refused] == ["lost was committed before"] and not others
    assert writer.dropped == 1 and "lost was committed before" in writer.last_error
    assert (count(catalog, "attempts"), count(catalog)) == (2, 1)


def test_attempts_of_many_groups_end_with_their_rows(catalog: storage.Catalog) -> None:
    """One statement ends them all; an attempt that was not running fails alone."""
    row = {"cell_id": "c", "task_id": "t", "trial": 0, "attempt": 1, "run_id": "r"}
    for nth in range(4):
        state = row | {"attempt_id": f"a{nth}", "sample_id": f"s{nth}", "state": "running"}
        catalog.upsert(cat.attempt_states, state | ({"state": "done"} if nth == 2 else {}))
    refused: dict[str, str] = {}
    with BufferedWriter(catalog, commit_s=60) as writer:
        for name in ("a0", "a1", "a2", "a3"):

            def note(error: Exception, name: str = name) -> None:
                refused[name] = str(error)

            writer.put({"attempts": [{"attempt_id": name}]}, ended={name: "limit"}, on_refused=note)
    assert refused == {"a2": "a2 or one of 1 attempts was committed before"}
    states = catalog.rows(sa.select(cat.attempt_states).order_by(cat.attempt_states.c.attempt_id))
    assert [(state["state"], state["status"]) for state in states] == [
        ("done", "limit"),
        ("done", "limit"),
        ("done", None),
        ("done", "limit"),
    ]
    assert count(catalog, "attempts") == 3


def test_commits_are_a_second_apart_however_steady_the_load(catalog: storage.Catalog) -> None:
    """Rows that arrive during a commit wait for the next one, so there are few parts."""
    with BufferedWriter(catalog, commit_s=0.3) as writer:
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            writer.add("calls", call(1))
            time.sleep(0.001)
    (row,) = storage.query("select count(*) as n from parts", catalog.home)
    assert row["n"] <= 6


def test_a_closure_that_fails_is_counted_and_told_to_its_producer_alone(
    catalog: storage.Catalog,
) -> None:
    """No caller waits for a thread that ended, and no other caller gets its error."""

    def make() -> Group:
        raise KeyError("no body")

    def break_the_thread(error: Exception) -> None:
        refused.append(error)
        raise ZeroDivisionError

    refused: list[Exception] = []
    with BufferedWriter(catalog, commit_s=60) as writer:
        writer.add_made(make)
        assert writer.flush() == 0
        assert writer.dropped == 1 and "no body" in writer.last_error
        writer.add("calls", call(1))
        writer.add_made(make, on_refused=break_the_thread)
        writer.put({"calls": [call(2)]})
        assert writer.flush() == 2
    assert [type(error) for error in refused] == [KeyError] and writer.dropped == 2
    assert count(catalog) == 2


def test_a_program_whose_id_the_catalog_refuses_costs_no_other(catalog: storage.Catalog) -> None:
    """PostgreSQL accepts no NUL character; the gateway refuses it, and the store handles it,
    too."""
    at, refused = cat.now(), list[Exception]()
    cell = storage.ProgramCell("mine", "m", "passthrough")
    with BufferedWriter(catalog, commit_s=60) as writer:
        for name in ("a", "a\0b", "b"):

            def begin(connection: sa.Connection, name: str = name) -> None:
                storage.begin_program(connection, name, cell, "run", at)

            writer.add_made(lambda begin=begin: Group({}, begin), on_refused=refused.append)  # type: ignore
            writer.add("calls", call(1) | {"call_id": f"of {name!r}", "attempt_id": name})
        assert writer.flush() == 3
    programs = {row["attempt_id"] for row in catalog.rows(sa.select(cat.attempt_states))}
    assert programs - {"a\0b"} == {"a", "b"} and count(catalog) == 3
    assert len(refused) == (catalog.engine.dialect.name == "postgresql") == writer.dropped


def test_an_error_of_the_store_in_a_closure_is_tried_again_in_order(
    catalog: storage.Catalog,
) -> None:
    """A catalog that is locked for a moment loses nothing, and no entry overtakes another."""
    errors: list[Exception] = [storage.StoreBusy("locked"), storage.StoreError("unreachable")]
    order: list[str] = []

    def make() -> Group:
        if errors:
            raise errors.pop(0)
        order.append("second")
        return Group({"calls": [call(2)]})

    def third() -> Group:
        order.append("third")
        return Group({"calls": [call(3)]})

    with BufferedWriter(catalog, commit_s=60) as writer:
        writer.add("calls", call(1))
        writer.add_made(make)
        writer.add_made(third)
        with pytest.raises(storage.StoreError, match="unreachable"):
            writer.flush()
        assert count(catalog) == 1, "what came before it does not wait"
        assert writer.flush() == 3
    assert order == ["second", "third"] and writer.dropped == 0
    assert count(catalog) == 3


@pytest.mark.parametrize("where", ["make", "complete"])
def test_an_entry_whose_error_never_passes_costs_only_itself(
    catalog: storage.Catalog, where: str
) -> None:
    """Such an entry is dropped after `TRIES` tries, while the catalog works for all others."""

    def fail_always(*_: Any) -> Any:
        raise storage.StoreBusy("locked")

    def make() -> Group:
        return fail_always() if where == "make" else Group({"calls": [call(0)]}, fail_always)

    refused: list[Exception] = []
    with BufferedWriter(catalog, commit_s=60) as writer:
        writer.add("calls", call(1))
        writer.add_made(make, on_refused=refused.append)
        writer.put({"calls": [call(2)]})
        for _ in range(buffered.TRIES):
            with suppress(storage.StoreBusy):
                writer.flush()
        assert writer.flush() == 2
    assert [str(error) for error in refused] == ["locked"] and writer.dropped == 1
    assert count(catalog) == 2


def test_an_entry_that_the_file_system_refuses_costs_only_itself(
    catalog: storage.Catalog,
) -> None:
    """The entry's file name is too long and is tried `TRIES` times; the others do not wait."""
    refused: list[Exception] = []
    with BufferedWriter(catalog, commit_s=60) as writer:
        writer.add("calls", call(1))
        long = {"calls": [call(0) | {"sweep_id": "x" * 300}]}
        writer.put(long, on_refused=refused.append)
        writer.add("calls", call(2))
        for _ in range(buffered.TRIES - 1):
            with pytest.raises(storage.StoreError, match="name too long"):
                writer.flush()
        assert writer.flush() == 2 and writer.dropped == 1
    assert "name too long" in str(refused[0])
    assert count(catalog) == 2


def test_rows_wait_for_a_file_system_that_takes_nothing(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mount is lost for longer than an entry is retried, and nothing is lost."""

    def lost_mount(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    with BufferedWriter(catalog, commit_s=60) as writer:
        writer.add("calls", call(1))
        with monkeypatch.context() as patch:
            patch.setattr(writer_module, "write_part", lost_mount)
            for _ in range(2 * buffered.TRIES):
                with pytest.raises(storage.StoreError, match="Input/output"):
                    writer.flush()
        assert (writer.flush(), writer.dropped) == (1, 0)
    (part,) = catalog.rows(sa.select(cat.parts.c.path))
    assert parts_of(catalog) == [catalog.home.root / part["path"]]


def test_rows_wait_for_a_file_system_that_becomes_read_only_between_two_parts(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part's file cannot be removed either: it stays, and the rows are stored later."""

    def read_only(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    written: list[str] = []

    def one_part(home: storage.Home, table: str, *rest: Any) -> Any:
        if table in ("attempts", "calls") and not written:
            written.append(table)
            return write_part(home, table, *rest)
        return read_only()

    with BufferedWriter(catalog, commit_s=60) as writer:
        writer.put({"calls": [call(1)], "tool_runs": [{"attempt_id": "a", "cell_id": "c"}]})
        with monkeypatch.context() as patch:
            patch.setattr(writer_module, "write_part", one_part)
            patch.setattr(LocalFiles, "remove", read_only)
            with pytest.raises(storage.StoreError, match="Read-only"):
                writer.flush()
        assert written, "the second part failed"
        assert (writer.flush(), writer.dropped) == (2, 0)
    assert len(parts_of(catalog)) == 3, "one is an orphan"


def test_the_queue_is_bounded_by_bytes(
    catalog: storage.Catalog, fail: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size is the producer's estimate for a closure, and the text of messages."""
    monkeypatch.setattr(buffered, "MAX_BYTES", 1000)
    fail(storage.StoreFull("no room"))
    writer = BufferedWriter(catalog, commit_s=60)

    def make() -> Group:
        return Group({"calls": [call(1)]})

    message = {"attempt_id": "a", "position": 0, "content": "x" * 600}
    assert writer.add_made(make, 2000), "alone"
    assert not writer.add_made(make, 1) and not writer.add("messages", message)
    assert not writer.offer({"messages": [message]}, {})
    assert writer.dropped == 2
    fail(None)
    assert writer.flush() == 1
    assert writer.add("messages", message) and not writer.offer({"messages": [message]}, {})
    rows = {"messages": [message | {"position": 1}]}
    waiting = threading.Thread(target=writer.put, args=(rows,))
    waiting.start()
    while waiting.is_alive():
        writer.flush()
        waiting.join(0.01)
    writer.close()
    assert (count(catalog), count(catalog, "messages")) == (1, 2)


def test_half_a_gigabyte_waits_for_a_full_disk(catalog: storage.Catalog, fail: Fail) -> None:
    """The size is estimated by the producers."""
    fail(storage.StoreFull("no room"))
    with BufferedWriter(catalog, commit_s=60) as writer:
        sizes = (2**28, 2**28, 1)
        taken = [writer.add_made(lambda: Group({"calls": [call(1)]}), size) for size in sizes]
        fail(None)
    assert taken == [True, True, False] and count(catalog) == 2


def test_a_part_has_no_more_than_a_batch_of_text(
    catalog: storage.Catalog, fail: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of the last row may exceed the limit."""
    monkeypatch.setattr(buffered, "BATCH_BYTES", 1000)
    fail(storage.StoreFull("no room"))
    with BufferedWriter(catalog, commit_s=60) as writer:
        for position in range(4):
            row = {"attempt_id": "a", "position": position, "content": "x" * 600}
            writer.add("messages", row)
        with pytest.raises(storage.StoreFull):
            writer.flush()
        fail(None)
    parts = catalog.rows(sa.select(cat.parts).where(cat.parts.c.table_name == "messages"))
    assert [part["rows"] for part in parts] == [2, 2]


TOOL_CALL = {"id": "c", "name": "f", "arguments": "x" * 600}
SPAN = {"call_id": None, "first": None, "last": None, "ids": [700] * 20}


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("messages", {"reasoning": "x" * 600}),
        ("auxiliary_messages", {"tool_calls": [TOOL_CALL]}),
        ("calls", {"token_ids": [700] * 20}),
        ("calls", {"logprobs": [None, *[-0.5] * 20]}),
        ("calls", {"prompt_token_ids": [SPAN]}),
    ],
)
def test_what_may_be_long_in_a_row_counts_by_its_bytes(
    catalog: storage.Catalog,
    fail: Fail,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    column: dict[str, Any],
) -> None:
    """This also holds for rows that are complete when added; a value of another type is refused
    later."""
    monkeypatch.setattr(buffered, "MAX_BYTES", 1000)
    fail(storage.StoreFull("no room"))
    writer = BufferedWriter(catalog, commit_s=60)
    assert writer.add(table, column) and not writer.add(table, column)
    assert not writer.offer({table: [column]}, {})
    fail(None)
    assert (writer.flush(), writer.dropped) == (1, 1)
    (name,) = column
    for odd in (7, {"a": 1}, [7, {"a": "b"}], [{"a": "b"}, 7]):
        assert writer.add(table, {name: odd})
    writer.close()
    assert (writer.committed, writer.dropped) == (1, 5)


def test_a_closed_writer_takes_nothing_and_says_so(catalog: storage.Catalog) -> None:
    """A row that will not be committed must not be lost silently; one added before is stored."""
    writer = BufferedWriter(catalog, commit_s=60)
    writer.add("calls", call(1))
    writer.close()
    writer.close()
    for act in (
        lambda: writer.add("calls", call(2)),
        lambda: writer.add_made(lambda: Group({})),
        lambda: writer.put({"calls": [call(2)]}),
        lambda: writer.offer({"calls": [call(2)]}, {}),
        writer.flush,
    ):
        with pytest.raises(storage.StoreError, match="closed"):
            act()
    assert count(catalog) == 1


def test_closing_counts_what_the_store_did_not_take(catalog: storage.Catalog, fail: Fail) -> None:
    """The remaining rows are lost with the process."""
    fail(storage.StoreFull("no room"))
    writer = BufferedWriter(catalog, max_rows=2, commit_s=0.01)
    writer.put({"calls": [call(1), call(2)]})
    waiting: list[Exception] = []

    def put() -> None:
        try:
            writer.put({"calls": [call(3)]})
        except storage.StoreError as error:
            waiting.append(error)

    thread = threading.Thread(target=put)
    thread.start()
    with pytest.raises(storage.StoreFull):
        writer.close()
    thread.join(60)
    assert writer.dropped == 2 and "closed" in str(waiting)


@pytest.mark.parametrize("failures", [1, buffered.TRIES - 1, buffered.TRIES])
def test_closing_tries_a_store_again_that_takes_nothing_for_a_while(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """There are `TRIES` tries in total, and none after everything is committed."""
    tried: list[int] = []

    def commit(*given: Any, **named: Any) -> None:
        tried.append(1)
        if len(tried) <= failures:
            raise storage.StoreFull("no room")
        commit_tables(*given, **named)

    monkeypatch.setattr(buffered, "commit_tables", commit)
    writer = BufferedWriter(catalog, commit_s=0.3)
    writer.add_all({"calls": [call(1), call(2)]})
    is_lost = failures == buffered.TRIES
    with pytest.raises(storage.StoreFull) if is_lost else nullcontext():
        writer.close()
    assert len(tried) == min(failures + 1, buffered.TRIES)
    assert (writer.committed, writer.dropped) == ((0, 2) if is_lost else (2, 0))
    assert count(catalog) == writer.committed


@pytest.mark.parametrize("arrived", [True, False])
@pytest.mark.parametrize("unreachable", [0, 1, 2])
def test_a_commit_that_is_not_answered_is_neither_lost_nor_doubled(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch, arrived: bool, unreachable: int
) -> None:
    """The database disconnects between the commit and its response; a retry checks before it
    writes."""
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
    """If the server is still processing the commit, the check waits for its result."""
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
    """A loose row is counted; for a group the error is raised."""
    refused: list[Exception] = []
    bad = {"attempt_id": "bad", "score": float("nan")}
    writer = BufferedWriter(catalog, commit_s=60)
    for row in (call(1), {"call_id": 5}, {"latency_s": float("nan")}, call(2)):
        writer.add("calls", row)
    writer.add_all({"calls": [call(3), {"call_id": 6}], "messages": [{"attempt_id": "good"}]})
    writer.put({"attempts": [{"attempt_id": "good"}]}, on_refused=refused.append)
    writer.put({"attempts": [{"attempt_id": "beside"}, bad]}, on_refused=refused.append)
    assert writer.flush() == 5
    (error,) = refused
    assert isinstance(error, storage.RowRefused)
    assert "(attempt_id='bad'), column score: nan" in str(error)
    assert writer.dropped == 5 and "a row was lost" in writer.last_error
    writer.close()
    assert (count(catalog), count(catalog, "attempts"), count(catalog, "messages")) == (3, 1, 1)


def test_a_row_no_table_takes_costs_a_group_with_a_change(catalog: storage.Catalog) -> None:
    """A group with a change is one unit; a group without a change loses only the row."""
    changed, refused = list[sa.Connection](), list[Exception]()
    with BufferedWriter(catalog, commit_s=60) as writer:
        for complete in (changed.append, None):
            rows = {"calls": [call(1), {"call_id": 5}]}
            made = partial(Group, rows, complete)
            writer.add_made(made, on_refused=refused.append)
    assert (count(catalog), writer.dropped, len(refused), changed) == (1, 3, 1, [])


def test_a_lost_lease_is_raised_and_nothing_more_is_committed(catalog: storage.Catalog) -> None:
    """A lost lease is the writer's state: every caller gets the error, and pending groups report it
    to their producers."""
    lease = leases.acquire(catalog, "sweep:1", seconds=0)
    writer = BufferedWriter(catalog, lease=lease, commit_s=60)
    leases.acquire(catalog, "sweep:1", seconds=0)
    refused: list[Exception] = []
    writer.put({"attempts": [{"attempt_id": "late"}]}, on_refused=refused.append)
    for act in (
        writer.flush,
        writer.flush,
        lambda: writer.put({"attempts": [{"attempt_id": "later"}]}),
        lambda: writer.add("calls", call(1)),
        writer.close,
    ):
        with pytest.raises(storage.LeaseLost):
            act()
    assert [type(error) for error in refused] == [storage.LeaseLost] and writer.dropped == 1
    assert count(catalog, "attempts") == count(catalog) == 0


def test_costly_rows_are_made_on_the_writers_thread_and_once(
    catalog: storage.Catalog, fail: Fail
) -> None:
    """A prompt is hashed on the writer's thread, and not again after a full disk."""
    made: list[str] = []

    def make() -> Group:
        made.append(threading.current_thread().name)
        return Group({"calls": [call(1)], "messages": [{"attempt_id": "a", "position": 0}] * 2})

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
    """Any error of the callback fails the commit; the rows stay."""
    errors: list[Exception] = [KeyError("url"), storage.StoreError("the gateway is away")]

    def before() -> None:
        if errors:
            raise errors.pop()

    writer = BufferedWriter(catalog, before=before, commit_s=60)
    writer.put({"attempts": [{"attempt_id": "a"}]})
    for reason in ("the gateway is away", "url"):
        with pytest.raises(storage.StoreError, match=reason):
            writer.flush()
    writer.close()
    assert count(catalog, "attempts") == 1


def test_add_drops_nothing_while_the_writer_writes(catalog: storage.Catalog) -> None:
    """The cost of `add` is measured by the store's benchmark."""
    row = call(1) | {"params": "{}" * 50, "prompt_hash": "0" * 16}
    with BufferedWriter(catalog, commit_s=0.05) as writer:
        for _ in range(20_000):
            writer.add("calls", row)
        assert writer.dropped == 0
    assert count(catalog) == 20_000
