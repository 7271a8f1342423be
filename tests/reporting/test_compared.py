"""Tests of two sweeps side by side: matched points, and the text about unmatched ones."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from tests.reporting.text.test_terminal import printed
from tutti.tasks.reporting.compared import build_comparison, match
from tutti.tasks.reporting.terminal import terminal_tables
from tutti.tasks.sweeps.results import CellSummary, summarise

Connect = Callable[..., DuckDBPyConnection]


@pytest.fixture(scope="module")
def cells(connection: DuckDBPyConnection) -> list[CellSummary]:
    return summarise(connection, "load")


def test_points_are_matched_by_policy_and_load(cells: list[CellSummary]) -> None:
    pairs, unmatched = match(cells, list(reversed(cells)))
    assert [pair.where for pair in pairs] == [
        "passthrough, 2 at once",
        "passthrough, 8 at once",
        "cap, 2 at once",
        "cap, 8 at once",
    ]
    assert all(pair.cells_a == pair.cells_b for pair in pairs) and unmatched == []


def test_what_has_one_value_in_each_is_what_is_compared(cells: list[CellSummary]) -> None:
    """If two models are measured with the same settings, the model is not part of a point's
    name."""
    tuned = [replace(cell, model="tuned", cell_id=f"{cell.cell_id}-t") for cell in cells[:2]]
    pairs, unmatched = match(cells[:2], tuned)
    assert len(pairs) == 2 and unmatched == []


def test_a_point_of_one_sweep_alone_is_named(cells: list[CellSummary]) -> None:
    pairs, unmatched = match(cells, cells[:3])
    assert len(pairs) == 3
    assert unmatched == ["only A has cap, 8 at once."]


def test_the_page(connect_to: Connect, tmp_path: Path) -> None:
    slow = {"samples": 60, "correct": 40, "jitter": 0.3, "policy": "adaptive", "concurrency": 4}
    connection = connect_to(
        {**slow, "sweep_id": "a", "step_s": 2.0},
        {**slow, "sweep_id": "b", "step_s": 1.0},
        {**slow, "sweep_id": "b", "concurrency": 8},
    )
    report = build_comparison(
        connection, ("a", "b"), tmp_path, "B against A", {"B": "b"}, files=True
    )
    verdicts = {each.metric: each.verdict for each in report.compared}
    assert verdicts["seconds an attempt"] == verdicts["steps/min"] == "better"
    page = report.page.read_text()
    assert "4 at once: B against A: <strong>better</strong>." in page
    assert "only B has 8 at once." in page and "A pocket" in page
    heads = ["where", "figure", "n", "left out", "A", "B", "change"]
    points = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)
    assert points[: len(heads)] == heads  # and no `judged`, `against`, `was`
    assert {each.side for each in report.failed} == {"A", "B"}
    assert report.findings[:2] == ["A: a (model pocket).", "B: b (model pocket)."]
    assert "https://" not in page and (tmp_path / "throughput.png").exists()
    (table,) = (each for each in terminal_tables(report) if " against " in each.title)
    lines = printed(table)
    assert any("steps/min" in line and "better" in line for line in lines)
    assert max(len(line) for line in lines) <= 80


def test_what_is_missing_names_its_side(connect_to: Connect, tmp_path: Path) -> None:
    """A cell of one sweep may have the policy and the load of one of the other."""
    connection = connect_to({"sweep_id": "a"}, {"sweep_id": "b", "usd": None})
    report = build_comparison(connection, ("a", "b"), tmp_path, "t", {}, files=False)
    (gap,) = [each for each in report.gaps if "cost of an attempt unknown" in each]
    assert gap.startswith("cost of an attempt unknown, so no cost: B pocket ")
    assert "A pocket" not in gap


def test_two_sweeps_without_a_common_point(connect_to: Connect, tmp_path: Path) -> None:
    connection = connect_to(
        {"sweep_id": "a"},
        {"sweep_id": "a", "policy": "x", "concurrency": 4},
        {"sweep_id": "b", "concurrency": 9},
    )
    report = build_comparison(connection, ("a", "b"), tmp_path, "Nothing", {}, files=False)
    assert report.compared == [] and report.plots == {}
    assert "only B has cap, 9 at once." in report.gaps
