"""Reading: a DuckDB connection with every table as a view, and the contract's macros.

In: a store. Out: SQL. Only parts that are entered in the catalog are visible, so a reader never
sees an incomplete file. A connection keeps the parts that it saw when it was opened, also while
other processes write and compact.

`query` runs in one DuckDB instance of the process, in a database of its own: starting an instance
and defining the tables and macros takes 0.15 s of CPU, copying a database that has them 5 ms.

``python -m tutti.storage.read.views`` prints the page ``docs/tables.md``.
"""

import atexit
import itertools
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import duckdb
import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.base.columns import (
    AT,
    COLUMNS,
    INT,
    OLDEST_READ,
    PARTITION,
    REAL,
    SCHEMA_VERSION,
    TEXT,
)
from tutti.storage.base.errors import StoreError
from tutti.storage.base.home import Home, RemoteFiles, current_home, files_of
from tutti.storage.base.meanings import OF_TABLE, as_markdown, comments_sql
from tutti.storage.base.outcomes import COUNTED
from tutti.storage.read import readers
from tutti.storage.read.readers import check_parts

Definitions = Mapping[str, str]
"""What a database begins with: SQL by any name, run in this order, once an instance."""


class Instance:
    """A DuckDB instance whose first database, `memory`, is the template of the others."""

    def __init__(self) -> None:
        self._root = duckdb.connect()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._defined: set[str] = set()
        self._root.execute("set global timezone = 'UTC'")
        # A part is read from its file each time, as by an instance of its own.
        self._root.execute("set enable_external_file_cache = false")

    def close(self) -> None:
        """Close the connection that holds the instance; those in use hold it until they end."""
        self._root.close()

    @contextmanager
    def database(self, definitions: Definitions) -> Iterator[duckdb.DuckDBPyConnection]:
        """Provide a connection to a new copy of the first database; both are closed at the end."""
        with self._lock:
            for given in (each for each in definitions if each not in self._defined):
                self._root.execute(definitions[given])
                self._defined.add(given)
            name = f"store_{next(self._numbers)}"
            connection = self._root.cursor()
        try:
            connection.execute(
                f"attach ':memory:' as {name}; copy from database memory to {name} (schema); "
                f"use {name}"
            )
            yield connection
        finally:
            connection.close()
            with self._lock:
                self._root.execute(f"detach database if exists {name}")


_instance: Instance | None = None
_lock = threading.Lock()
_of_parents: list[Instance | None] = []


@contextmanager
def database(definitions: Definitions) -> Iterator[duckdb.DuckDBPyConnection]:
    """Provide a connection to a new database with these definitions, in this process's instance.

    An error after which DuckDB refuses all statements ends the instance: the next call starts
    another.
    """
    mine = _running()
    try:
        with mine.database(definitions) as connection:
            yield connection
    except (duckdb.FatalException, duckdb.InternalException):
        _discard(mine)
        raise


def _running() -> Instance:
    global _instance
    with _lock:
        if _instance is None:
            _instance = Instance()
        return _instance


def _discard(broken: Instance) -> None:
    global _instance
    with _lock:
        if _instance is broken:
            _instance = None
    broken.close()


def _after_fork() -> None:
    """Start a new instance in a forked process, which has none of DuckDB's threads."""
    global _instance, _lock
    _of_parents.append(_instance)  # closing it would wait for those threads
    _instance, _lock = None, threading.Lock()


def _at_exit() -> None:
    """Close the instance before Python ends: DuckDB reports longer-lived objects as leaks."""
    if _instance is not None:
        _discard(_instance)


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)


MACROS = (
    "t_975",
    "headlines",
    "counted",
    "lost_samples",
    "cells_of",
    "window_summary",
    "steady_window",
    "compare",
    "pass_at_k",
    "pass_hat_k",
    "majority_at_k",
    "avg_at_n",
    "best_of_k",
    "reference_window",
    "server_quantile",
    "cost_by_role",
    "bfcl_overall",
    "transcript",
    "prompt",
    "results",
)
"""Macros and views in SQL, in an order in which each comes after those that it needs."""
CATALOG_TABLES = (
    cat.artifacts,
    cat.artifact_parents,
    cat.runs,
    cat.sweeps,
    cat.cells,
    cat.windows,
    cat.verdicts,
)
SQL_TYPES: dict[type, str] = {
    sa.Text: TEXT,
    sa.Integer: INT,
    sa.BigInteger: INT,
    sa.Float: REAL,
    sa.DateTime: AT,
}
TABLES_SQL = "".join(
    f"create table {table.name} ("
    + ", ".join(f'"{c.name}" {SQL_TYPES[type(c.type)]}' for c in table.columns)
    + ");\n"
    for table in (cat.parts, *CATALOG_TABLES)
) + (
    "create view task_sets as select artifact_id as task_set_id, detail, created_at "
    "from artifacts where kind = 'task_set';\n"
)
Parts = dict[tuple[int, bool], list[str]]
"""The paths for DuckDB, by schema version and whether the path names a sweep."""


def connect(
    home: Home | None = None, macros: Iterable[str] = MACROS, comments: bool | None = None
) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB connection over `home` (TUTTI_HOME's store if None) in its current state.

    Every table of the contract is a view, even if it has no rows yet; the contract's `macros` are
    defined with those that they need, by default all. With `comments`, tables, views and columns
    have SQL comments; by default they do if all macros are requested. Parts entered later are not
    visible: connect again. Raises StoreError if the catalog cannot be read or is of a newer tutti,
    CatalogMissing if there are parts but no catalog, PartDamaged if a part is missing or changed.
    """
    home = home or current_home()
    connection = duckdb.connect()
    try:
        connection.execute("set timezone = 'UTC'")
        connection.execute("set parquet_metadata_cache = true")
        with cat.open_catalog(home) as catalog:
            readers.ReaderLock(home).release_with(connection)  # first: no part is moved from here
            snapshot = _snapshot(catalog)
            if isinstance(files := files_of(catalog.home), RemoteFiles):
                connection.register_filesystem(files.fs)
        connection.execute(TABLES_SQL)
        _fill(connection, snapshot)
        # It costs a fifth of each of the four hundred definitions, and finds nothing in them.
        connection.execute("pragma disable_optimizer")
        connection.execute(_views_sql(snapshot.urls))
        for macro in _with_needed(macros):
            connection.execute(macro_sql(macro))
        if macros is MACROS if comments is None else comments:
            connection.execute(_comments_sql())
        connection.execute("pragma enable_optimizer")
    except BaseException:
        connection.close()
        raise
    return connection


def query(
    sql: str, home: Home | None = None, parameters: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Run one statement on a fresh database; return its rows as dictionaries. `parameters` are the
    statement's ``$name``s. Raises like `connect`."""
    home = home or current_home()
    if isinstance(files_of(home), RemoteFiles):  # an instance knows one file system a protocol
        with closing(connect(home, macros_named(sql))) as connection:
            return _rows(connection, sql, parameters)
    with cat.open_catalog(home) as catalog, readers.ReaderLock(home):
        snapshot = _snapshot(catalog)
        return _answer(snapshot, sql, parameters)


def _answer(
    snapshot: "_Snapshot", sql: str, parameters: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    empty = {"tables": TABLES_SQL + _views_sql({name: {} for name in COLUMNS})}
    macros = {name: macro_sql(name) for name in macros_named(sql)}
    with database(empty | macros) as connection:
        _fill(connection, snapshot)
        with_parts = {name: parts for name, parts in snapshot.urls.items() if parts}
        connection.execute(_views_sql(with_parts))
        return _rows(connection, sql, parameters)


def macros_named(sql: str) -> list[str]:
    """Return the macros whose names are in the text, and those that they need. Defining all takes
    as long as the rest of `connect`. A text that asks for the list of functions needs all."""
    text = sql.lower()
    if "duckdb_functions" in text:
        return list(MACROS)
    return _with_needed([name for name in MACROS if name in text])


def _with_needed(named: Iterable[str]) -> list[str]:
    """Return these macros and those that their SQL uses, in the order of `MACROS`."""
    wanted = set(named)
    for name in reversed(MACROS):
        if name in wanted:
            wanted |= _used_by(name)
    return [name for name in MACROS if name in wanted]


@cache
def _used_by(name: str) -> frozenset[str]:
    before = MACROS[: MACROS.index(name)]  # its SQL may use a later one's name for a column
    return frozenset(before).intersection(re.findall(r"\w+", macro_sql(name)))


def _rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    cursor = connection.execute(sql, dict(parameters) if parameters else None)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@dataclass(frozen=True)
class _Snapshot:
    rows: dict[str, list[dict[str, Any]]]
    """The rows of each of the catalog's tables."""
    urls: dict[str, Parts]
    """The parts of each of the contract's tables."""


def _snapshot(catalog: cat.Catalog) -> _Snapshot:
    files = files_of(catalog.home)
    of_parts = sa.select(cat.parts).where(cat.parts.c.removed_at.is_(None))
    parts, *others = catalog.snapshot([of_parts, *map(sa.select, CATALOG_TABLES)])
    check_parts(catalog, parts)
    rows = {table.name: read for table, read in zip(CATALOG_TABLES, others, strict=True)}
    urls: dict[str, Parts] = {name: {} for name in COLUMNS}
    for part in parts:
        known = urls.get(part["table_name"])
        version = part["schema_version"]
        if known is None or not OLDEST_READ <= version <= SCHEMA_VERSION:
            older = known is not None and version < OLDEST_READ
            does = "which this one does not read" if older else "upgrade tutti"
            raise StoreError(
                f"{part['path']}: table {part['table_name']}, version {version}: "
                f"written by {'an older' if older else 'a newer'} tutti than this one; {does}"
            )
        in_path = part["sweep_id"] is not None and f"/{PARTITION}=" in part["path"]
        kind = (version, in_path)
        known.setdefault(kind, []).append(files.url(part["path"]))
    return _Snapshot(rows | {cat.parts.name: parts}, urls)


def commented() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the objects with comments: by name, ``table`` or ``view`` and the columns."""
    found = {name: ("view", tuple(columns)) for name, columns in COLUMNS.items()}
    for table in (cat.parts, *CATALOG_TABLES):
        found[table.name] = ("table", tuple(column.name for column in table.columns))
    found["task_sets"] = ("view", ("task_set_id", "detail", "created_at"))
    of_cells = ("sweep_id", "cell_id", "benchmark", "model", "policy", "concurrency", "repeat")
    found["results"] = ("view", (*of_cells, *OF_TABLE["results"]))
    found["headlines"] = ("view", ("cell_id", *OF_TABLE["headlines"]))
    found["counted"] = ("view", (*COLUMNS["attempts"], *OF_TABLE["counted"]))
    found["lost_samples"] = ("view", ("cell_id", "sample_id"))
    return found


def _views_sql(urls: Mapping[str, Parts]) -> str:
    return "".join(_view_sql(name, parts) for name, parts in urls.items())


def _view_sql(name: str, parts: Parts) -> str:
    """The SQL of a view. DuckDB opens one part per version, whose parts share their columns."""
    selects = []
    for (_, partitioned), urls in sorted(parts.items(), reverse=True):
        files = ", ".join("'" + url.replace("'", "''") + "'" for url in sorted(urls))
        hive = "hive_partitioning = false"
        if partitioned:
            hive = f"hive_partitioning = true, hive_types = {{'{PARTITION}': varchar}}"
        selects.append(f"select * from read_parquet([{files}], {hive})")
    table = ""
    if set(parts) != {(SCHEMA_VERSION, PARTITION in COLUMNS[name])}:
        # An empty table with the current columns provides those that older parts lack, and the
        # sweep where there is none.
        typed = ", ".join(f'"{column}" {kind}' for column, kind in COLUMNS[name].items())
        table = f"create table if not exists {name}_schema ({typed});\n"
        selects.insert(0, f"select * from {name}_schema")
    columns = ", ".join(f'"{column}"' for column in COLUMNS[name])
    union = " union all by name ".join(selects)
    return f"{table}create or replace view {name} as select {columns} from ({union});\n"


@cache
def _comments_sql() -> str:
    return comments_sql(commented())


@cache
def macro_sql(name: str) -> str:
    """The statement that defines a macro or view of `MACROS`."""
    text = resources.files("tutti.storage").joinpath("sql", f"{name}.sql").read_text()
    return text.replace("in COUNTED_STATUSES", f"in {COUNTED}")


def _fill(connection: duckdb.DuckDBPyConnection, snapshot: _Snapshot) -> None:
    """Insert the catalog's rows, passed as one list per column: ten thousand in 35 ms."""
    for table in (cat.parts, *CATALOG_TABLES):
        if rows := snapshot.rows[table.name]:
            lists = {
                f"c{place}": [row[c.name] for row in rows] for place, c in enumerate(table.columns)
            }
            unnested = ", ".join(f"unnest(${name})" for name in lists)
            connection.execute(f"insert into {table.name} select {unnested}", lists)


if __name__ == "__main__":
    print(as_markdown(commented()), end="")
