"""Figures over time stay few however large the sweep is, and shade the window."""

from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.reporting.figures import timelines
from tutti.tasks.reporting.figures.drawing import TINT, svg
from tutti.tasks.reporting.figures.plots import first_repeats, spread_out
from tutti.tasks.reporting.figures.timelines import timeline_plots
from tutti.tasks.sweeps.results.summary import cells_of
from tutti.tasks.sweeps.results.tables import focus

Connect = Callable[..., DuckDBPyConnection]


@given(st.lists(st.integers(1, 1000), unique=True).map(sorted), st.integers(2, 6))
def test_loads_are_spread_out(loads: list[int], most: int) -> None:
    """The lowest and the highest stay, nothing twice, in order, never more than asked for."""
    kept = spread_out(loads, most)
    assert len(kept) == min(most, len(loads)) == len(set(kept))
    assert kept == sorted(kept) and set(kept) <= set(loads)
    assert not loads or (kept[0], kept[-1]) == (loads[0], loads[-1])


def test_the_window_is_shaded_and_its_phases_named(connection: DuckDBPyConnection) -> None:
    with focus(connection, ["load"]) as focused:
        plots = timeline_plots(focused, cells_of(focused, "load"))
    assert [plot.name for plot in plots] == ["timeline-2", "timeline-8"]
    drawn = [svg(plot) for plot in plots]
    assert all(TINT in text and ">steady<" in text for text in drawn)
    assert ">drain<" in drawn[1]
    assert "Shaded:" in plots[0].caption and "Shaded:" not in plots[1].caption  # said once


def test_a_cell_without_a_steady_window_says_so(connect_to: Connect) -> None:
    with focus(connect_to({}), ["s"]) as focused:
        (plot,) = timeline_plots(focused, cells_of(focused, "s"))
    text = svg(plot)
    assert ">whole cell, not steady<" in text and ">steady<" not in text


def test_many_cells_make_few_panels(
    connect_to: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(timelines, "MOST_LOADS", 2)
    monkeypatch.setattr(timelines, "MOST_PANELS", 1)
    monkeypatch.setattr(timelines, "PANELS_A_ROW", 1)
    cells = [
        {"policy": policy, "concurrency": load} for policy in ("cap", "x") for load in (2, 3, 4)
    ]
    with focus(connect_to(*cells), ["s"]) as focused:
        found = cells_of(focused, "s")
        plots = timeline_plots(focused, found)
    assert [plot.name for plot in plots] == ["timeline-2", "timeline-4"]
    assert first_repeats(found) == found
