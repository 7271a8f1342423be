"""Tests that every query printed by README, the docs and the demo gives the figures of the
report."""

import re
import shlex
from dataclasses import replace
from typing import Any

import pytest

from tests.docs.test_examples import commands
from tests.reporting.conftest import LOAD, build_store
from tutti import storage
from tutti.flows.demo_plan import closing_words
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.sweeps.results import CellSummary, summarise

FIGURES = {
    "n": "n",
    "score": "accuracy",
    "score_low": "accuracy_low",
    "score_high": "accuracy_high",
    "steps_per_min": "steps_per_min",
    "p95_s": "step_latency_p95",
    "cost_usd": "cost_usd",
}


def printed() -> list[str]:
    """Return the SQL of every `tutti sql` line that a user is shown."""
    of_docs = [
        word
        for _, command in commands()
        if command.startswith("tutti sql ")
        for word in shlex.split(command, comments=True)[2:]
        if " " in word
    ]
    return [*of_docs, *re.findall(r'sql "(.*?)"', closing_words(StageLog(), 1.0), re.S)]


def cell_queries() -> list[str]:
    return sorted({sql for sql in printed() if re.search(r"\bfrom results\b", sql)})


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> storage.Home:
    """Return a store with the demo's sweep and an earlier one."""
    cells = tuple(replace(cell, sweep_id="demo") for cell in LOAD)
    return build_store(tmp_path_factory.mktemp("printed") / "store", cells)


def test_some_are_printed() -> None:
    assert len(cell_queries()) >= 4


@pytest.mark.parametrize("sql", cell_queries())
def test_a_query_of_results_agrees_with_the_report(demo: storage.Home, sql: str) -> None:
    """A row per cell is compared column by column, a row per sweep by its sums."""
    rows = storage.query(sql, demo)
    with storage.connect(demo) as connection:
        cells = summarise(connection, "demo")
    if "group by" in sql:
        assert [(row["n"], row["accuracy"]) for row in rows] == [
            (sum(cell.n for cell in cells), share(cells))
        ]
        return
    assert len(rows) == len(cells)
    for row in rows:
        _agrees(row, cells)


def share(cells: list[CellSummary]) -> float:
    return sum(cell.correct for cell in cells) / sum(cell.n for cell in cells)


def _agrees(row: dict[str, Any], cells: list[CellSummary]) -> None:
    (cell,) = (
        cell
        for cell in cells
        if (cell.policy, cell.concurrency) == (row["policy"], row["concurrency"])
    )
    checked = [name for name in row if name in FIGURES]
    assert {"n", "score"} <= set(checked)
    for name in checked:
        assert row[name] == pytest.approx(getattr(cell, FIGURES[name])), name


@pytest.mark.parametrize("sql", printed())
def test_none_averages_verdicts_by_hand(sql: str) -> None:
    """Only `results` defines what counts as wrong and which sweeps are included."""
    assert not re.search(r"avg\(\s*(a\.)?correct", sql)


def test_what_the_demo_prints_runs(demo: storage.Home) -> None:
    for sql in re.findall(r'sql "(.*?)"', closing_words(StageLog(), 1.0), re.S):
        storage.query(sql, demo)
