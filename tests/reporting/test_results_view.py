"""Tests that the view `results` equals the report's table: the same numbers, one row per cell."""

from typing import Any

import pytest
from duckdb import DuckDBPyConnection

from tests.reporting.conftest import Connect
from tutti.tasks.sweeps.results import CellSummary, summarise

EQUAL = {
    "benchmark": "benchmark",
    "model": "model",
    "policy": "policy",
    "concurrency": "concurrency",
    "repeat": "repeat",
    "status": "status",
    "n": "n",
    "tasks": "tasks",
    "correct": "correct",
    "n_infra": "n_infra",
    "steps": "steps",
    "is_steady": "steady",
}
CLOSE = {
    "score": "accuracy",
    "score_low": "accuracy_low",
    "score_high": "accuracy_high",
    "steps_per_min": "steps_per_min",
    "p50_s": "step_latency_p50",
    "p95_s": "step_latency_p95",
    "held_p95_s": "held_p95",
    "server_hit_ratio": "server_hit_ratio",
    "cost_usd": "cost_usd",
    "cost_mean_usd": "cost_mean",
    "window_start_s": "window_start_s",
    "window_end_s": "window_end_s",
}
"""Columns of `results`, and the fields of `CellSummary` that they are."""


def view(connection: DuckDBPyConnection, sweep_id: str) -> list[dict[str, Any]]:
    cursor = connection.execute("select * from results where sweep_id = $id", {"id": sweep_id})
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def agree(rows: list[dict[str, Any]], cells: list[CellSummary]) -> None:
    """Check every column against the report's figure."""
    assert [row["cell_id"] for row in rows] == [cell.cell_id for cell in cells]
    for row, cell in zip(rows, cells, strict=True):
        for column, field in EQUAL.items():
            assert row[column] == getattr(cell, field), (cell.cell_id, column)
        for column, field in CLOSE.items():
            expected = getattr(cell, field)
            close = None if expected is None else pytest.approx(expected, rel=1e-9)
            assert row[column] == close, (cell.cell_id, column)
        last = cell.trials[-1] if cell.trials else None
        assert row["trials"] == (last and last.k)
        if last is not None:
            assert row["pass_at_k"] == pytest.approx(last.pass_at_k)
            assert row["pass_hat_k"] == pytest.approx(last.pass_hat_k)


@pytest.mark.parametrize("sweep", ["load", "models"])
def test_every_column_is_the_reports(connection: DuckDBPyConnection, sweep: str) -> None:
    """The store has several sweeps; rows of other sweeps have no effect."""
    rows = view(connection, sweep)
    assert rows and {row["sweep"] for row in rows} == {sweep}
    agree(rows, summarise(connection, sweep))


def test_judges_users_and_failures(roles: DuckDBPyConnection) -> None:
    rows = view(roles, "roles")
    assert rows
    agree(rows, summarise(roles, "roles"))


@pytest.mark.parametrize(
    "cell",
    [
        {"samples": 1, "correct": 1},
        {"samples": 40, "correct": 40},
        {"samples": 40, "correct": 0, "usd": None},
        {"samples": 40, "correct": 17, "called": False},
        {"samples": 40, "correct": 17, "failed": True, "sampled": False},
        {"samples": 0, "correct": 0},
    ],
)
def test_cells_at_the_edges(connect_to: Connect, cell: dict[str, Any]) -> None:
    """The cells have one sample, all correct, all wrong, no price, no calls, no server, or nothing
    at all."""
    with connect_to(cell) as connection:
        agree(view(connection, "s"), summarise(connection, "s"))


@pytest.mark.parametrize("samples", [1, 3, 7, 40])
def test_an_interval_of_none_begins_at_exactly_0(connect_to: Connect, samples: int) -> None:
    """Three wrong answers used to give a lower bound of 4.9e-17."""
    with connect_to({"samples": samples, "correct": 0}) as connection:
        (row,) = view(connection, "s")
    assert row["score_low"] == 0.0


def test_superseded_cells_are_left_out_and_the_newest_sweep_is_told(connect_to: Connect) -> None:
    cells = ({"policy": "cap", "status": "superseded"}, {"policy": "adaptive"})
    with connect_to(*cells) as connection:
        assert [row["policy"] for row in view(connection, "s")] == ["adaptive"]
        connection.execute(
            "insert into sweeps by name select 's2' as sweep_id, 's' as name, now() as created_at"
        )
        connection.execute("update sweeps set created_at = '2020-01-01' where sweep_id = 's'")
        assert [row["is_newest"] for row in view(connection, "s")] == [False]


def test_it_is_there_in_every_connection() -> None:
    """`query` defines only the views that a statement names and their dependencies."""
    from tutti.storage import connect
    from tutti.storage.read import views

    for name in views.MACROS:
        connect(macros=[name]).close()
