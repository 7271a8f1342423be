"""Tests of tables as text."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection
from rich.console import Console

from tutti.tasks.reporting import Report, family_scores, family_table
from tutti.tasks.reporting.measures.efficiency import efficiencies
from tutti.tasks.reporting.measures.failures import Failure
from tutti.tasks.reporting.measures.pairs import noise_floor
from tutti.tasks.reporting.measures.table import Table
from tutti.tasks.reporting.terminal import markdown_table, terminal_table, terminal_tables
from tutti.tasks.reporting.text.columns import efficiency
from tutti.tasks.sweeps.results import summarise
from tutti.tasks.sweeps.results.summary import cells_of
from tutti.tasks.sweeps.results.tables import focus

Connect = Callable[..., DuckDBPyConnection]


def printed(table: Table) -> list[str]:
    """Return the table's lines at the width of a usual terminal."""
    stream = io.StringIO()
    Console(file=stream, width=80).print(table)
    return stream.getvalue().splitlines()


def test_terminal_table(connection: DuckDBPyConnection) -> None:
    lines = printed(terminal_table(summarise(connection, "load")))
    row = next(line for line in lines if "passthrough" in line)
    assert "75.0 [44, 92]" in row
    assert "59.6 [" in row and "60" in row.split()
    assert "finished" not in row
    assert len([line for line in lines if "cap" in line]) == 2


def test_family_table(connection: DuckDBPyConnection) -> None:
    lines = printed(family_table(family_scores(connection, "models")))
    assert any("all families" in line and "80.0 %" in line for line in lines)
    assert any("arithmetic" in line and "before <b>" in line for line in lines)


def test_markdown_table(connection: DuckDBPyConnection) -> None:
    lines = markdown_table(summarise(connection, "load")).splitlines()
    assert len(lines) == 2 + 4
    assert lines[0].startswith("| policy | at once | status | n | accuracy |")
    assert len({line.count("|") for line in lines}) == 1
    assert "| 75.0 % | 44.2 to 91.9 |" in lines[2]
    models = markdown_table(summarise(connection, "models"))
    assert "| before &lt;b> |" in models


def test_failures_fit_a_terminal() -> None:
    """A long message is wrapped; the other columns stay whole."""
    message = 'HTTP 500: {"error": "out of memory while allocating blocks for the request"}'
    void = Failure("infra_error", "ModelCallFailed", "http_500", message, 54, 9, ())
    wrong = Failure("ok", "answered", "wrong answer", None, 2, 1, ())
    lines = printed(terminal_tables(Report(Path("x"), failed=[void, wrong]))[-1])
    assert max(map(len, lines)) <= 80
    assert any("infra_error" in line and "ModelCallFailed" in line for line in lines)
    assert "side" not in "".join(lines) and any("request" in line for line in lines)


def test_a_front_of_all_is_left_out(connect_to: Connect) -> None:
    """Such a front is left out of the terminal's table and of the page's."""
    with focus(connect_to({"sweep_id": "s"}), ["s"]) as focused:
        found = efficiencies(focused, cells_of(focused, "s"))
    assert len({each.standing for each in found}) == 1
    assert "front" not in efficiency(found).texts
    assert "front" in efficiency([*found, replace(found[0], standing="off")]).texts


def test_no_cells() -> None:
    assert markdown_table([]) == "No cells were measured.\n"
    assert printed(terminal_table([]))


def test_tables_of_capacity_fit_a_terminal(connect_to: Connect) -> None:
    """With all columns present, the least important ones are dropped and nothing is truncated."""
    full: dict[str, Any] = {
        "samples": 40,
        "correct": 31,
        "step_s": 2.0,
        "watts": 300.0,
        "lag_s": 0.07,
    }
    full |= {"late_s": 1.0, "policy": "passthrough", "concurrency": 16}
    early = full | {"policy": "adaptive", "status": "ended_early", "failed": True}
    connection = connect_to(full, early, full | {"repeat": -1})
    with focus(connection, ["s"]) as focused:
        cells = cells_of(focused, "s")
        worth = efficiencies(focused, cells)
    report = Report(Path("x"), cells=cells, worth=worth, noise=noise_floor(cells))
    tables = [terminal_table(cells), *(each for each in terminal_tables(report) if each.lines)]
    assert len(tables) == 5
    for table in tables:
        lines = printed(table)
        assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    assert any("early" in line and "slow" in line for line in printed(tables[0]))
    assert any("A/A" in line and "70.0" in line for line in printed(tables[2]))
