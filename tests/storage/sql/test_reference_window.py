"""Tests that our SQL gives ThunderAgent's summaries with the numbers of its definitions."""

# Hypothesis keeps a test that it ran; a type in its annotations is what nanobind calls leaked.
from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from datetime import timedelta, timezone
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.reference_run import (
    COUNTERS,
    HEADER,
    NAN,
    START,
    Sampler,
    expected_steps,
    expected_window,
    write_run,
)
from tutti import storage
from tutti.storage.write.encode import TABLES
from tutti.tasks.exchange.base.imported import ImportedRecords, ImportIssue
from tutti.tasks.exchange.loader import load
from tutti.tasks.exchange.thunderagent.read import read
from tutti.tasks.exchange.thunderagent.write import (
    RunFiles,
    combined_summary,
    over,
    steps_summary,
    window_summary,
)

READ_BY_THE_MACRO = ("calls", "server_metrics", "gateway_events", "tool_runs", "attempts")


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a plain connection with the empty tables that the macro reads."""
    source = resources.files("tutti.storage").joinpath("sql", "reference_window.sql").read_text()
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        for name in READ_BY_THE_MACRO:
            connection.register("empty", TABLES[name].empty_table())
            connection.execute(f"create table {name} as from empty")
        connection.execute(source)
        yield connection


def fill(connection: duckdb.DuckDBPyConnection, folder: Path) -> list[ImportIssue]:
    """Fill the tables with the importer's rows of the folder, as cell `c`, and return its
    issues."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in READ_BY_THE_MACRO}
    problems = []
    for item in read(folder, "run"):
        if isinstance(item, ImportIssue):
            problems.append(item)
        elif isinstance(item, ImportedRecords):
            for name, some in item.rows.items():
                rows[name] += [row | {"cell_id": "c"} for row in some]
    for name, some in rows.items():
        connection.execute(f"delete from {name}")
        connection.register("given", pa.Table.from_pylist(some, schema=TABLES[name]))
        connection.execute(f"insert into {name} from given")
    return problems


def files(folder: Path) -> RunFiles:
    """Return the run's files, as their launcher names them."""
    log = str(folder / "eval.log")
    series, usage = folder / "prefix_cache_timeseries.csv", folder / "orchestrator_usage.jsonl"
    return RunFiles(str(usage), metrics_csv=str(series), trials_log=log, steps_log=log)


def without_iso(found: Any) -> Any:
    """Return the summary without the fields that the reference computation omits."""
    if not isinstance(found, dict):
        return found
    left_out = ("usage_jsonl",)
    kept = {k: v for k, v in found.items() if not k.endswith("_iso") and k not in left_out}
    return {name: without_iso(value) for name, value in kept.items()}


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    """Check that structure and numbers agree to 1e-9, and times to the microsecond."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        assert found.keys() == expected.keys(), where
        for name, value in expected.items():
            assert_same(found[name], value, f"{where}.{name}")
    elif isinstance(expected, float) and where.endswith("_unix"):
        assert found == pytest.approx(expected, rel=0, abs=1e-6), where
    elif isinstance(expected, float) and not isinstance(expected, bool):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), where
    else:
        assert found == expected, where


def assert_window(
    connection: duckdb.DuckDBPyConnection, folder: Path, start_s: float, end_s: float
) -> None:
    """Check that both summaries of a window are those of the definitions."""
    window = over(connection, "c", start_s, end_s)
    found = without_iso(window_summary([window], files(folder)))
    assert_same(found, expected_window(folder, start_s, end_s))
    steps = without_iso(steps_summary(window, files(folder)))
    assert_same(steps, expected_steps(folder, start_s, end_s))


@pytest.mark.parametrize(
    ("seed", "awk", "ends_s"), [(1, "mawk", math.inf), (2, "gawk", math.inf), (3, "gawk", 2500)]
)
def test_a_run_of_two_hours_has_their_numbers(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, seed: int, awk: str, ends_s: float
) -> None:
    """The run has restarts, lost samples, duplicate timestamps, lines without cached tokens and an
    early end."""
    folder = tmp_path / "hle_paper_thunderagent_c48_rep1_20260101_000000"
    write_run(folder, seed, awk=awk, ends_s=ends_s)
    assert fill(connection, folder) == []
    for start_s, end_s in ((600, 7800), (600, 2400), (0, 100), (30.5, 30.5), (9e3, 9.5e3)):
        assert_window(connection, folder, start_s, end_s)


instants = st.integers(0, 12).map(float)  # few, so that samples share stamps and touch the ends
totals = st.one_of(st.just(NAN), st.integers(0, 9).map(float))


@st.composite
def small_runs(draw: st.DrawFn) -> dict[str, str]:
    """Draw a few records of each file, with many irregularities."""
    sampler = Sampler(draw(st.sampled_from(["mawk", "gawk"])))
    series = [",".join(HEADER)]
    for second in sorted(draw(st.lists(instants, min_size=1, max_size=8))):
        now = {name: draw(totals) for name in COUNTERS}
        gauges = [draw(totals) for _ in range(3)]
        series.append(",".join(sampler.row(str(int(START + second)), now, gauges)))
    tokens = st.one_of(st.none(), st.integers(0, 5))
    usage = [
        {"ts_unix": START + at, "prompt_tokens": draw(tokens), "cached_tokens": draw(tokens)}
        for at in draw(st.lists(instants, max_size=6))
    ]
    log = [
        f"[PROFILE] type=step_complete ts_unix={START + at:.2f}" for at in draw(st.lists(instants))
    ]
    log += [
        f"[HLE_TRIAL_COMPLETE] ts_unix={START + at:.3f} job_id=j" for at in draw(st.lists(instants))
    ]
    records = [json.dumps({k: v for k, v in line.items() if v is not None}) for line in usage]
    return {
        "prefix_cache_timeseries.csv": "\n".join(series) + "\n",
        "orchestrator_usage.jsonl": "".join(f"{record}\n" for record in records),
        "eval.log": "".join(f"{line}\n" for line in log),
    }


@settings(deadline=None, max_examples=settings().max_examples // 4)
@given(run=small_runs(), start_s=instants, length_s=instants)
def test_any_small_run_has_their_numbers(
    connection: duckdb.DuckDBPyConnection, run: dict[str, str], start_s: float, length_s: float
) -> None:
    """This holds for any files and any ends of the window, including ends on records."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in run.items():
            (folder / file).write_text(text)
        assert fill(connection, folder) == []
        assert_window(connection, folder, start_s, start_s + length_s)


def test_their_files_have_their_form(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """Fields are in their order, times are local, and the combined summary contains both."""
    folder = tmp_path / "run"
    write_run(folder, 5, hours=0.5)
    fill(connection, folder)
    given = RunFiles(
        **{**vars(files(folder)), "gpu_util_csv": "g.csv", "zone": timezone(timedelta(hours=8))}
    )
    windows = [over(connection, "c", *ends) for ends in ((600, 7800), (0, 60))]
    found = combined_summary(windows, given)
    assert list(found) == [
        *("ok", "t0_first_request_unix", "t0_first_request_iso", "windows", "steps", "paths")
    ]
    assert list(found["windows"]) == ["600-7800", "0-60"]
    assert found["t0_first_request_iso"].startswith("2026-01-01T08:00:")
    assert found["t0_first_request_iso"].endswith("+08:00")
    first = found["windows"]["600-7800"]
    assert list(first)[-3:] == ["metrics", "response_usage", "trials"]
    assert found["steps"]["steps"]["source_log"] == given.steps_log
    assert found["paths"] == {
        "metrics_csv": given.metrics_csv,
        "usage_jsonl": given.usage_jsonl,
        "gpu_util_csv": "g.csv",
    }
    json.dumps(found)


def test_without_a_first_response_there_is_no_summary(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """The error has ThunderAgent's text."""
    (tmp_path / "orchestrator_usage.jsonl").write_text('{"ts_unix": 1767225600, "model": "m"}\n')
    fill(connection, tmp_path)
    window = over(connection, "c")
    failed = {"ok": False, "reason": "no_t0", "usage_jsonl": "u"}
    assert window_summary([window], RunFiles("u")) == failed
    combined = combined_summary([window], RunFiles("u"))
    assert (combined["ok"], combined["windows"]) == (False, None)
    steps = combined["steps"]  # the steps' t0 is the first line, whatever it holds
    assert (steps["ok"], steps["steps"]) == (True, {"available": False})
    assert steps_summary(over(connection, "no such cell"), RunFiles("u")) == failed


def test_files_that_are_not_there_are_not_available(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """With the usage file alone there are responses, and nothing that looks measured for the
    rest."""
    line = {"ts_unix": START, "prompt_tokens": 4, "cached_tokens": 1}
    (tmp_path / "orchestrator_usage.jsonl").write_text(json.dumps(line) + "\n")
    fill(connection, tmp_path)
    found = window_summary([over(connection, "c", 0, 60)], RunFiles("u"))["windows"]["0-60"]
    assert (found["metrics"], found["trials"]) == ({"available": False}, {"available": False})
    assert found["response_usage"]["cached_tokens_ratio_token_weighted"] == 0.25


def test_one_attempt_is_enough_for_its_figures(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """The cell is a store's own, which has no log."""
    line = {"ts_unix": START, "prompt_tokens": 4, "cached_tokens": 1}
    (tmp_path / "orchestrator_usage.jsonl").write_text(json.dumps(line) + "\n")
    fill(connection, tmp_path)
    connection.execute(
        "insert into attempts by name select 'c' as cell_id, 'a' as attempt_id, 'ok' as status, "
        f"to_timestamp({START + 5}) as ended_at"
    )
    found = window_summary([over(connection, "c", 0, 60)], RunFiles("u"))["windows"]["0-60"]
    trials = found["trials"]
    assert (trials["available"], trials["source_log"]) == (True, None)
    assert trials["trials_completed_in_window"] == 1


def test_changes_are_computed_where_nobody_noted_them(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """The cell is our own, with totals of two engines, one of which restarts, and with attempts and
    tool runs."""
    at = "timestamptz '2026-01-01 00:00:00+00' + to_seconds"
    for name in READ_BY_THE_MACRO:
        connection.execute(f"delete from {name}")
    connection.execute(
        "insert into calls by name select 'c' as cell_id, 'a' || i as attempt_id, 1 as step, "
        f"'orchestrator' as role, {at}(i) as sent_at, {at}(i + 5) as ended_at, "
        "10 as prompt_tokens, 5 as cached_tokens from range(4) t(i)"
    )
    connection.execute(
        f"insert into server_metrics by name select 'c' as cell_id, e as engine_id, {at}(s) as "
        "\"at\", 'vllm:prefix_cache_' || n as name, v as value from "
        "(values ('e1', 5, 10, 100), ('e1', 7, 30, 150), ('e1', 9, 5, 20), ('e1', 11, 15, 40), "
        "('e2', 6, 0, 0), ('e2', 8, 8, 10)) r(e, s, h, q), "
        "lateral (values ('hits_total', h), ('queries_total', q)) x(n, v)"
    )
    connection.execute(
        "insert into attempts by name select 'c' as cell_id, 'a' || i as attempt_id, "
        f"'ok' as status, {at}(i + 7) as ended_at from range(4) t(i)"
    )
    connection.execute(
        "insert into tool_runs by name select 'c' as cell_id, 'a' || i as attempt_id, 1 as step, "
        f"{at}(i + 6) as ended_at from range(4) t(i), range(2) u(k)"
    )
    row = over(connection, "c", 0, 4)  # second 0 is the first response: at 5 s
    figures = [row[name] for name in ("samples_hit", "sum_hits_tokens", "sum_queries_tokens")]
    assert figures == [2, 20 + 8, 50 + 10]
    assert (row["responses"], row["trials_completed_in_window"]) == (4, 3)
    assert (row["step_complete_lines_parsed"], row["step_complete_in_window"]) == (4, 4)
    sent = "select responses from reference_window('c', 0, 6, t0_rule := 'first_request')"
    assert connection.execute(sent).fetchall() == [(2,)]
    with pytest.raises(duckdb.InvalidInputException, match="t0_rule is first_response"):
        connection.execute("from reference_window('c', 0, 6, t0_rule := 'x')").fetchall()


def test_their_numbers_come_out_of_a_store(catalog: storage.Catalog, tmp_path: Path) -> None:
    """The loader imports them in two halves as the run grows, and the store is queried."""
    whole = tmp_path / "whole"
    folder = tmp_path / "hle_paper_continuum_c24_rep2_20260101_000000"
    write_run(whole, 4, hours=0.4)
    folder.mkdir()
    for share in (0.6, 1.0):
        for file in whole.iterdir():
            text = file.read_bytes()
            (folder / file.name).write_bytes(text[: int(len(text) * share)])
        report = load(catalog, read(folder, "run"), "thunderagent")
        assert report.records > 0
    assert report.problems == []
    again = load(catalog, read(folder, "run"), "thunderagent")
    assert (again.records, again.taken) == (0, 0)
    source = resources.files("tutti.storage").joinpath("sql", "reference_window.sql").read_text()
    with storage.connect(catalog.home) as connection:
        connection.execute(source)
        cells = connection.execute("select cell_id, policy, concurrency, repeat from cells")
        ((cell, *point),) = cells.fetchall()
        assert point == ["continuum", 24, 2]
        window = over(connection, cell, 60, 1200)
    given = files(folder)
    found = without_iso(window_summary([window], given))
    assert_same(found, expected_window(folder, 60, 1200))
    assert_same(without_iso(steps_summary(window, given)), expected_steps(folder, 60, 1200))
