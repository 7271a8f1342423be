"""Tests of the loader: everything is stored once, also after repeated, killed or concurrent
imports."""

import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage.write.encode import TABLES
from tutti.tasks.exchange.base.imported import (
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportedRecords,
    ImportIssue,
    cell_keys,
)
from tutti.tasks.exchange.loader import LISTED_PROBLEMS, ImportReport, enter_attempts, load

CELL = Cell("run-1", "adder", "small", detail={"seed": 7})
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ENTER = "tutti.tasks.exchange.loader.enter_attempts"
WORKER = """
import sys, time
from pathlib import Path
from tutti import storage
from tutti.tasks.exchange.loader import load
from tutti.tasks.exchange.base.imported import Cell, ImportedAttempt
def source():
    for n in range(60):
        if n and n % 3 == 0:  # what came before is committed
            print(n, flush=True)
            time.sleep(0.02)
        said = [{"role": "user", "content": "hi"}]
        yield ImportedAttempt(Cell("r", "b", "m"), f"t{n}", messages=said)
with storage.open_catalog(storage.Home(Path(sys.argv[1]))) as catalog:
    load(catalog, source(), "test", batch=3)
"""


def trial(number: int, cell: Cell = CELL, **changes: Any) -> ImportedAttempt:
    """Return an attempt with a row in every table."""
    made = ImportedAttempt(
        cell,
        f"task-{number}",
        outcome={"status": "ok", "score": 1.0, "correct": True},
        messages=[
            {"role": "user", "content": "1+1?"},
            {
                "role": "assistant",
                "content": "2",
                "call_id": "c",
                "tool_calls": [{"id": "x", "name": "add", "arguments": "{}"}],
            },
        ],
        calls=[
            {"call_id": "c", "step": 1, "prompt_tokens": 5, "completion_tokens": 2, "sent_at": AT}
        ],
        tool_runs=[{"step": 1, "name": "add", "result": "2"}],
        retrievals=[{"step": 1, "query": "two"}],
        scores=[{"scorer": "exact", "value": 1.0, "correct": True, "judge_call_id": "c"}],
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def trials(count: int) -> Iterator[ImportedItem]:
    yield from (trial(number) for number in range(count))


def counts(home: storage.Home) -> dict[str, int]:
    """Return the number of rows of every table, of Parquet and of the catalog."""
    names = [*TABLES, "runs", "sweeps", "cells", "artifacts", "artifact_parents"]
    sql = " union all ".join(
        f"select '{name}' as name, count(*) as n from {name}" for name in names
    )
    return {row["name"]: row["n"] for row in storage.query(sql, home)}


def column(home: storage.Home, sql: str) -> list[Any]:
    return [next(iter(row.values())) for row in storage.query(sql, home)]


def test_rows_and_what_follows_from_them(catalog: storage.Catalog) -> None:
    """The ids, derived columns and catalog rows are correct."""
    report = load(catalog, trials(2), "test")
    assert (report.taken, report.there, report.problems_total) == (2, 0, 0)
    assert list(report.sweeps.values()) == ["run-1"]
    rows = storage.query("select * from attempts order by task_id", catalog.home)
    first = rows[0]
    assert first["sweep_id"] == next(iter(report.sweeps))
    assert (first["benchmark"], first["model"]) == ("adder", "small")
    assert (first["policy"], first["concurrency"]) == (None, None)
    (cell,) = storage.query("select policy, concurrency from cells", catalog.home)
    assert cell == {"policy": None, "concurrency": None}
    assert (first["steps"], first["calls"], first["tool_calls"]) == (1, 1, 1)
    assert (first["prompt_tokens"], first["completion_tokens"]) == (5, 2)
    assert first["cached_tokens"] is None
    assert first["started_at"] == AT
    joined = column(
        catalog.home,
        "select count(*) from messages m join calls c using (call_id) join scores s "
        "on s.judge_call_id = c.call_id where c.attempt_id = m.attempt_id",
    )
    assert joined == [2]
    cell = storage.query("select * from cells", catalog.home)[0]
    assert (cell["samples"], cell["status"]) == (2, "finished")
    (lineage,) = column(
        catalog.home,
        "select string_agg(split_part(parent_id, ':', 1), ' ' order by parent_id) "
        "from artifact_parents where artifact_id like 'cell:%'",
    )
    assert lineage == "model task_set"


def test_importing_twice_adds_nothing(catalog: storage.Catalog) -> None:
    log = ImportedRecords(CELL, "log", 0, {"server_metrics": [{"name": "x", "value": 1.0}] * 4}, 2)
    load(catalog, [*trials(5), log], "test")
    before = counts(catalog.home)
    report = load(catalog, [*trials(5), log], "test", batch=2)
    assert (report.taken, report.there, report.records, report.records_there) == (0, 5, 0, 2)
    assert counts(catalog.home) == before


def test_a_trial_run_again_after_an_infrastructure_error_is_a_new_attempt(
    catalog: storage.Catalog,
) -> None:
    """Tools replace the failed attempt by the good one; here both are stored, each once."""
    bad, good = trial(1), trial(1)
    bad.outcome |= {"status": "infra_error", "score": None, "correct": None}
    for source, taken in (([bad], 1), ([bad], 0), ([good], 1), ([good], 0), ([good, trial(2)], 1)):
        assert load(catalog, source, "test").taken == taken
    sql = (
        "select sample_id, attempt, status from attempts where task_id = 'task-1' order by attempt"
    )
    first, second = storage.query(sql, catalog.home)
    assert (first["attempt"], first["status"]) == (1, "infra_error")
    assert (second["attempt"], second["status"]) == (2, "ok")
    assert first["sample_id"] == second["sample_id"]


def test_a_grown_source_adds_the_rest(catalog: storage.Catalog) -> None:
    load(catalog, trials(3), "test")
    report = load(catalog, trials(5), "test")
    assert (report.taken, report.there) == (2, 3)
    assert column(catalog.home, "select samples from cells") == [5]


def test_other_formats_and_runs_have_attempts_of_their_own(catalog: storage.Catalog) -> None:
    load(catalog, trials(1), "test")
    assert load(catalog, trials(1), "other").taken == 1
    assert load(catalog, [trial(0, Cell("run-2", "adder", "small"))], "test").taken == 1


def test_the_same_attempt_twice_in_one_import_is_named(catalog: storage.Catalog) -> None:
    """This holds within a batch and across batches: a different second attempt would be lost
    silently."""
    for batch, count in ((10, 1), (1, 1)):
        cell = Cell(f"batch-{batch}", "b", "m")
        report = load(catalog, [trial(0, cell), trial(0, cell)], "test", batch=batch)
        assert (report.taken, report.there, report.problems_total) == (1, 0, count)
        assert "twice in this import" in report.problems[0].reason


def test_an_attempt_of_this_store_is_not_taken_again(catalog: storage.Catalog) -> None:
    """Attempts that were exported from this store have other ids but the same origin."""
    load(catalog, trials(1), "test")
    (origin,) = column(catalog.home, "select attempt_id from attempts")
    report = load(catalog, [trial(0, Cell("elsewhere", "b", "m"), origin=origin)], "other")
    assert (report.taken, report.there) == (0, 1)


def test_a_source_that_breaks_off_keeps_what_was_committed(catalog: storage.Catalog) -> None:
    def broken() -> Iterator[ImportedItem]:
        yield from trials(5)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        load(catalog, broken(), "test", batch=2)
    assert len(column(catalog.home, "select * from attempts")) == 4
    assert load(catalog, trials(5), "test").taken == 1


@pytest.mark.slow
def test_a_killed_import_is_made_whole(home: storage.Home, worker_environment: Any) -> None:
    """After SIGKILL at any commit, the same import stores each attempt and message once."""
    for commits in (1, 2, 4):
        command = [sys.executable, "-c", WORKER, str(home.root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=worker_environment) as worker:
            assert worker.stdout is not None
            for _ in range(commits):
                worker.stdout.readline()
            worker.send_signal(signal.SIGKILL)
    subprocess.run([sys.executable, "-c", WORKER, str(home.root)], check=True, capture_output=True)
    sql = "select count(*) - count(distinct attempt_id), count(*) from {}"
    for table in ("attempts", "messages"):
        assert list(storage.query(sql.format(table), home)[0].values()) == [0, 60]
    assert column(home, "select samples from cells") == [60]


def test_two_imports_at_once_do_not_double(catalog: storage.Catalog) -> None:
    log = [
        ImportedRecords(CELL, "log", n, {"server_metrics": [{"name": str(n), "value": 1.0}]}, 1)
        for n in range(40)
    ]

    def one(_: int) -> ImportReport:
        with storage.open_catalog(catalog.home) as own:
            return load(own, [*trials(40), *log], "test", batch=7)

    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(one, range(4)))
    assert sum(report.taken for report in reports) == 40
    assert sum(report.records for report in reports) == 40
    assert all(report.taken + report.there == 40 for report in reports)
    assert len(set(column(catalog.home, "select attempt_id from messages"))) == 40
    assert len(column(catalog.home, "select attempt_id from messages")) == 80
    assert len(column(catalog.home, "select name from server_metrics")) == 40


def test_recordings_take_each_record_once_however_they_are_cut(catalog: storage.Catalog) -> None:
    def log(start: int, end: int) -> ImportedRecords:
        rows = [{"name": f"{n}-{part}", "value": 1.0} for n in range(start, end) for part in "ab"]
        return ImportedRecords(CELL, "log", start, {"server_metrics": rows}, end - start)

    load(catalog, [log(0, 3), log(3, 5)], "test")
    report = load(catalog, [log(0, 4), log(4, 9)], "test")
    assert (report.records, report.records_there) == (4, 5)
    names = column(catalog.home, "select name from server_metrics")
    assert sorted(names) == sorted(f"{n}-{part}" for n in range(9) for part in "ab")
    uneven = ImportedRecords(CELL, "log", 8, {"server_metrics": [{"name": "x"}] * 3}, 2)
    assert "cannot be identified" in load(catalog, [uneven], "test").problems[0].reason


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"messages": [{"role": "user", "content": 5}]}, ""),
        ({"outcome": {"steps": "many"}}, ""),
        ({"outcome": {"colour": "red"}}, ""),
        ({"calls": [{"retry": 2**70}]}, ""),
        ({"calls": [{"token_ids": [2**40]}]}, ""),
        ({"task_id": "a\0b"}, "task_id"),
        ({"task_id": "\ud800"}, "task_id"),
        ({"task_id": None}, "task_id"),
        ({"trial": None}, "trial"),
        ({"trial": -1}, "trial"),
        ({"trial": 2**31}, "trial"),
        ({"trial": True}, "trial"),
        ({"trial": "0"}, "trial"),
        ({"trial": 1.0}, "trial"),
        ({"attempt": None}, "attempt"),
        ({"attempt": 0}, "attempt"),
        ({"messages": [5]}, ""),
        ({"cell": Cell("\ud800", "b", "m")}, "cell.run"),
        ({"cell": Cell("r", "b", "m", repeat=None)}, "cell.repeat"),  # type: ignore[arg-type]
        ({"cell": Cell("r", "b", "m", concurrency=-1)}, "cell.concurrency"),
    ],
)
def test_a_trial_that_does_not_fit_is_named_and_the_others_are_taken(
    catalog: storage.Catalog, changes: dict[str, Any], field: str
) -> None:
    bad = trial(1, file=Path("log.jsonl"), line=3, **{"task_id": "task-1", **changes})
    report = load(catalog, [trial(0), bad, trial(2)], "test")
    assert (report.taken, report.problems_total) == (2, 1)
    problem = report.problems[0]
    assert (problem.file, problem.line, problem.field) == (Path("log.jsonl"), 3, field)
    str(problem).encode(errors="backslashreplace")


def test_a_refusal_of_the_catalog_is_no_race(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no other import has entered the attempts, a retry would fail again."""
    tries = 0

    def refuse(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise sa.exc.IntegrityError("insert", {}, Exception("NOT NULL constraint failed"))

    monkeypatch.setattr(ENTER, refuse)
    with pytest.raises(storage.StoreError, match="refuses these attempts: NOT NULL") as caught:
        load(catalog, trials(2), "test")
    assert not isinstance(caught.value, storage.StoreBusy) and tries == 1


def test_a_lost_race_for_the_rows_is_none_of_the_content(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another import enters an attempt between the check and the insert, the rest is still
    stored."""
    tries = 0

    def lose_once(connection: sa.Connection, attempts: list[Any]) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            connection.rollback()
            monkeypatch.setattr(ENTER, enter_attempts)
            load(catalog, trials(1), "test")
            raise sa.exc.IntegrityError("insert", {}, Exception("UNIQUE constraint failed"))
        enter_attempts(connection, attempts)

    monkeypatch.setattr(ENTER, lose_once)
    report = load(catalog, trials(3), "test")
    assert (report.taken, report.there, report.problems) == (2, 1, [])


def test_what_has_a_near_form_is_mended_and_named(catalog: storage.Catalog) -> None:
    """A lone surrogate becomes U+FFFD and NaN becomes null; NUL and surrogate pairs keep their
    meaning."""
    texts = ["a\0b", "cut \ud83d", "\ud83d\ude00"]
    odd = trial(0, messages=[{"role": "user", "content": text} for text in texts])
    odd.outcome |= {"score": math.nan}
    odd.calls = [{"call_id": "c", "logprobs": [-1.0, math.nan], "latency_s": math.inf}]
    odd.scores = []
    report = load(catalog, [odd], "test")
    assert report.taken == 1
    (problem,) = report.problems
    assert "nan is not a finite number" in problem.reason and "replaced" in problem.reason
    contents = column(catalog.home, "select content from messages order by position")
    assert contents == ["a\0b", "cut \N{REPLACEMENT CHARACTER}", "\N{GRINNING FACE}"]
    (call,) = storage.query("select logprobs, latency_s from calls", catalog.home)
    assert call == {"logprobs": [-1.0, None], "latency_s": None}
    assert column(catalog.home, "select score from attempts") == [None]


def test_a_recording_with_a_bad_value_keeps_its_place(catalog: storage.Catalog) -> None:
    rows: list[dict[str, Any]] = [{"name": "x", "value": "high"}, {"name": "y", "value": 1.0}]
    report = load(catalog, [ImportedRecords(CELL, "log", 0, {"server_metrics": rows}, 2)], "test")
    assert (report.records, report.problems_total) == (2, 1)
    assert "'high'" in report.problems[0].reason
    values = storage.query("select name, value from server_metrics", catalog.home)
    assert [row["value"] for row in values] == [None, None]


def test_problems_are_counted_and_only_so_many_kept(catalog: storage.Catalog) -> None:
    source = (ImportIssue(Path("f"), n, "x", "bad") for n in range(LISTED_PROBLEMS + 5))
    report = load(catalog, source, "test")
    assert (report.problems_total, len(report.problems)) == (LISTED_PROBLEMS + 5, LISTED_PROBLEMS)
    assert counts(catalog.home)["runs"] == 0  # nothing new: no trace of a run


def test_no_figure_is_made_from_a_load_that_the_log_does_not_say(
    catalog: storage.Catalog,
) -> None:
    """The score is stored; rates and loads are not."""
    load(catalog, trials(3), "test")
    sql = "select n, score, policy, concurrency, steps_per_min from results"
    assert storage.query(sql, catalog.home) == [
        {"n": 3, "score": 1.0, "policy": None, "concurrency": None, "steps_per_min": None}
    ]


def test_ids_are_those_of_earlier_versions() -> None:
    """A file that was imported with constructed values is recognised."""
    former = Cell("r", "b", "m", "passthrough", 1)
    assert cell_keys("test", Cell("r", "b", "m")) == cell_keys("test", former)
