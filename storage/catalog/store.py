"""The catalog itself: transactions, rows, artifacts. SQLite (WAL) unless a URL is given."""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.util import LRUCache

from tutti.storage.base.clock import now
from tutti.storage.base.errors import StoreError
from tutti.storage.base.home import Home, RemoteFiles, current_home, files_of
from tutti.storage.catalog import tables
from tutti.storage.catalog.boundary import (
    BUSY_TIMEOUT_S,
    holds_parts,
    refuse_empty,
    refuse_missing_file,
    store_boundary,
)
from tutti.storage.catalog.tables import artifact_parents, artifacts, cells

CREATION_LOCK = 7_011_741_441  # any number, but the same in all versions
WAL_RETRY_S = 0.01
MOST_COMPILED = 500  # statements, as SQLAlchemy keeps of each engine
POSTGRESQL_TIMEOUTS = {
    "connect_timeout": 10,
    "options": f"-c lock_timeout={BUSY_TIMEOUT_S}s -c timezone=UTC",
}


class Catalog:
    """One store's catalog. Use `transaction()` for all changes."""

    def __init__(self, home: Home) -> None:
        self.home = home
        if not os.environ.get("TUTTI_CATALOG_URL") and not home.remote:  # its own file
            refuse_missing_file(home)
        self.engine = _engine(home)
        self._sweeps: dict[str, str | None] = {}
        try:
            self._create_if_empty()
        except BaseException:
            self.close()
            raise

    def _create_if_empty(self) -> None:
        home = self.home
        with store_boundary(home), self.engine.connect() as connection:
            if tables.is_current(connection):
                return
        had_parts = holds_parts(home)
        # Under the write lock, because several processes may open a new store at once; readers of
        # a store that exists take no lock.
        with self.transaction() as connection:
            if connection.dialect.name == "postgresql":
                lock = sa.func.pg_advisory_xact_lock(CREATION_LOCK)
                connection.execute(sa.select(lock))
            if not tables.is_current(connection):
                if had_parts:
                    refuse_empty(home, connection)
                tables.create(connection)

    def close(self) -> None:
        """Close pooled connections."""
        self.engine.dispose()

    def __enter__(self) -> "Catalog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Run one transaction; all of it is committed or nothing is. Raises StoreFull, StoreBusy or
        StoreError with what to do."""
        try:
            with store_boundary(self.home), self.engine.begin() as connection:
                if connection.dialect.name == "sqlite":
                    # Taking the write lock first makes writers queue; a deferred transaction that
                    # becomes a writer can fail immediately instead.
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
        except StoreError:
            # Connections keep their state: one made while the disk was read-only stays read-only.
            self.engine.dispose()
            raise

    def rows(self, query: "sa.Select[Any]") -> list[dict[str, Any]]:
        """The rows of a select, as dictionaries."""
        with store_boundary(self.home), self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def snapshot(self, queries: "Iterable[sa.Select[Any]]") -> list[list[dict[str, Any]]]:
        """The rows of several selects at one point in time, with no commit between two of them."""
        with store_boundary(self.home), self.engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            else:
                connection.execution_options(isolation_level="REPEATABLE READ")
            return [[dict(row) for row in connection.execute(each).mappings()] for each in queries]

    def upsert(self, table: sa.Table, row: dict[str, Any]) -> None:
        """Insert `row`, or replace the row with its primary key."""
        with self.transaction() as connection:
            upsert(connection, table, row)

    def sweep_of(self, cell_id: str | None) -> str | None:
        """The sweep of a cell; None for no cell, or an unknown one."""
        if cell_id is None:
            return None
        if self._sweeps.get(cell_id) is None:
            query = sa.select(cells.c.sweep_id).where(cells.c.cell_id == cell_id)
            found = self.rows(query)
            self._sweeps[cell_id] = found[0]["sweep_id"] if found else None
        return self._sweeps[cell_id]

    def enter_artifact(
        self,
        artifact_id: str,
        detail: dict[str, Any],
        parents: Iterable[str] = (),
        path: Path | None = None,
    ) -> None:
        """Enter an artifact with its parents. Entering the same one again changes nothing. In a
        remote store the files at `path` are uploaded first."""
        files, place = files_of(self.home), None
        if path is not None:
            place = str(path.relative_to(self.home.root))
            if isinstance(files, RemoteFiles):
                with store_boundary(self.home):
                    files.upload(path, place)
        with self.transaction() as connection:
            enter_artifact(connection, artifact_id, detail, parents, place)

    def artifact(self, artifact_id: str) -> dict[str, Any] | None:
        """Return the artifact's row, with `detail` decoded and `path` absolute; None if it is not
        entered. In a remote store its files are downloaded on first use."""
        found = self.rows(sa.select(artifacts).where(artifacts.c.artifact_id == artifact_id))
        if not found:
            return None
        row = found[0]
        path = None if row["path"] is None else self.home.root / row["path"]
        files = files_of(self.home)
        if isinstance(files, RemoteFiles) and path is not None and not path.exists():
            with store_boundary(self.home):
                files.download(row["path"], path)
        return row | {"detail": json.loads(row["detail"]), "path": path}

    def parents(self, artifact_id: str) -> list[str]:
        """Ids of the artifacts that this one was made from."""
        column = artifact_parents.c.parent_id
        query = sa.select(column).where(artifact_parents.c.artifact_id == artifact_id)
        return sorted(row["parent_id"] for row in self.rows(query))

    def children(self, artifact_id: str) -> list[str]:
        """Ids of the artifacts made from this one."""
        column = artifact_parents.c.artifact_id
        query = sa.select(column).where(artifact_parents.c.parent_id == artifact_id)
        return sorted(row["artifact_id"] for row in self.rows(query))


def open_catalog(home: Home | None = None) -> Catalog:
    """Open the catalog of `home` (by default TUTTI_HOME's), creating it if necessary. Raises
    StoreError, CatalogMissing if the store has parts and no catalog."""
    home = home or current_home()
    with store_boundary(home):
        home.root.mkdir(parents=True, exist_ok=True)
    return Catalog(home)


def enter_artifact(
    connection: sa.Connection,
    artifact_id: str,
    detail: Mapping[str, Any] | str,
    parents: Iterable[str] = (),
    path: str | None = None,
) -> None:
    """Enter an artifact inside the caller's transaction; an existing one is not changed. `detail`
    may be JSON text already; `path` is relative to the store."""
    row = {
        "artifact_id": artifact_id,
        "kind": artifact_id.split(":", 1)[0],
        "path": path,
        "detail": detail if isinstance(detail, str) else json.dumps(detail, sort_keys=True),
        "created_at": now(),
    }
    insert_if_absent(connection, artifacts, row)
    for parent in sorted(set(parents)):
        pair = {"artifact_id": artifact_id, "parent_id": parent}
        insert_if_absent(connection, artifact_parents, pair)


def upsert(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    """Insert `row`, or replace the row with its primary key (SQLite and PostgreSQL)."""
    keys = [column.name for column in table.primary_key]
    others = {name: value for name, value in row.items() if name not in keys}
    statement = _insert(connection, table, row)
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=others))


def insert_new(connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert those of `rows` whose primary keys do not exist."""
    if rows:
        dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)


def insert_if_absent(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> bool:
    """Insert `row` unless its primary key exists; return whether it was inserted."""
    done = connection.execute(_insert(connection, table, row).on_conflict_do_nothing())
    return bool(done.rowcount)


IDS_AT_ONCE = 500  # bound variables of one statement; SQLite and PostgreSQL allow thousands


def any_of(column: "sa.ColumnElement[str]", ids: Sequence[str]) -> Iterator[sa.ColumnElement[bool]]:
    """Yield the conditions, one for each statement, that `column` is one of `ids`."""
    for start in range(0, len(ids), IDS_AT_ONCE):
        yield column.in_(ids[start : start + IDS_AT_ONCE])


def database_now(connection: sa.Connection) -> datetime:
    """The time by the common clock of all lease holders: the database server's, if there is one."""
    if connection.dialect.name != "postgresql":
        return now()
    found: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return found


def _insert(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> Any:
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table).values(row)


def _engine(home: Home) -> sa.Engine:
    given = os.environ.get("TUTTI_CATALOG_URL")
    if given:
        return _engine_of(given)
    if home.remote:
        raise StoreError(
            f"{home}: a remote store needs a catalog that can be locked: set TUTTI_CATALOG_URL, "
            "for example to postgresql+psycopg://user@host/tutti"
        )
    return _sqlite(home.catalog_file)


def _sqlite(file: Path) -> sa.Engine:
    """Open SQLite, read-only if its disk is at that moment; each connection decides anew."""

    def is_read_only() -> bool:
        return file.exists() and not os.access(file.parent, os.W_OK)

    def connect() -> sqlite3.Connection:
        read_only = is_read_only()
        url = f"file:{quote(str(file))}"
        if read_only:
            # If a writer left a log, the database is opened as usual; without one, the file is
            # complete, and is opened without lock files, which cannot be created on a read-only
            # disk.
            closed = not file.with_name(f"{file.name}-wal").exists()
            url += "?mode=ro" + ("&immutable=1" if closed else "")
        connection = sqlite3.connect(
            url, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None
        )
        try:
            if not read_only:
                _configure(connection, None)
        except BaseException:
            connection.close()
            raise
        return connection

    pool = sa.pool.QueuePool(connect)  # type: ignore[arg-type]  # sqlite3 is no DBAPIConnection
    engine = _with_shared_statements(pool)

    @sa.event.listens_for(engine, "checkout")
    def _renew(connection: sqlite3.Connection, record: Any, _: Any) -> None:
        read_only = is_read_only()
        if record.info.setdefault("read_only", read_only) != read_only:
            raise sa.exc.DisconnectionError  # the pool reconnects

    return engine


@cache
def _first_engine() -> sa.Engine:
    """An engine without a file: its dialect, which needs an earlier connection, and its options."""
    engine = sa.create_engine("sqlite://").execution_options(compiled_cache=LRUCache(MOST_COMPILED))
    engine.connect().close()
    engine.dispose()  # its pool keeps a connection per thread, which Python 3.13 calls unclosed
    return engine


def _with_shared_statements(pool: sa.pool.Pool) -> sa.Engine:
    """An engine on `pool` that reuses statements compiled by another catalog of this process.
    Compiling takes a millisecond per statement; a query of the store reads eight tables."""
    first = _first_engine()
    engine = sa.Engine(pool, first.dialect, first.url)
    engine.update_execution_options(**first.get_execution_options())
    return engine


def _configure(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # no implicit BEGIN: `transaction` sends its own
    _use_wal(connection)
    # Full sync: a committed attempt must survive a power cut, and commits are batched.
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _use_wal(connection: Any) -> None:
    """Switch a new catalog to WAL. While other processes open it, SQLite may refuse the switch
    immediately, so it is retried until the lock timeout has passed."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(WAL_RETRY_S)


def _engine_of(given: str | sa.URL) -> sa.Engine:
    try:
        url = sa.make_url(given)
    except sa.exc.ArgumentError:
        raise StoreError("TUTTI_CATALOG_URL is not a database URL") from None
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    name = url.get_backend_name()
    if name == "postgresql":
        try:
            return sa.create_engine(url, connect_args=POSTGRESQL_TIMEOUTS, pool_pre_ping=True)
        except ModuleNotFoundError as error:
            raise StoreError(f"TUTTI_CATALOG_URL: {error}; pip install 'tutti[postgres]'") from None
    if name != "sqlite":
        raise StoreError(f"TUTTI_CATALOG_URL: {name} is not supported; use sqlite or postgresql")
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    sa.event.listen(engine, "connect", _configure)
    return engine
