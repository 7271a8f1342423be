"""The contract's tables, empty and in memory, with all macros and views over them."""

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from tutti.storage import COLUMNS, views


def connect() -> duckdb.DuckDBPyConnection:
    """A connection whose tables are no views over parts, so that a test can fill them."""
    connection = duckdb.connect()
    connection.execute(views.TABLES_SQL)
    for name, columns in COLUMNS.items():
        typed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        connection.execute(f"create table {name} ({typed})")
    for macro in views.MACROS:
        connection.execute(views.macro_sql(macro))
    return connection


def refill(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, pa.Array]) -> None:
    """The table holds these rows and no others; columns that are not given are null."""
    connection.execute(f"delete from {table}")
    if columns and len(next(iter(columns.values()))):
        connection.register("given", pa.table(columns))
        connection.execute(f"insert into {table} by name from given")
        connection.unregister("given")


def names_of(connection: duckdb.DuckDBPyConnection, sql: str, *values: object) -> Sequence[object]:
    """The rows of one statement as dictionaries."""
    cursor = connection.execute(sql, values or None)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
