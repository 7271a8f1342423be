"""The contract's tables, empty and in memory, with all their macros and views."""

import duckdb
import pyarrow as pa

from tutti.storage import COLUMNS
from tutti.storage.read import views


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection whose tables are not views of parts, so that a test can fill them."""
    connection = duckdb.connect()
    connection.execute(views.TABLES_SQL)
    for name, columns in COLUMNS.items():
        typed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        connection.execute(f"create table {name} ({typed})")
    for macro in views.MACROS:
        connection.execute(views.macro_sql(macro))
    return connection


def refill(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, pa.Array]) -> None:
    """Replace the table's rows; columns that are not given are null."""
    connection.execute(f"delete from {table}")
    if columns and len(next(iter(columns.values()))):
        connection.register("given", pa.table(columns))
        connection.execute(f"insert into {table} by name from given")
        connection.unregister("given")
