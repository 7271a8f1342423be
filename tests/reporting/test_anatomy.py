"""Tests of the parts of a step's time, against the round numbers of the sweep of roles."""

from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from tests.reporting.role_rows import POLICIES
from tutti.tasks.reporting import build_report
from tutti.tasks.reporting.measures.anatomy import PARTS, UNSPLIT, Anatomy, anatomies
from tutti.tasks.sweeps.results.summary import cells_of
from tutti.tasks.sweeps.results.tables import focus

Connect = Callable[..., DuckDBPyConnection]


def taken_apart(connection: DuckDBPyConnection, sweep: str) -> list[Anatomy]:
    """Return the cells' time anatomies."""
    with focus(connection, [sweep]) as focused:
        return anatomies(focused, cells_of(focused, sweep))


def test_parts_of_a_step(roles: DuckDBPyConnection) -> None:
    """Held, prefill and decode come from the call; the tool's time excludes its waits."""
    found = taken_apart(roles, "roles")
    assert [each.cell.policy for each in found] == list(POLICIES)
    seconds = found[0].seconds
    assert list(seconds) == list(PARTS)
    steps = found[0].cell.steps
    assert seconds["held"] == pytest.approx(0.5, rel=0.05)
    assert seconds["prefill"] == pytest.approx(0.25, rel=0.05)
    assert seconds["decode"] == pytest.approx(1.25, rel=0.05)
    assert seconds[UNSPLIT] == 0
    assert seconds["tool"] == pytest.approx(0.5)  # 2 s less 0.5 s retrieval and 1 s expert
    assert seconds["retrieval"] == pytest.approx(0.5)
    assert seconds["expert"] == pytest.approx(1.0, rel=0.05)
    # Two thinks and one judgement to three steps; the window's ends cut through an attempt.
    assert seconds["user"] == pytest.approx(2 / 3, abs=3 / steps)
    assert seconds["judge"] == pytest.approx(1.0, abs=9 / steps)
    assert found[0].total == pytest.approx(sum(seconds.values()))


def test_calls_without_a_first_token_are_not_split_without_the_engine(
    connect_to: Connect,
) -> None:
    (found,) = taken_apart(connect_to({"samples": 12}), "s")
    assert found.seconds[UNSPLIT] > 0
    assert found.seconds["prefill"] == found.seconds["decode"] == 0


def test_no_steps_no_anatomy(connect_to: Connect) -> None:
    assert taken_apart(connect_to({"called": False}), "s") == []


def test_the_page_has_a_column_for_each_part(roles: DuckDBPyConnection, tmp_path: Path) -> None:
    page = build_report(roles, ["roles"], tmp_path, "Roles", {}, files=False).page.read_text()
    for part in PARTS:
        assert (f">{part}</th>" in page) == (part != UNSPLIT), part
