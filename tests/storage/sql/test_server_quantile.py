"""Tests that `server_quantile` of a histogram's bucket deltas agrees with numpy for the
observations."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pytest

from tutti import storage

TTFT = "vllm:time_to_first_token_seconds"
ITL = "vllm:inter_token_latency_seconds"
EDGES = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10)
BEGAN = datetime(2026, 11, 21, tzinfo=UTC)
SECONDS = 40
CELLS = {"cell:a": 0.05, "cell:b": 0.4, "cell:c": 2.0}
"""Cells and the mean of what was observed in them."""
Observed = dict[tuple[str, str], list[np.ndarray[Any, np.dtype[np.float64]]]]
"""By cell and metric: the observations of each second."""


def label(edge: float) -> str:
    """Return an edge as Prometheus' client writes it."""
    return "+Inf" if np.isinf(edge) else repr(float(edge))


def deltas(
    cell: str, metric: str, second: int, observed: Any, engine: str = "e"
) -> list[dict[str, Any]]:
    """Return the rows of one sample, as the gateway's sampler gives them: the first has all
    edges."""
    row = {"cell_id": cell, "engine_id": engine, "at": BEGAN + timedelta(seconds=second)}
    places = np.searchsorted(EDGES, np.asarray(observed, float), side="left")  # le: up to and with
    counts = np.bincount(places, minlength=len(EDGES) + 1)
    return [
        row | {"name": f'{metric}_bucket{{le="{label(edge)}"}}', "value": float(count)}
        for edge, count in zip((*EDGES, np.inf), counts, strict=True)
        if count or second == 0
    ]


@pytest.fixture(scope="module")
def observed() -> Observed:
    """Return two metrics of three cells, without observations in the first second, which is the
    baseline."""
    rng = np.random.default_rng(7)
    return {
        (cell, metric): [
            rng.exponential(mean * scale, 0 if second == 0 else 30) for second in range(SECONDS)
        ]
        for cell, mean in CELLS.items()
        for metric, scale in ((TTFT, 1), (ITL, 0.1))
    }


@pytest.fixture(scope="module")
def connection(
    tmp_path_factory: pytest.TempPathFactory, observed: Observed
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a store with those histograms, two engines in the last cell, and cells without any."""
    home = storage.Home(tmp_path_factory.mktemp("histograms"))
    rows: dict[str, list[dict[str, Any]]] = {"calls": [], "server_metrics": []}
    for cell in (*CELLS, "cell:quiet"):
        rows["calls"].append({"cell_id": cell, "call_id": cell, "sent_at": BEGAN})
    for (cell, metric), seconds in observed.items():
        for second, values in enumerate(seconds):
            halves = [("e", values)]
            if cell == "cell:c":
                halves = [("e", values[::2]), ("f", values[1::2])]
            for engine, half in halves:
                rows["server_metrics"] += deltas(cell, metric, second, half, engine)
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, rows)
    with storage.connect(home) as connection:
        yield connection


def quantile(connection: duckdb.DuckDBPyConnection, *given: Any) -> dict[str, Any]:
    """Return the macro's one row."""
    cursor = connection.execute("select * from server_quantile($1, $2, $3, $4, $5)", list(given))
    names = [column[0] for column in cursor.description or []]
    (row,) = cursor.fetchall()
    return dict(zip(names, row, strict=True))


@pytest.mark.parametrize("window", [(0, 39), (3, 4), (10, 30.5), (38, 1000)])
@pytest.mark.parametrize("q", [0.0, 0.05, 0.5, 0.95, 0.99, 1.0])
@pytest.mark.parametrize(("cell", "metric"), [(c, m) for c in CELLS for m in (TTFT, ITL)])
def test_it_lies_within_a_bucket_of_the_observations(
    connection: duckdb.DuckDBPyConnection,
    observed: Observed,
    cell: str,
    metric: str,
    q: float,
    window: tuple[float, float],
) -> None:
    """This holds for any window and cell; numpy's inverted_cdf gives the observation of the same
    rank."""
    start, end = window
    seconds = observed[cell, metric]
    inside = np.concatenate([v for second, v in enumerate(seconds) if start < second <= end])
    row = quantile(connection, cell, metric, q, start, end)
    truth = float(np.quantile(inside, q, method="inverted_cdf"))
    lower = max(edge for edge in (0.0, *EDGES) if edge < truth)
    upper = min((edge for edge in EDGES if edge >= truth), default=float("inf"))
    assert row["n"] == len(inside)
    assert (row["lower"], row["upper"]) == (lower, upper)
    assert lower <= row["value"] <= upper


def test_windows_that_touch_share_nothing_and_lose_nothing(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """A sample at the boundary belongs to the time before it."""
    edges = (0, 7, 20, 20.5, 39)
    parts = [quantile(connection, "cell:a", TTFT, 0.5, *edge)["n"] for edge in pairwise(edges)]
    assert parts == [7 * 30, 13 * 30, 0, 19 * 30]


def test_the_value_is_spread_evenly_within_the_bucket(
    connection: duckdb.DuckDBPyConnection, observed: Observed
) -> None:
    """The rule is that of Prometheus' histogram_quantile."""
    inside = np.concatenate(observed["cell:b", TTFT][1:])
    edges = np.array([0.0, *EDGES])
    cumulative = np.searchsorted(np.sort(inside), edges, side="right")
    for q in (0.1, 0.5, 0.77, 0.9):
        row = quantile(connection, "cell:b", TTFT, q, 0, 100)
        expected = float(np.interp(q * len(inside), cumulative, edges))
        assert row["value"] == pytest.approx(expected, rel=1e-9)


def test_many_cells_metrics_quantiles_and_windows_at_once(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Used laterally over all its arguments, the macro gives the same results as for each alone."""
    asked = (
        "(values ('cell:a'), ('cell:b'), ('cell:c'), ('cell:quiet'), ('none')) c(cell), "
        f"(values ('{TTFT}'), ('{ITL}'), ('other')) m(metric), (values (0.5), (0.9)) r(q), "
        "(values (0, 5), (5, 30)) w(a, b)"
    )
    sql = "select cell, metric, q, a, b, s.* from "
    lateral = f"{sql} {asked}, server_quantile(cell, metric, q, a, b) s"
    rows = connection.execute(lateral).fetchall()
    assert len(rows) == 5 * 3 * 2 * 2
    for *given, value, n, lower, upper in rows:
        alone = quantile(connection, *given)
        assert alone == {"value": value, "n": n, "lower": lower, "upper": upper}, given


def test_nothing_observed_is_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    """A missing cell, no histogram, an empty window and an invalid quantile give null, never 0."""
    nothing = {"value": None, "n": 0, "lower": None, "upper": None}
    assert quantile(connection, "none", TTFT, 0.5, 0, 9) == nothing | {"n": None}
    assert quantile(connection, "cell:quiet", TTFT, 0.5, 0, 9) == nothing
    assert quantile(connection, "cell:a", "vllm:time_to_first", 0.5, 0, 9) == nothing
    assert quantile(connection, "cell:a", TTFT, 0.5, 5.1, 5.9) == nothing
    for q in (-0.1, 1.1, None):
        assert quantile(connection, "cell:a", TTFT, q, 0, 9)["value"] is None


def test_of_a_bucket_without_an_end_the_value_is_where_it_begins(
    catalog: storage.Catalog,
) -> None:
    """The value is the bucket's lower edge, and `upper` is infinity; a histogram with that bucket
    alone gives null."""
    rows = deltas("c", TTFT, 0, []) + deltas("c", TTFT, 1, [0.02] + [99.0] * 9)
    rows.append(rows[-1] | {"name": 'x:only_bucket{le="+Inf"}'})
    call = {"cell_id": "c", "call_id": "1", "sent_at": BEGAN}
    storage.commit(catalog, {"server_metrics": rows, "calls": [call]})
    with storage.connect(catalog.home) as connection:
        row = quantile(connection, "c", TTFT, 0.9, 0, 9)
        assert row == {"value": 10.0, "n": 10, "lower": 10.0, "upper": float("inf")}
        assert quantile(connection, "c", TTFT, 0.1, 0, 9)["value"] == 0.02
        row = quantile(connection, "c", "x:only", 0.5, 0, 9)
        assert (row["value"], row["n"]) == (None, 9)
