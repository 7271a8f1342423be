"""Tests of SQL over the store: every table exists, and the macros give manually computed
figures."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.write.encode import TABLES
from tutti.tasks.platform.project import PROJECT

START = datetime(2026, 1, 1, tzinfo=UTC)
CATALOG_VIEWS = ("artifacts", "artifact_parents", "runs", "sweeps", "cells", "parts", "task_sets")
Rows = dict[str, list[dict[str, Any]]]
SEEN = "select status, (select count(*) from attempts) as n from cells"


def test_a_reader_loads_no_arrow(tmp_path: Path) -> None:
    """Importing Arrow takes longer than the query, so opening a store must not import it."""
    code = "import sys, storage; storage.connect().close(); print('pyarrow' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "TUTTI_HOME": str(tmp_path / "s")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def at(seconds: float) -> datetime:
    """Return the time `seconds` after the cell's first request."""
    return START + timedelta(microseconds=round(seconds * 1e6))


def call(attempt: str, step: int, sent: float, admitted: float, ended: float, **more: Any) -> Any:
    """Return a call of cell `c`, by default a successful one of an orchestrator."""
    row: dict[str, Any] = {"call_id": f"{attempt}-{step}-{sent}", "attempt_id": attempt}
    row |= {"cell_id": "c", "step": step, "role": "orchestrator", "status": "ok"}
    row |= {"sent_at": at(sent), "admitted_at": at(admitted), "ended_at": at(ended)}
    return row | {"held_s": admitted - sent, "latency_s": ended - sent} | more


def tokens(prompt: int, cached: int, completion: int = 11) -> dict[str, int]:
    """Return a call's token counts."""
    return {"prompt_tokens": prompt, "cached_tokens": cached, "completion_tokens": completion}


def attempt(name: str, status: str, started: float, ended: float, correct: Any = None) -> Any:
    """Return an attempt of cell `c`, which has two session slots."""
    row = {"cell_id": "c", "attempt_id": name, "status": status, "correct": correct}
    row |= {"concurrency": 2, "cost_usd": 0.1, "started_at": at(started), "ended_at": at(ended)}
    return row


def tool(name: str, step: int, started: float, ended: float) -> Any:
    """Return a tool run of cell `c`."""
    row = {"attempt_id": name, "cell_id": "c", "step": step, "name": "search", "status": "ok"}
    return row | {"started_at": at(started), "ended_at": at(ended)}


def metric(engine: str, name: str, *samples: tuple[float, float]) -> list[Any]:
    """Return samples (second, value) of one of an engine's series."""
    row = {"cell_id": "c", "engine_id": engine, "name": name}
    return [row | {"at": at(second), "value": float(value)} for second, value in samples]


STREAM: Rows = {
    "calls": [
        call("a1", 1, 0, 0, 5),  # over before the window
        call("a1", 2, 10, 11, 14, **tokens(100, 50)),
        call("a2", 1, 12, 12, 20, ttft_s=3.0, **tokens(300, 0)),
        call("a2", 2, 60, 60, 65, ttft_s=1.0, **tokens(200, 100, 5)),
        call("a3", 1, 8, 8, 12, **tokens(100, 100)),
        call("a3", 1, 25, 25, 30, role="expert", **tokens(100, 25)),
        call("a3", 2, 35, 35, 40, status="infra_error"),
        # Other models' own time and cache: in no figure of the one that is measured.
        call("a1", 2, 17, 30, 60, role="judge", ttft_s=9.0, **tokens(900, 900)),
        call("a2", 1, 21, 30, 60, role="user", ttft_s=9.0, **tokens(900, 900)),
    ],
    "tool_runs": [tool("a1", 1, 5, 8), tool("a1", 2, 14, 16), tool("a2", 2, 65, 75)],
    "attempts": [
        attempt("a1", "ok", 0, 20, True),
        attempt("a2", "ok", 10, 30, False),
        attempt("a3", "limit", 5, 40),
        attempt("a4", "model_error", 40, 50),
        attempt("a5", "infra_error", 50, 55),
        attempt("a6", "ok", 60, 80, True),
    ],
    "server_metrics": [
        *metric("e1", "vllm:prefix_cache_hits_total", (5, 100), (10, 120), (40, 150), (69, 180)),
        *metric("e1", "vllm:prefix_cache_hits_total", (71, 9000)),
        *metric("e1", "vllm:prefix_cache_queries_total", (10, 200), (69, 320)),
        # The second engine restarted: its counters count from 0 again.
        *metric("e2", "vllm:prefix_cache_hits_total", (9, 1000), (60, 40)),
        *metric("e2", "vllm:prefix_cache_queries_total", (9, 2000), (60, 180)),
        *metric("e1", "vllm:num_preemptions_total", (10, 3), (69, 9)),
        *metric("e1", "vllm:kv_cache_usage_perc", (9, 0.9), (20, 0.2), (40, 0.4)),
        *metric("e2", "vllm:kv_cache_usage_perc", (30, 0.5)),
        *metric("e1", "vllm:num_requests_running", (20, 2), (40, 4)),
        *metric("e2", "vllm:num_requests_running", (30, 5)),
        *metric("e1", "vllm:num_requests_waiting", (20, 1), (40, 0)),
        *metric("e1", "vllm:request_prefill_time_seconds_sum", (10, 1), (69, 5)),
        *metric("e1", "vllm:request_prefill_time_seconds_count", (10, 2), (69, 10)),
    ],
}
# Worked out by hand for the window [10, 70): steps end at 12, 16 and 20; the one whose tool run
# ends at 75 belongs to a later window. Trials: a1, a2, a3 and a4, of which a1 is right.
FIGURES = {
    "steps": 3,
    "steps_per_min": 3.0,
    "step_latency_p50": 6.0,
    "step_latency_max": 8.0,
    "trials": 4,
    "trials_per_min": 4.0,
    "accuracy": 0.25,
    "accuracy_se": sqrt(0.25 * 0.75 / 3),  # four tasks tried once: s / sqrt(4)
    "n_infra": 1,
    "server_hit_ratio": (60 + 40) / (120 + 180),
    "request_hit_avg": (0.5 + 0 + 0.5 + 1 + 0.25) / 5,
    "request_hit_token_weighted": 275 / 800,
    "kv_usage_mean": (0.3 + 0.5) / 2,
    "running_mean": 3 + 5,
    "waiting_mean": 0.5,
    "preemptions_per_s": 0.1,
    "prefill_s_mean": 0.5,
    "ttft_p50": 2.0,
    "itl_p50": (0.5 + 1.0) / 2,
    "held_p50": 0.0,
    "held_max": 1.0,
    "sessions_mean": (10 + 20 + 30 + 10 + 5 + 10) / 60,
    "calls_in_flight_mean": (3 + 8 + 5 + 2 + 5 + 5) / 60,
    "tools_running_mean": (2 + 5) / 60,
    "cost_usd": 0.5,
    "gpu_util_mean": None,
    "decode_s_mean": None,
}


def summary(home: storage.Home, start_s: float, end_s: float) -> dict[str, Any]:
    """Return the summary row of cell `c`."""
    sql = f"select * from window_summary('c', {start_s}, {end_s})"
    (row,) = storage.query(sql, home)
    return row


def steady(home: storage.Home) -> tuple[Any, ...]:
    """Return (start, end, reason) for cell `c`."""
    (row,) = storage.query("select start_s, end_s, reason from steady_window('c')", home)
    return tuple(row.values())


def test_every_table_is_there_when_the_store_is_empty(home: storage.Home) -> None:
    """A query before the first rows returns no rows and no error."""
    with storage.connect(home) as connection:
        for name in (*TABLES, *CATALOG_VIEWS):
            assert connection.execute(f"select * from {name}").fetchall() == []
        for name, schema in TABLES.items():
            columns = connection.execute(f"describe {name}").fetchall()
            assert [column[0] for column in columns] == schema.names


def test_a_catalog_that_is_no_database_is_a_store_error(home: storage.Home) -> None:
    """A damaged or foreign file is named; the reader gets no raw traceback of SQLAlchemy."""
    home.root.mkdir(parents=True)
    (home.root / "catalog.db").write_bytes(b"this is not SQLite " * 100)
    with pytest.raises(storage.StoreError, match="catalog"):
        storage.query("select 1", home)


@pytest.mark.parametrize("name", ["it's a store", "50%40", "what?now#then", "ünï"])
def test_a_home_may_have_any_name(home: storage.Home, name: str) -> None:
    """Paths are used in SQL and in a database URL, so a folder may have any name."""
    odd = storage.Home(home.root.parent / name)
    with storage.open_catalog(odd) as catalog:
        storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]})
    assert storage.query("select attempt_id from attempts", odd) == [{"attempt_id": "a"}]
    assert (odd.root / "catalog.db").is_file(), "the catalog is not in its home"


def test_times_come_back_as_they_went_in(catalog: storage.Catalog) -> None:
    """Times are UTC microseconds, from Parquet and from the catalog, for any time zone of the
    input."""
    moment = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)
    storage.commit(catalog, {"attempts": [{"attempt_id": "a", "started_at": moment}]})
    catalog.upsert(
        storage.catalog.sweeps, {"sweep_id": "s", "name": "s", "spec": "{}", "created_at": moment}
    )
    sql = "select epoch_us(started_at) as a, epoch_us(created_at) as b from attempts, sweeps"
    (row,) = storage.query(sql, catalog.home)
    assert row["a"] == row["b"] == round(moment.timestamp() * 1e6)


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> storage.Home:
    """Return a store with the constructed stream."""
    home = storage.Home(tmp_path_factory.mktemp("stream"))
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, STREAM)
    return home


def test_the_window_has_the_figures_worked_out_by_hand(stream: storage.Home) -> None:
    """The figures are steps, accuracy, hit ratios, counters over a restart, and loads in [10,
    70)."""
    row = summary(stream, 10, 70)
    found = {name: row[name] for name in FIGURES}
    missing = [name for name, value in FIGURES.items() if value is None]
    assert [found.pop(name) for name in missing] == [None] * len(missing)
    numbers = {name: value for name, value in FIGURES.items() if value is not None}
    assert found == pytest.approx(numbers, rel=1e-9, abs=1e-9)


def test_windows_are_half_open_and_add_up(stream: storage.Home) -> None:
    """An event at the boundary belongs to the later window, so nothing counts twice."""
    early, late, whole = (summary(stream, *w) for w in ((0, 20), (20, 100), (0, 100)))
    assert (early["steps"], late["steps"], whole["steps"]) == (3, 2, 5)
    assert (early["trials"], late["trials"], whole["trials"]) == (0, 5, 5)


def test_figures_without_data_are_null_and_counts_are_zero(stream: storage.Home) -> None:
    """In a window without ends, nothing looks measured."""
    row = summary(stream, 200, 260)
    assert (row["steps"], row["trials"], row["n_infra"]) == (0, 0, 0)
    for name in ("accuracy", "request_hit_avg", "kv_usage_mean", "step_latency_p50", "held_max"):
        assert row[name] is None
    assert row["sessions_mean"] == 0


def test_a_cell_without_calls_has_null_figures(catalog: storage.Catalog) -> None:
    """Before the first request there is no window, so even the counts are null."""
    storage.commit(catalog, {"attempts": [attempt("a1", "ok", 0, 5, True)]})
    row = summary(catalog.home, 0, 60)
    assert {value for name, value in row.items() if not name.endswith("_p50")} == {None}


def test_an_infra_error_alone_gives_no_accuracy(catalog: storage.Catalog) -> None:
    """Void attempts are counted separately and never part of the score."""
    rows = {"calls": [call("a1", 1, 0, 0, 5)], "attempts": [attempt("a1", "infra_error", 0, 6)]}
    storage.commit(catalog, rows)
    row = summary(catalog.home, 0, 60)
    assert (row["accuracy"], row["trials"], row["n_infra"]) == (None, 0, 1)


@pytest.mark.parametrize(
    ("starts", "first_call", "expected"),
    [
        ([], None, (None, None, "no attempts")),
        ([0, 1, 2, 3], None, (None, None, "no calls")),
        ([0, 1, 2], 0, (None, None, "fewer than two samples for each session slot")),
        ([0, 0, 0, 0], 0, (None, None, "slots were never all busy")),
        # Two slots: full when the second starts, drained from when the last one has started.
        ([0, 3, 10, 20], 1, (2.0, 19.0, "all session slots busy")),
        # Full before the first call was sent: the window starts with that.
        ([0, 1, 10, 20], 5, (0.0, 15.0, "all session slots busy")),
    ],
)
def test_the_steady_window_is_when_all_slots_are_busy(
    catalog: storage.Catalog, starts: list[float], first_call: float | None, expected: Any
) -> None:
    """With two slots, the result is the rule's window, or the reason why there is none."""
    rows = [attempt(f"a{i}", "ok", start, start + 5, True) for i, start in enumerate(starts)]
    calls = [] if first_call is None else [call("a0", 1, first_call, first_call, first_call + 1)]
    storage.commit(catalog, {"attempts": rows, "calls": calls})
    assert steady(catalog.home) == expected


def test_void_attempts_do_not_fill_slots(catalog: storage.Catalog) -> None:
    """An infra_error is no sample, so it makes no window."""
    rows = [attempt("v", "infra_error", s, s + 1) for s in range(5)]
    rows += [attempt(f"a{s}", "ok", s, s + 1, True) for s in (0, 5, 9)]
    storage.commit(catalog, {"attempts": rows, "calls": [call("a0", 1, 0, 0, 1)]})
    assert steady(catalog.home)[2] == "fewer than two samples for each session slot"


def test_a_resumed_cell_has_its_window_in_its_longest_run(catalog: storage.Catalog) -> None:
    """After a crash at 3 s and a new run at 100 s, no rate includes the gap."""
    first = [attempt(f"a{s}", "ok", s, s + 1, True) | {"run_id": "r1"} for s in range(3)]
    second = [attempt(f"b{s}", "ok", 100 + s, 101 + s, True) | {"run_id": "r2"} for s in range(5)]
    rows = [*first, *second]
    storage.commit(catalog, {"attempts": rows, "calls": [call("a0", 1, 0, 0, 1)]})
    assert steady(catalog.home) == (
        101,
        104,
        "all session slots busy, in the longest of its stretches",
    )


def test_a_commit_between_two_reads_is_seen_whole_or_not_at_all(catalog: storage.Catalog) -> None:
    """A cell's last attempt and its status are committed after the reader has read the parts: the
    reader sees neither. Reading table by table used to show a finished cell with one attempt of
    two."""
    cell: dict[str, Any] = {"cell_id": "c", "sweep_id": "s", "status": "running"}
    cell |= {"benchmark": "b", "model": "m", "policy": "p", "position": 0, "task_set_id": "t"}
    cell |= {"concurrency": 1, "repeat": 0, "index_id": "", "engine_id": "e", "samples": 2}
    catalog.upsert(
        cat.sweeps, {"sweep_id": "s", "name": "n", "spec": "{}", "created_at": cat.now()}
    )
    catalog.upsert(cat.cells, cell)
    storage.commit(catalog, {"attempts": [{"attempt_id": "1", "cell_id": "c"}]})
    between = list[str]()

    def finish(connection: sa.Connection) -> None:
        cat.upsert(connection, cat.cells, cell | {"status": cat.FINISHED})

    def commit_after_the_parts(*of_execute: object) -> None:
        if not between and "FROM parts" in str(of_execute[2]):
            between.append("once")
            storage.commit(catalog, {"attempts": [{"attempt_id": "2", "cell_id": "c"}]}, finish)

    sa.event.listen(sa.Engine, "after_cursor_execute", commit_after_the_parts)
    try:
        seen = storage.query(SEEN, catalog.home)
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", commit_after_the_parts)
    assert between and seen == [{"status": "running", "n": 1}]
    assert storage.query(SEEN, catalog.home) == [{"status": cat.FINISHED, "n": 2}]
