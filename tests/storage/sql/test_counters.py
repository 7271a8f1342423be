"""Tests of a counter's increase over a window with any restarts, computed from sample to sample."""

# Hypothesis keeps a test that it ran; a type in its annotations is what nanobind calls leaked.
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.sql.tables import connect, refill
from tutti.storage.write.encode import TABLES

BEGAN = datetime(2026, 11, 22, tzinfo=UTC)
PREEMPTIONS, HITS = "vllm:num_preemptions_total", "vllm:prefix_cache_hits_total"
QUERIES = "vllm:prefix_cache_queries_total"
Samples = Sequence[tuple[float, float]]
"""(second, value) of one engine's counter, in any order."""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a plain connection with the tables that the macro reads; the cell began at second 0."""
    with connect() as connection:
        connection.execute("set timezone = 'UTC'")
        call = {"cell_id": ["c"], "call_id": ["1"], "sent_at": [BEGAN]}
        refill(connection, "calls", {name: pa.array(value) for name, value in call.items()})
        yield connection


def summary(
    connection: duckdb.DuckDBPyConnection,
    series: Mapping[tuple[str, str], Samples],
    window: tuple[float, float],
) -> dict[str, Any]:
    """Return the macro's row for the samples of these (counter, engine)."""
    rows = [
        {"cell_id": "c", "engine_id": engine, "name": name, "value": value}
        | {"at": BEGAN + timedelta(seconds=second)}
        for (name, engine), samples in series.items()
        for second, value in samples
    ]
    table = pa.Table.from_pylist(rows, schema=TABLES["server_metrics"])
    refill(connection, "server_metrics", {name: table[name] for name in table.column_names})
    cursor = connection.execute("select * from window_summary('c', $1, $2)", list(window))
    names = [column[0] for column in cursor.description or []]
    (row,) = cursor.fetchall()
    return dict(zip(names, row, strict=True))


def increase(samples: Samples, start: float, end: float) -> float:
    """Return the increase by the rule, one sample after the other."""
    known = [(second, value) for second, value in sorted(samples) if second < end]
    before = [sample for sample in known if sample[0] <= start]
    counted = before[-1:] + [sample for sample in known if sample[0] > start]
    steps = pairwise(value for _, value in counted)
    return sum(value - last if value >= last else value for last, value in steps)


@st.composite
def restarting(draw: st.DrawFn) -> Samples:
    """Draw a counter that rises by any steps and restarts several times, with samples in any
    order."""
    total, samples = draw(st.integers(0, 50)), []
    for second in sorted(draw(st.sets(st.integers(0, 60), max_size=20))):
        restarts = draw(st.integers(0, 3)) == 0
        total = draw(st.integers(0, 9)) if restarts else total + draw(st.integers(0, 9))
        samples.append((float(second), float(total)))
    return draw(st.permutations(samples))


@given(
    st.dictionaries(st.sampled_from(["e1", "e2", "e3"]), restarting(), min_size=1),
    st.integers(-3, 40),
    st.integers(1, 40),
)
def test_it_is_the_sum_over_consecutive_samples(
    connection: duckdb.DuckDBPyConnection,
    engines: dict[str, Samples],
    start: int,
    seconds: int,
) -> None:
    """This holds for any restarts before, in and after the window; engines are summed."""
    end = start + seconds
    series = {(PREEMPTIONS, engine): samples for engine, samples in engines.items()}
    found = summary(connection, series, (start, end))["preemptions_per_s"]
    known = [s for samples in engines.values() for s in samples if s[0] < end]
    if not known:
        assert found is None, "nobody looked"
    else:
        expected = sum(increase(samples, start, end) for samples in engines.values())
        assert found * seconds == pytest.approx(expected)


def test_an_engine_that_restarts_twice_loses_nothing(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """From 100, it rises by 50, then 30 after one restart and 40 after another. The ends alone give
    40."""
    seconds, values = (0.0, 10.0, 20.0, 30.0, 40.0), (100.0, 150.0, 30.0, 5.0, 40.0)
    series = {
        (PREEMPTIONS, "e"): list(zip(seconds, values, strict=True)),
        (HITS, "e"): list(zip(seconds, values, strict=True)),
        (QUERIES, "e"): [
            (second, 2 * value) for second, value in zip(seconds, values, strict=True)
        ],
    }
    row = summary(connection, series, (0, 60))
    assert row["preemptions_per_s"] * 60 == pytest.approx(50 + 30 + 5 + 35)
    assert row["server_hit_ratio"] == pytest.approx(0.5)
