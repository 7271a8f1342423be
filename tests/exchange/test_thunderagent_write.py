"""Tests that logs written from the store equal the imported ones and have the same summaries."""

import csv
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.storage.reference_run import HEADER, expected_window, write_run
from tutti.storage.write.encode import TABLES
from tutti.tasks.exchange.base.imported import ImportedRecords
from tutti.tasks.exchange.thunderagent import write_logs
from tutti.tasks.exchange.thunderagent.read import read
from tutti.tasks.exchange.thunderagent.write import GPU_HEADER
from tutti.tasks.exchange.thunderagent.write import HEADER as OURS

READ = ("calls", "server_metrics")
AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a plain connection with the empty tables from which logs are written."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        for name in READ:
            connection.register("empty", TABLES[name].empty_table())
            connection.execute(f"create table {name} as from empty")
        yield connection


def enter(connection: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    given = [row | {"cell_id": "c"} for row in rows]
    connection.register("given", pa.Table.from_pylist(given, schema=TABLES[table]))
    connection.execute(f"insert into {table} from given")


def test_the_columns_are_theirs() -> None:
    assert list(OURS) == HEADER


@pytest.mark.parametrize("awk", ["mawk", "gawk"])
def test_a_run_comes_back_with_the_same_summary(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, awk: str
) -> None:
    """The run has restarts, lost samples, duplicate timestamps and lines without cached tokens;
    summaries follow the definitions and are computed from the files alone."""
    folder = tmp_path / "hle_paper_thunderagent_c48_rep1_x"
    write_run(folder, 1, hours=0.5, awk=awk)
    recorded = [item for item in read(folder, "run") if isinstance(item, ImportedRecords)]
    for table in READ:
        enter(connection, table, [row for item in recorded for row in item.rows.get(table, [])])
    out = tmp_path / "out"
    out.mkdir()
    (out / "eval.log").write_bytes((folder / "eval.log").read_bytes())  # is not of the store
    written = write_logs(connection, "c", out)
    assert set(written) == {"usage_jsonl", "metrics_csv", "gpu_util_csv"}
    for start_s, end_s in ((0, 100), (300, 1500)):
        theirs, ours = (expected_window(each, start_s, end_s) for each in (folder, out))
        (before,), (after,) = theirs["windows"].values(), ours["windows"].values()
        assert after["response_usage"] == pytest.approx(before["response_usage"])
        for name, value in before["metrics"].items():
            assert after["metrics"][name] == pytest.approx(value, nan_ok=True), name
    gpus = [lines(each / "gpu_sm_util_timeseries.csv") for each in (folder, out)]
    assert gpus[0][0] == gpus[1][0] == GPU_HEADER
    theirs_gpu, ours_gpu = ([list(map(float, row[2:])) for row in each[1:]] for each in gpus)
    # A sample without any number is no row of the store.
    assert ours_gpu == [row for row in theirs_gpu if not math.isnan(row[1])]


def lines(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text().splitlines()))


def table(path: Path) -> list[dict[str, str]]:
    header, *rest = lines(path)
    return [dict(zip(header, row, strict=True)) for row in rest]


def test_our_own_samples(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """Totals are converted to changes, also across a restart; the names of SGLang and NVML are
    converted to ThunderAgent's."""
    totals = {"vllm:prefix_cache_hits_total": (10, 30, 5)}
    totals |= {"vllm:prefix_cache_queries_total": (20, 60, 10)}
    samples = [
        {"engine_id": "e", "at": AT + timedelta(seconds=nth), "name": name, "value": value}
        for name, values in totals.items()
        for nth, value in enumerate(values)
    ]
    samples += [{"engine_id": "s", "at": AT, "name": "sglang:num_running_reqs", "value": 3.0}]
    gpu = {"gpu_utilization": 50.0, "memory_used_bytes": 3 * 2.0**20, "power_watts": 300.0}
    samples += [
        {"engine_id": "host", "at": AT, "name": f'nvml:{name}{{gpu="1"}}', "value": value}
        for name, value in gpu.items()
    ]
    enter(connection, "server_metrics", samples)
    call = {"call_id": "k", "role": "orchestrator", "status": "ok", "ended_at": AT, "model": "m"}
    call |= {"prompt_tokens": 8, "completion_tokens": 2, "cached_tokens": 4}
    enter(connection, "calls", [call, call | {"call_id": "j", "role": "judge"}])
    written = write_logs(connection, "c", tmp_path)
    first, second, third = table(written["metrics_csv"])
    assert (first["delta_hits"], first["hits_total"]) == ("nan", "10.0")
    assert (second["delta_hits"], second["delta_queries"], second["hit_ratio"]) == (
        "20.0",
        "40.0",
        "0.5",
    )
    assert (third["delta_hits"], third["delta_miss_tokens"]) == ("0.0", "0.0")
    (other,) = table(written["metrics_csv_1"])
    assert other["num_requests_running"] == "3.0" and other["hits_total"] == "nan"
    (of_gpu,) = table(written["gpu_util_csv"])
    assert (of_gpu["gpu_index"], of_gpu["sm_util"], of_gpu["mem_used_mib"]) == ("1", "50.0", "3.0")
    assert of_gpu["mem_total_mib"] == "nan"
    (usage,) = map(json.loads, written["usage_jsonl"].read_text().splitlines())
    assert (usage["total_tokens"], usage["cached_tokens_ratio"]) == (10, 0.5)
    assert usage["ts_iso"] == "2026-01-01T00:00:00" and usage["ts_unix"] == AT.timestamp()


def test_nothing_is_written_for_nothing(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    assert write_logs(connection, "c", tmp_path) == {} and list(tmp_path.iterdir()) == []
