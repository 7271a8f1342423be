"""Tables as text."""

import io

from duckdb import DuckDBPyConnection
from rich.console import Console
from rich.table import Table

from tasks.reporting import family_scores, family_table, markdown_table, summarise, terminal_table


def printed(table: Table) -> list[str]:
    """The table's lines at the width of a usual terminal."""
    stream = io.StringIO()
    Console(file=stream, width=80).print(table)
    return stream.getvalue().splitlines()


def test_terminal_table(connection: DuckDBPyConnection) -> None:
    lines = printed(terminal_table(summarise(connection, "load")))
    row = next(line for line in lines if "passthrough" in line)
    assert "75.0 [60, 86]" in row
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
    assert "| 75.0 % | 59.8 to 85.8 |" in lines[2]
    models = markdown_table(summarise(connection, "models"))
    assert "| before &lt;b> |" in models


def test_no_cells() -> None:
    assert markdown_table([]) == "No cells.\n"
    assert printed(terminal_table([]))
