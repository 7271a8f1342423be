"""Tests of figures over time: their number is limited for any sweep size, and they shade the
window."""

from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from tutti.tasks.reporting.figures import timelines
from tutti.tasks.reporting.figures.drawing import TINT, svg
from tutti.tasks.reporting.figures.plots import first_repeats
from tutti.tasks.reporting.figures.timelines import timeline_plots
from tutti.tasks.sweeps.results.summary import cells_of
from tutti.tasks.sweeps.results.tables import focus

Connect = Callable[..., DuckDBPyConnection]


def test_the_window_is_shaded(connection: DuckDBPyConnection) -> None:
    with focus(connection, ["load"]) as focused:
        plots = timeline_plots(focused, cells_of(focused, "load"))
    assert [plot.name for plot in plots] == ["timeline-2", "timeline-8"]
    assert all(TINT in svg(plot) and "Shaded:" in plot.caption for plot in plots)


def test_many_cells_make_few_panels(
    connect_to: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(timelines, "MOST_PANELS", 1)
    cells = [
        {"policy": policy, "concurrency": load} for policy in ("cap", "x") for load in (2, 3, 4, 5)
    ]
    with focus(connect_to(*cells), ["s"]) as focused:
        found = cells_of(focused, "s")
        plots = timeline_plots(focused, found)
    assert [plot.name for plot in plots] == ["timeline-2", "timeline-4", "timeline-5"]
    assert first_repeats(found) == found
