"""Readers: a DuckDB connection with every table as a view, and the contract's macros.

In: a store. Out: SQL. Only parts entered in the catalog are seen, so a reader never meets a file
that is half written.
"""

from importlib import resources
from typing import Any

import duckdb
import pyarrow as pa
import sqlalchemy as sa

from storage import catalog as cat
from storage.home import Home, current_home
from storage.schemas import TABLES

MACROS = ("window_summary", "steady_window")
CATALOG_TABLES = (cat.artifacts, cat.artifact_parents, cat.runs, cat.sweeps, cat.cells, cat.parts)
ARROW_TYPES: dict[type, pa.DataType] = {
    sa.Text: pa.string(),
    sa.Integer: pa.int64(),
    sa.BigInteger: pa.int64(),
    sa.DateTime: pa.timestamp("us", tz="UTC"),
}


def connect(home: Home | None = None) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection over `home` (TUTTI_HOME's store when None) as it stands now.

    Every table of the contract is a view, whether or not it has rows yet; the macros
    `window_summary` and `steady_window` are defined. Parts entered later are not seen: connect
    again. Raises StoreError when the catalog cannot be read.
    """
    home = home or current_home()
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    with cat.open_catalog(home) as catalog:
        paths: dict[str, list[str]] = {}
        for row in catalog.rows(sa.select(cat.parts.c.table_name, cat.parts.c.path)):
            paths.setdefault(row["table_name"], []).append(str(home.root / row["path"]))
        for table in CATALOG_TABLES:
            connection.register(table.name, _arrow_of(table, catalog.rows(sa.select(table))))
    for name, schema in TABLES.items():
        _create_view(connection, name, schema, sorted(paths.get(name, [])))
    connection.execute(
        "create view task_sets as select artifact_id as task_set_id, detail, created_at "
        "from artifacts where kind = 'task_set'"
    )
    for macro in MACROS:
        source = resources.files("storage").joinpath("sql", f"{macro}.sql").read_text()
        connection.execute(source)
    return connection


def query(sql: str, home: Home | None = None) -> list[dict[str, Any]]:
    """Run one statement on a fresh connection; returns its rows as dictionaries."""
    connection = connect(home)
    try:
        cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    finally:
        connection.close()


def _create_view(
    connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, paths: list[str]
) -> None:
    # The empty table comes first: it gives a view without parts its columns, and gives parts of an
    # older schema the columns they lack.
    connection.register(f"{name}_schema", schema.empty_table())
    sql = f"create view {name} as select * from {name}_schema"
    if paths:
        files = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
        sql += f" union all by name select * from read_parquet([{files}], union_by_name = true)"
    connection.execute(sql)


def _arrow_of(table: sa.Table, rows: list[dict[str, Any]]) -> pa.Table:
    fields = [pa.field(c.name, ARROW_TYPES[type(c.type)]) for c in table.columns]
    columns = [pa.array([row[f.name] for row in rows], type=f.type) for f in fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))
