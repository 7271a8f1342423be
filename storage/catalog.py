"""The catalog: what exists and in what state. SQLAlchemy Core; SQLite (WAL) unless a URL is given.

The catalog is the truth about runs, cells, samples, attempts, parts and artifacts. Big rows live
in Parquet parts; a part exists for readers only once its row is here.
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from storage.errors import StoreBusy, StoreError, StoreFull
from storage.home import Home, current_home

BUSY_TIMEOUT_S = 30  # several processes commit at once; each commit takes milliseconds

metadata = sa.MetaData()


def _text(name: str, **options: Any) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, **options)


def _time(name: str) -> "sa.Column[datetime]":
    return sa.Column(name, sa.DateTime(timezone=True))


parts = sa.Table(
    "parts",
    metadata,
    _text("part_id", primary_key=True),
    _text("table_name", nullable=False, index=True),
    _text("path", nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    _text("sha256", nullable=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    _time("created_at"),
)
artifacts = sa.Table(
    "artifacts",
    metadata,
    _text("artifact_id", primary_key=True),
    _text("kind", nullable=False, index=True),
    _text("path"),
    _text("detail", nullable=False),
    _time("created_at"),
)
artifact_parents = sa.Table(
    "artifact_parents",
    metadata,
    _text("artifact_id", primary_key=True),
    _text("parent_id", primary_key=True),
)
runs = sa.Table(
    "runs",
    metadata,
    _text("run_id", primary_key=True),
    _text("flow", nullable=False),
    _text("params", nullable=False),
    _text("machine", nullable=False),
    _text("code_version", nullable=False),
    _text("status", nullable=False),
    _text("error"),
    _time("started_at"),
    _time("ended_at"),
)
sweeps = sa.Table(
    "sweeps",
    metadata,
    _text("sweep_id", primary_key=True),
    _text("name", nullable=False),
    _text("spec", nullable=False),
    _time("created_at"),
)
cells = sa.Table(
    "cells",
    metadata,
    _text("cell_id", primary_key=True),
    _text("sweep_id", nullable=False, index=True),
    _text("benchmark", nullable=False),
    _text("model", nullable=False),
    _text("policy", nullable=False),
    sa.Column("concurrency", sa.Integer, nullable=False),
    sa.Column("repeat", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    _text("task_set_id", nullable=False),
    _text("index_id", nullable=False),
    _text("engine_id"),
    sa.Column("samples", sa.Integer, nullable=False),
    _text("status", nullable=False),
    _text("reason"),
    _time("started_at"),
    _time("ended_at"),
)
attempt_states = sa.Table(
    "attempt_states",
    metadata,
    _text("attempt_id", primary_key=True),
    _text("cell_id", nullable=False, index=True),
    _text("sample_id", nullable=False, index=True),
    _text("task_id", nullable=False),
    sa.Column("trial", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    _text("run_id", nullable=False),
    _text("state", nullable=False),
    _text("status"),
    _time("started_at"),
    sa.UniqueConstraint("sample_id", "attempt"),
)
processes = sa.Table(
    "processes",
    metadata,
    sa.Column("pid", sa.Integer, primary_key=True),
    sa.Column("start_ticks", sa.BigInteger, primary_key=True),
    _text("role", nullable=False),
    _text("detail", nullable=False),
    _time("started_at"),
)


def now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


class Catalog:
    """One store's catalog. Use `transaction()` for everything that changes it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.engine = _engine(home)
        with store_boundary(home):
            known = set(sa.inspect(self.engine).get_table_names())
        if not known.issuperset(metadata.tables):
            # Under the write lock, for several may open a new store at once; readers of a store
            # that is complete take no lock.
            with self.transaction() as connection:
                metadata.create_all(connection)

    def close(self) -> None:
        """Close pooled connections."""
        self.engine.dispose()

    def __enter__(self) -> "Catalog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """One transaction; all of it is committed or nothing is.

        Raises StoreFull, StoreBusy or StoreError with what to do.
        """
        with store_boundary(self.home), self.engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                # Asking for the write lock first makes writers wait their turn; a deferred
                # transaction that turns into a writer can fail at once instead.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def rows(self, query: "sa.Select[Any]") -> list[dict[str, Any]]:
        """The rows of a select, as dictionaries."""
        with store_boundary(self.home), self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def upsert(self, table: sa.Table, row: dict[str, Any]) -> None:
        """Insert `row`, or replace the row with its primary key."""
        with self.transaction() as connection:
            upsert(connection, table, row)

    def enter_artifact(
        self,
        artifact_id: str,
        detail: dict[str, Any],
        parents: Iterable[str] = (),
        path: Path | None = None,
    ) -> None:
        """Enter an artifact with its parents. Entering the same one again changes nothing."""
        row = {
            "artifact_id": artifact_id,
            "kind": artifact_id.split(":", 1)[0],
            "path": None if path is None else str(path.relative_to(self.home.root)),
            "detail": json.dumps(detail, sort_keys=True),
            "created_at": now(),
        }
        with self.transaction() as connection:
            insert_if_absent(connection, artifacts, row)
            for parent in set(parents):
                pair = {"artifact_id": artifact_id, "parent_id": parent}
                insert_if_absent(connection, artifact_parents, pair)

    def artifact(self, artifact_id: str) -> dict[str, Any] | None:
        """The artifact's row, `detail` decoded and `path` absolute; None if it is not entered."""
        found = self.rows(sa.select(artifacts).where(artifacts.c.artifact_id == artifact_id))
        if not found:
            return None
        row = found[0]
        path = None if row["path"] is None else self.home.root / row["path"]
        return row | {"detail": json.loads(row["detail"]), "path": path}

    def parents(self, artifact_id: str) -> list[str]:
        """Ids this artifact was made from."""
        column = artifact_parents.c.parent_id
        query = sa.select(column).where(artifact_parents.c.artifact_id == artifact_id)
        return sorted(row["parent_id"] for row in self.rows(query))

    def children(self, artifact_id: str) -> list[str]:
        """Ids made from this artifact."""
        column = artifact_parents.c.artifact_id
        query = sa.select(column).where(artifact_parents.c.parent_id == artifact_id)
        return sorted(row["artifact_id"] for row in self.rows(query))


def open_catalog(home: Home | None = None) -> Catalog:
    """Open (and make, the first time) the catalog of `home`, by default TUTTI_HOME's."""
    home = home or current_home()
    with store_boundary(home):
        home.root.mkdir(parents=True, exist_ok=True)
    return Catalog(home)


def upsert(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    """Insert `row`, or replace the row with its primary key (SQLite and PostgreSQL)."""
    keys = [column.name for column in table.primary_key]
    others = {name: value for name, value in row.items() if name not in keys}
    statement = _insert(connection, table, row)
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=others))


def insert_if_absent(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    """Insert `row`; where its primary key is there already nothing changes."""
    connection.execute(_insert(connection, table, row).on_conflict_do_nothing())


def _insert(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> Any:
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table).values(row)


@contextmanager
def store_boundary(home: Home) -> Iterator[None]:
    """Turn errors of the disk and the database into store errors that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(_full(home)) from error
        raise StoreError(f"{home.root}: {error}") from error
    except RuntimeError as error:
        if os.strerror(errno.ENOSPC) not in str(error) or isinstance(error, StoreError):
            raise
        raise StoreFull(_full(home)) from error  # FAISS reports the system's words, not its number
    except sa.exc.DatabaseError as error:
        if isinstance(error, sa.exc.IntegrityError | sa.exc.ProgrammingError | sa.exc.DataError):
            raise  # a fault of ours, not of the disk or the server
        reason = str(error.orig)
        if "full" in reason:
            raise StoreFull(_full(home)) from error
        if "locked" in reason:
            raise StoreBusy(f"{home.root}: catalog locked for {BUSY_TIMEOUT_S} s") from error
        raise StoreError(f"the catalog of {home.root}: {reason}") from error


def _full(home: Home) -> str:
    return (
        f"{home.root}: no space left on the device. What was committed is safe. Free some space or "
        "set TUTTI_HOME to another disk, then run the same command again."
    )


def _engine(home: Home) -> sa.Engine:
    given = os.environ.get("TUTTI_CATALOG_URL")
    if given:
        return sa.create_engine(given)
    # Built, not written: a folder's name may hold what means something in a URL.
    url = sa.URL.create("sqlite", database=str(home.catalog_file))
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # no implicit BEGIN: `transaction` sends its own
        # Full sync: a committed attempt must survive a power cut, and commits are batched anyway.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    return engine
