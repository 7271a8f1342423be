"""Tests of the alarms in red at the head of a report."""

import io
from collections.abc import Callable
from pathlib import Path

from duckdb import DuckDBPyConnection
from rich.console import Console

from tutti.tasks.reporting import build_report
from tutti.tasks.reporting.terminal import terminal_summary

Connect = Callable[..., DuckDBPyConnection]


def test_a_sweep_without_walls_says_so_in_red(connect_to: Connect, tmp_path: Path) -> None:
    """The alarm is on the page, in the terminal and in JSON, with the cells it applies to."""
    connection = connect_to(
        {"policy": "cap", "sandbox": "limits"}, {"policy": "adaptive", "sandbox": "namespaces"}
    )
    report = build_report(connection, ["s"], tmp_path / "out", "A", {}, files=False)
    (alarm,) = report.alarms
    assert alarm.startswith("Unsafe sandbox: ") and "cap" in alarm and "adaptive" not in alarm
    assert '<p class="alarm" role="alert">Unsafe sandbox: ' in report.page.read_text()
    shown = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=80)
    terminal_summary(report, shown)
    told = shown.file.getvalue()  # type: ignore[attr-defined]
    assert told.startswith("\x1b[1;31mUnsafe sandbox")


def test_with_walls_there_is_no_alarm(connect_to: Connect, tmp_path: Path) -> None:
    """Older stores, in which this is unknown, have no alarm either."""
    connection = connect_to({"sandbox": "bubblewrap"}, {"policy": "adaptive", "sandbox": None})
    report = build_report(connection, ["s"], tmp_path / "out", "A", {}, files=False)
    assert report.alarms == [] and 'class="alarm"' not in report.page.read_text()
