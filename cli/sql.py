"""Print the rows of a SQL statement as a table, CSV or JSON."""

import csv
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from storage import connect

NUMBERS = int | float


def run_sql(statement: str, output: str) -> None:
    """Run one statement over the store and print its rows. Raises duckdb.Error, StoreError."""
    connection = connect()
    try:
        cursor = connection.execute(statement)
        names = [column[0] for column in cursor.description or []]
        rows = cursor.fetchall()
    finally:
        connection.close()
    {"table": _table, "csv": _csv, "json": _json}[output](names, rows)


def _table(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    table = Table()
    for place, name in enumerate(names):
        numeric = bool(rows) and all(isinstance(row[place], NUMBERS | None) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console = Console()
    console.print(table)
    console.print(f"[dim]{len(rows)} row{'s' * (len(rows) != 1)}[/]")


def _cell(value: Any) -> str:
    from rich.markup import escape

    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def _csv(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)


def _json(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    records = [dict(zip(names, row, strict=True)) for row in rows]
    print(json.dumps(records, default=str, ensure_ascii=False))
