"""Ingest: attempts into the real writer and catalog, and the rates of peers on the same attempts.

Rows are the dictionaries that a sweep's runner makes; they are prepared in advance. The time
includes everything until all is committed: states entered as running, rows given to the writer,
states ended in the transaction that makes the rows visible, files and catalog synced.
"""

import gzip
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson
import sqlalchemy as sa

from bench.report import seconds_of
from bench.store.data import CELL, RUN, SWEEP, T0, Trajectory
from tutti import storage
from tutti.storage import catalog as cat

ATTEMPT = ("attempts", "messages", "scores")
WITH_CALLS = (*ATTEMPT, "calls")
AT_ONCE = 256  # attempts entered together: at such rates this many begin during one sync


def ingest(
    home: storage.Home, given: Sequence[Trajectory], tables: Sequence[str], at_once: int = AT_ONCE
) -> float:
    """Seconds to commit attempts: each put alone, as the runner does, entered `at_once`."""
    with storage.open_catalog(home) as catalog:
        before = _committed(catalog)
        began = perf_counter()
        _put_all(catalog, given, tables, at_once)
        seconds = perf_counter() - began
        new = _committed(catalog) - before
    assert new == len(given), f"{new} of {len(given)} attempts were committed"
    return seconds


def _put_all(
    catalog: storage.Catalog, given: Sequence[Trajectory], tables: Sequence[str], at_once: int
) -> None:
    with storage.BufferedWriter(catalog) as writer:
        for start in range(0, len(given), at_once):
            some = given[start : start + at_once]
            enter(catalog, some)
            for each in some:
                rows = {name: each.rows[name] for name in tables}
                writer.put(rows, ended={each.attempt_id: "ok"})


def enter(catalog: storage.Catalog, given: Sequence[Trajectory]) -> None:
    """Enter attempts as running."""
    rows = [
        {
            "attempt_id": each.attempt_id,
            "cell_id": CELL,
            "sample_id": each.sample_id,
            "task_id": each.task_id,
            "trial": 0,
            "attempt": 1,
            "run_id": RUN,
            "state": "running",
            "started_at": T0,
        }
        for each in given
    ]
    with catalog.transaction() as connection:
        connection.execute(sa.insert(cat.attempt_states), rows)


def _committed(catalog: storage.Catalog) -> int:
    """Number of attempts visible to readers."""
    parts = cat.parts.c
    mine = (parts.table_name == "attempts") & parts.removed_at.is_(None)
    return sum(row["rows"] for row in catalog.rows(sa.select(parts.rows).where(mine)))


def store_bytes(home: storage.Home, tables: Sequence[str]) -> int:
    """Bytes of the visible parts of `tables`."""
    query = sa.select(cat.parts.c.bytes).where(
        cat.parts.c.table_name.in_(tables), cat.parts.c.removed_at.is_(None)
    )
    with storage.open_catalog(home) as catalog:
        return sum(row["bytes"] for row in catalog.rows(query))


def catalog_bytes(home: storage.Home) -> int:
    """Bytes of the catalog, including its write-ahead log."""
    return sum(file.stat().st_size for file in home.root.glob("catalog.db*"))


# Peers


def write_jsonl(path: Path, given: Sequence[Trajectory], tables: Sequence[str] = ATTEMPT) -> float:
    """Seconds to write one trajectory per line, gzip -6, synced once at the end."""

    def work() -> None:
        with open(path, "wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, filename="") as stream:
                for each in given:
                    stream.write(orjson.dumps(_document(each, tables)) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    return seconds_of(work)


def write_sqlite(path: Path, given: Sequence[Trajectory], *, synced: bool) -> float:
    """Seconds to write each trajectory as a row of JSON, committed separately; WAL."""

    def work() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("pragma journal_mode=wal")
        connection.execute(f"pragma synchronous={'full' if synced else 'normal'}")
        connection.execute("create table trajectories (id text primary key, document text)")
        for each in given:
            row = (each.attempt_id, orjson.dumps(_document(each, ATTEMPT)))
            connection.execute("insert into trajectories values (?, ?)", row)
        connection.close()

    return seconds_of(work)


KEYS = ("sweep_id", "cell_id", "attempt_id")  # once a line is enough


def _document(trajectory: Trajectory, tables: Sequence[str]) -> dict[str, Any]:
    """A trajectory in a minimal form: no duplicate keys, no nulls."""
    document: dict[str, Any] = {"sweep_id": SWEEP} | trajectory.rows["attempts"][0]
    for name in tables[1:]:
        document[name] = [
            {
                key: value
                for key, value in row.items()
                if key not in KEYS and value not in (None, [])
            }
            for row in trajectory.rows[name]
        ]
    return document
