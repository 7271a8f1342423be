"""Tests of the results as a page in Prefect: text and a table first, and a link that works in a
browser."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from tutti.tasks.reporting import Report, build_report
from tutti.tasks.reporting.publish import page_address
from tutti.tasks.reporting.terminal import results_page

ADDRESS = "http://127.0.0.1:4201/report-1/index.html"
Connect = Callable[..., DuckDBPyConnection]


@pytest.fixture
def report(connection: DuckDBPyConnection, tmp_path: Path) -> Report:
    """Return the report of the load sweep."""
    return build_report(connection, ["load"], tmp_path, "Load", {}, files=False)


def test_link_words_and_table_come_first(report: Report) -> None:
    lines = results_page(report, ADDRESS).splitlines()
    assert lines[0].startswith(f"**[Open the report]({ADDRESS})**")
    assert f"`TUTTI_HOME/artifacts/{report.page.parent.name}/index.html`" in lines[0]
    table = next(nth for nth, line in enumerate(lines) if line.startswith("| policy |"))
    headline = next(nth for nth, line in enumerate(lines) if line.startswith("- passthrough, from"))
    assert headline < table < 10
    assert lines[table].startswith("| policy | at once | status | n | accuracy |")
    assert lines[table + 1].startswith("| --- | ---: |")
    assert "| passthrough | 2 |" in lines[table + 2] and "75.0 %" in lines[table + 2]
    assert sum(line.startswith("- passthrough, from") for line in lines) == 1, "said once"
    assert any(line.startswith("- 8 at once: cap against passthrough") for line in lines)


def test_alarms_are_shown_as_they_are(report: Report) -> None:
    shown = results_page(replace(report, alarms=["Too <few>."]), ADDRESS)
    assert "> **Too &lt;few>.**" in shown


def test_a_sweep_without_cells_has_a_page(report: Report) -> None:
    assert "No cells were measured." in results_page(replace(report, cells=[]), ADDRESS)


def test_a_page_outside_the_store_is_named_not_linked(report: Report, tmp_path: Path) -> None:
    assert page_address(report.page, tmp_path / "artifacts") is None
    shown = results_page(report, None)
    assert f"`{report.page}`" in shown and "](" not in shown and "file:" not in shown


@pytest.mark.parametrize(
    ("served", "prefect", "origin"),
    [
        ("http://127.0.0.1:5301", "http://127.0.0.1:5300/api", "http://127.0.0.1:5301"),
        (None, "http://127.0.0.1:4300/api", "http://127.0.0.1:4301"),
        (None, "http://elsewhere:4300/api", "http://127.0.0.1:4201"),
        (None, None, "http://127.0.0.1:4201"),
    ],
)
def test_the_link_is_of_make_ui(
    served: str | None, prefect: str | None, origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also holds for a run from the command line, with the server of `make ui` or its own."""
    for name, value in (("TUTTI_ARTIFACTS_URL", served), ("PREFECT_API_URL", prefect)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    page = Path("/store/artifacts/report-1/index.html")
    assert page_address(page, Path("/store/artifacts")) == f"{origin}/report-1/index.html"
