"""Tests that macros used laterally for many cells in one query give the same result as for each
alone."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from tutti import storage

CELLS = ("cell:a", "cell:b", "cell:c")
BEGAN = datetime(2026, 11, 21, tzinfo=UTC)
COUNTERS = ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
GAUGES = ("vllm:kv_cache_usage_perc", "vllm:num_requests_running")
HISTOGRAM = "vllm:time_to_first_token_seconds"
BUCKETS = [f'{HISTOGRAM}_bucket{{le="{edge}"}}' for edge in ("0.1", "0.5", "1.0", "+Inf")]


def rows_of(cell: str, seed: int) -> dict[str, list[dict[str, Any]]]:
    """Return a cell of thirty attempts whose times overlap those of the other cells."""
    random = Random(seed)
    rows: dict[str, list[dict[str, Any]]] = {"attempts": [], "calls": [], "tool_runs": []}
    key = {"cell_id": cell, "sweep_id": "sweep:1"}
    for nth in range(30):
        at = BEGAN + timedelta(seconds=seed + nth * 0.7)
        mine = key | {"attempt_id": f"{cell}-{nth}"}
        ended = at + timedelta(seconds=random.uniform(0.5, 3))
        attempt = mine | {"started_at": at, "ended_at": ended, "concurrency": 3, "attempt": 1}
        attempt |= {"task_id": f"t{nth}", "sample_id": f"{cell}-{nth}", "status": "ok"}
        correct = random.random() < 0.4 + 0.2 * seed
        rows["attempts"].append(attempt | {"correct": correct, "run_id": "r", "cost_usd": 0.1})
        for step in range(3):
            sent = at + timedelta(seconds=step * random.uniform(0.1, 0.4))
            done = sent + timedelta(seconds=random.uniform(0.05, 0.5))
            call = mine | {"call_id": f"{cell}-{nth}-{step}", "step": step, "sent_at": sent}
            call |= {"admitted_at": sent, "ended_at": done, "role": "orchestrator", "status": "ok"}
            call |= {"prompt_tokens": 100, "cached_tokens": random.randrange(100), "held_s": 0.01}
            rows["calls"].append(call | {"latency_s": 0.2, "ttft_s": random.random()})
            tool = mine | {"step": step, "started_at": done}
            rows["tool_runs"].append(tool | {"ended_at": done + timedelta(seconds=0.1)})
    rows["server_metrics"] = [
        key | {"engine_id": "e", "at": BEGAN + timedelta(seconds=nth), "name": name, "value": value}
        for nth in range(40)
        for name, value in [(n, float(nth * (seed + place))) for place, n in enumerate(COUNTERS)]
        + [(n, random.random()) for n in GAUGES]
        + [(n, float(random.randrange(5 * seed))) for n in BUCKETS]
    ]
    rows["gateway_events"] = [
        {"at": BEGAN + timedelta(seconds=nth), "cell_id": cell, "reason": "step_complete"}
        for nth in range(5 * seed)
    ]
    return rows


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a store of three cells and one without rows."""
    home = storage.Home(tmp_path_factory.mktemp("macros"))
    with storage.open_catalog(home) as catalog:
        for seed, cell in enumerate(CELLS, start=1):
            storage.commit(catalog, rows_of(cell, seed))
    connection = storage.connect(home)
    cells = ", ".join(f"('{cell}')" for cell in (*CELLS, "cell:none"))
    connection.execute(f"create temp table asked as select * from (values {cells}) c(id)")
    yield connection
    connection.close()


def alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether the values are equal, numbers up to the order of summation."""
    return len(one) == len(other) and all(
        a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b))
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize(
    "macro",
    [
        "window_summary({0}, 0, 12.5)",
        "window_summary({0}, 5, 1000)",
        "steady_window({0})",
        "reference_window({0}, 1, 9)",
        f"server_quantile({{0}}, '{HISTOGRAM}', 0.9, 0, 12.5)",
        f"server_quantile({{0}}, '{HISTOGRAM}', 0.5, 5, 1000)",
        "cost_by_role({0})",
        "transcript({0} || '-3')",
        "prompt({0} || '-3-1')",
    ],
)
def test_many_cells_at_once(connection: duckdb.DuckDBPyConnection, macro: str) -> None:
    """If a join inside a macro lost the cell, one cell's rows would count for another."""
    together: dict[str, list[tuple[Any, ...]]] = {}
    lateral = f"select c.id, m.* from asked c, {macro.format('c.id')} m order by all"
    for cell, *row in connection.execute(lateral).fetchall():
        together.setdefault(cell, []).append(tuple(row))
    for (cell,) in connection.execute("select id from asked").fetchall():
        alone = connection.execute(
            f"select * from {macro.format('$cell')} order by all", {"cell": cell}
        ).fetchall()
        found = together.get(cell, [])
        assert len(alone) == len(found)
        assert all(alike(a, b) for a, b in zip(alone, found, strict=True)), cell


def test_many_pairs_at_once(connection: duckdb.DuckDBPyConnection) -> None:
    """`compare` is used for all pairs of cells."""
    lateral = "select a.id, b.id, m.* from asked a, asked b, compare(a.id, b.id) m"
    rows = connection.execute(lateral).fetchall()
    assert len(rows) == 16
    for a, b, *row in rows:
        alone = connection.execute("select * from compare($a, $b)", {"a": a, "b": b}).fetchall()
        assert len(alone) == 1 and alike(alone[0], tuple(row)), (a, b)


def test_a_window_counts_programs_of_a_gateway_once_they_are_scored(tmp_path: Path) -> None:
    """The programs' answers were not requested by a task, so one without a verdict is neither
    correct nor wrong."""
    home = storage.Home(tmp_path)
    key = {"cell_id": "cell:g", "sweep_id": "sweep:g", "started_at": BEGAN, "status": "ok"}
    verdicts = [("gateway", True), ("gateway", False), ("gateway", None), ("sweep", None)]
    attempts = [
        key
        | {"attempt_id": f"a{nth}", "task_id": f"t{nth}", "source": source, "correct": correct}
        | {"ended_at": BEGAN + timedelta(seconds=nth + 1)}
        for nth, (source, correct) in enumerate(verdicts)
    ]
    calls = [
        {"cell_id": "cell:g", "sweep_id": "sweep:g", "attempt_id": row["attempt_id"], "step": 1}
        | {"call_id": f"c-{row['attempt_id']}", "sent_at": BEGAN, "admitted_at": BEGAN}
        | {"ended_at": row["ended_at"], "role": "orchestrator", "status": "ok"}
        for row in attempts
    ]
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"attempts": attempts, "calls": calls})
    sql = "select trials, accuracy from window_summary('cell:g', 0, 100)"
    (found,) = storage.query(sql, home)
    assert found["trials"] == 3, "the unscored program is left out; the sweep's attempt counts"
    assert math.isclose(found["accuracy"], 1 / 3)
