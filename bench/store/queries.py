"""Queries of the large store, in a user's SQL, and the start-up time of processes.

Each repeat asks about another attempt, cell or window; medians of all of them. The connection of
the queries is opened once, as a notebook or the prompt does.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import duckdb

from bench.report import Report, Target, seconds_of
from bench.store.build import BuiltStore, Shape
from tutti import storage

ACCURACY = """
select model, benchmark, count(*) as attempts,
       avg(cast(correct as int)) filter (status in ('ok', 'limit', 'model_error')) as accuracy,
       count(*) filter (status = 'infra_error') as n_infra
from attempts group by all order by all
"""
# A timestamp less a timestamp is an interval, six times as slow as microseconds.
WINDOW_P99 = """
with began as (select cell_id, min(epoch_us(sent_at)) as t0 from calls group by cell_id)
select concurrency, (epoch_us(sent_at) - t0) // 600_000_000 as "window",
       quantile_cont(latency_s, 0.99) as p99, count(*) as calls
from calls join began using (cell_id) group by all order by all
"""
WINDOW_P99_BY_CELLS = """
select c.concurrency, (epoch_us(sent_at) - epoch_us(started_at)) // 600_000_000 as "window",
       quantile_cont(latency_s, 0.99) as p99, count(*) as calls
from calls c join cells using (cell_id) group by all order by all
"""
SUMMARY = "select * from window_summary('{cell}', {start}, {end})"
STEADY = "select * from steady_window('{cell}')"
COMPARE = "select * from compare('{cell}', '{other}')"
TRANSCRIPT = "select * from transcript('{attempt}')"
OPEN = (
    "from time import perf_counter; began = perf_counter(); from tutti import storage; "
    "storage.connect(); print(perf_counter() - began)"
)
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
HELP_REPEATS = 10


def measure_queries(
    report: Report, home: storage.Home, built: BuiltStore, shape: Shape, repeats: int
) -> None:
    """Run every query `repeats` times."""
    connection = storage.connect(home)
    cells = [built.small_cells[n % len(built.small_cells)] for n in range(repeats)]
    seconds = shape.seconds * shape.small_cell * 95 / (shape.attempts - 5 * shape.small_cell)
    attempts = built.talkative[:: max(1, len(built.talkative) // repeats)][:repeats]
    summaries = [
        SUMMARY.format(cell=cell, start=seconds * 0.01 * n, end=seconds)
        for n, cell in enumerate(cells)
    ]
    steady = [STEADY.format(cell=cell) for cell in cells]
    pairs = [
        COMPARE.format(cell=cell, other=built.small_cells[n % len(built.small_cells) - 1])
        for n, cell in enumerate(cells)
    ]
    transcripts = [TRANSCRIPT.format(attempt=attempt) for attempt in attempts]
    half = Target(0.5)
    first = _times(connection, [ACCURACY])
    report.figure("query_accuracy_1m_s", _times(connection, [ACCURACY] * repeats), half)
    report.figure("query_accuracy_1m_first_s", first)
    report.figure("window_summary_s", _times(connection, summaries), Target(0.2))
    report.figure("steady_window_s", _times(connection, steady), half)
    report.figure("compare_s", _times(connection, pairs), Target(0.2))
    report.figure("window_p99_5m_s", _times(connection, [WINDOW_P99] * repeats), Target(0.25))
    by_cells = _times(connection, [WINDOW_P99_BY_CELLS] * repeats)
    report.figure("window_p99_5m_by_cells_s", by_cells)
    report.figure("transcript_s", _times(connection, transcripts), Target(0.1))
    connection.close()


def _times(connection: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> list[float]:
    times = []
    for statement in statements:
        began = perf_counter()
        rows = connection.execute(statement).fetchall()
        times.append(perf_counter() - began)
        assert rows, f"no rows: {statement}"
    return times


def measure_starts(report: Report, home: storage.Home, built: BuiltStore, repeats: int) -> None:
    """Start-up of new processes: opening the store, a query from the shell, the help."""
    environment = os.environ | {"TUTTI_HOME": str(home.root)}
    inside: list[float] = []
    whole: list[float] = []
    warm: list[float] = []
    dropped = False
    for _ in range(repeats):
        dropped = _drop_caches()
        began = perf_counter()
        inside.append(_opened(environment))
        whole.append(perf_counter() - began)
        warm.append(_opened(environment))
    report.figure("cold_open_s", inside, Target(0.5))
    report.figure("cold_open_process_s", whole)
    report.figure("warm_open_s", warm)
    state = "dropped before each" if dropped else "warm, for only root can drop it"
    report.note(f"cold_open_s: import and connect in a new process; page cache {state}.")
    command = [_tutti(), "sql", "--format", "json", TRANSCRIPT.format(attempt=built.talkative[0])]
    report.figure("sql_process_s", _process_times(command, environment, repeats))
    helped = _process_times([_tutti(), "--help"], environment, HELP_REPEATS)
    report.figure("cli_help_s", helped, Target(0.3))


def _opened(environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", OPEN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _drop_caches() -> bool:
    with suppress(OSError):
        os.sync()
        DROP_CACHES.write_text("3\n")
        return True
    return False


def _tutti() -> str:
    beside = Path(sys.executable).with_name("tutti")
    return str(beside) if beside.is_file() else shutil.which("tutti") or "tutti"


def _process_times(command: list[str], environment: dict[str, str], repeats: int) -> list[float]:
    def run() -> None:
        subprocess.run(command, env=environment, capture_output=True, check=True)

    run()  # compiles modules that are not compiled yet
    return [seconds_of(run) for _ in range(repeats)]
