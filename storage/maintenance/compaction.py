"""Merging of small parts, sorted, into the current schema, and deletion of unread files.

One compactor works at a time, under a lease. A merged part replaces its sources in one transaction,
which fails unless every source still exists: rows are never duplicated, whenever a process is
killed. `set_tasks` replaces parts in the same way.
"""

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.base.columns import PARTITION, SCHEMA_VERSION, SORTED_BY
from tutti.storage.base.errors import PartDamaged, StoreError
from tutti.storage.base.home import Home, LocalFiles, files_of
from tutti.storage.catalog.leasing import Lease, check_lease, held
from tutti.storage.read.readers import MEND, REPLACED_FOLDER, read_whole, without_readers
from tutti.storage.write.encode import TABLES
from tutti.storage.write.writer import rows_by_sweep, settle, write_part

TARGET_BYTES = 64 * 2**20  # size of a merged part: a few row groups per core, a second to write
MERGE_BYTES = 512 * 2**20  # Arrow memory of one merge
READERS_WAIT_S = 5.0  # for open readers to end, before replaced parts stay for the next compaction
GRACE_S = 3600.0  # the longest time that a reader is expected to keep a connection open
# Entries outlive their files: a writer that lost its connection may still ask whether its parts
# were entered.
REMEMBERED = timedelta(days=7)
NAME = "compact"
REPLACED = ("compacted", "retention")
"""Why a part was removed whose file waits for its grace to end."""

Part = dict[str, Any]


@dataclass
class CompactionReport:
    """Counts of one compaction."""

    sources: int = 0
    merged: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    files_removed: int = 0
    files_waiting: int = 0
    """Replaced files still in ``tables/``, because a reader is open."""


def compact(
    catalog: cat.Catalog,
    *,
    target_bytes: int = TARGET_BYTES,
    grace_s: float = GRACE_S,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> CompactionReport:
    """Merge parts smaller than `target_bytes` and rewrite those of older schemas.

    Files replaced more than `grace_s` seconds ago are removed. `on_progress` is called with the
    parts checked and their total. Raises StoreBusy if another process compacts, PartDamaged for a
    damaged part, LeaseLost; earlier merges remain.
    """
    report = CompactionReport()
    with held(catalog, NAME) as lease:
        report.files_removed = remove_replaced(catalog, grace_s)
        candidates = _candidates(catalog, target_bytes)
        done = 0
        for tables, sources in _loads(catalog.home, candidates, target_bytes):
            done += len(sources)
            if len(sources) > 1 or sources[0]["schema_version"] < SCHEMA_VERSION:
                entered = replace(catalog, lease, sources[0]["table_name"], tables, sources)
                _count(report, sources, entered)
            on_progress(done, len(candidates))
        report.files_waiting = set_replaced_aside(catalog)
    return report


def set_replaced_aside(catalog: cat.Catalog) -> int:
    """Move the files of replaced and expired parts from ``tables/`` to ``replaced/``.

    Other programs that read a table's folder then see each row once. The catalog keeps the path
    in ``tables/``: a file of a removed part is at one of the two. If readers are open for longer
    than READERS_WAIT_S, the files stay for the next compaction. Returns the number of files left.
    """
    files = files_of(catalog.home)
    if not isinstance(files, LocalFiles):
        return 0  # no rename: they stay until their grace is over
    parts = cat.parts
    gone = sa.select(parts.c.path).where(parts.c.removed_why.in_(REPLACED))
    paths = [row["path"] for row in catalog.rows(gone)]
    with cat.store_boundary(catalog.home):
        paths = [path for path in paths if files.state(path) is not None]
        if not paths:
            return 0
        with without_readers(catalog.home, READERS_WAIT_S) as alone:
            if not alone:
                return len(paths)
            files.move_some(paths, REPLACED_FOLDER)
    return 0


def remove_replaced(catalog: cat.Catalog, grace_s: float) -> int:
    """Remove the files of parts that were replaced or expired at least `grace_s` seconds ago."""
    parts = cat.parts
    until = cat.now() - timedelta(seconds=grace_s)
    gone = catalog.rows(
        sa.select(parts).where(parts.c.removed_at <= until, parts.c.removed_why.in_(REPLACED))
    )
    for part in gone:
        # The file first: an entry without a file is found again, a file without an entry is not.
        with cat.store_boundary(catalog.home):
            files_of(catalog.home).remove(part["path"])
            files_of(catalog.home).remove(f"{REPLACED_FOLDER}/{part['path']}")
    forgotten = cat.now() - REMEMBERED
    with catalog.transaction() as connection:
        for part in gone:
            mine = parts.c.part_id == part["part_id"]
            connection.execute(sa.update(parts).where(mine).values(removed_why="removed"))
        old = (parts.c.removed_why == "removed") & (parts.c.removed_at < forgotten)
        connection.execute(sa.delete(parts).where(old))
    return len(gone)


def replace(
    catalog: cat.Catalog, lease: Lease, name: str, tables: list[pa.Table], sources: list[Part]
) -> list[Part]:
    """Replace `sources` by one sorted part (one per sweep); return the entered parts."""
    merged = pa.concat_tables(tables)
    entries: list[Part] = []
    try:
        with cat.store_boundary(catalog.home):
            for sweep_id, rows in rows_by_sweep(catalog, name, merged):
                rows = rows.sort_by([(key, "ascending") for key in SORTED_BY[name]])
                part = write_part(catalog.home, name, sweep_id, rows, archive=True)
                entries.append(part)
        with catalog.transaction() as connection:
            check_lease(connection, lease)
            _mark_replaced(connection, sources, entries)
            connection.execute(sa.insert(cat.parts), entries)
    except BaseException:
        with contextlib.suppress(StoreError):  # if this is unknown, an orphan file only costs space
            settle(catalog, entries)
        raise
    return entries


def _mark_replaced(connection: sa.Connection, sources: list[Part], entries: list[Part]) -> None:
    parts = cat.parts
    ids = [part["part_id"] for part in sources]
    still = parts.c.part_id.in_(ids) & parts.c.removed_at.is_(None)
    values = {"removed_at": cat.now(), "removed_why": "compacted"}
    values["replaced_by"] = " ".join(entry["part_id"] for entry in entries)
    changed = connection.execute(sa.update(parts).where(still).values(values)).rowcount
    if changed != len(ids):
        raise StoreError(f"{len(ids) - changed} parts were removed meanwhile; compact again")


def _candidates(catalog: cat.Catalog, target_bytes: int) -> list[Part]:
    parts = cat.parts
    small = (parts.c.bytes < target_bytes // 2) | (parts.c.schema_version < SCHEMA_VERSION)
    query = sa.select(parts).where(parts.c.removed_at.is_(None), small)
    return catalog.rows(query.order_by(parts.c.table_name, parts.c.sweep_id, parts.c.created_at))


def _loads(
    home: Home, parts: list[Part], target_bytes: int
) -> Iterator[tuple[list[pa.Table], list[Part]]]:
    """Parts of one table and sweep with their rows, in groups of one merge each."""
    for _, group in groupby(parts, key=lambda part: (part["table_name"], part["sweep_id"])):
        yield from _loads_of_group(home, list(group), target_bytes)


def _loads_of_group(
    home: Home, parts: list[Part], target_bytes: int
) -> Iterator[tuple[list[pa.Table], list[Part]]]:
    """Parts with their rows, in groups that make one merged part and fit in memory."""
    tables: list[pa.Table] = []
    sources: list[Part] = []
    size = memory = 0
    for part in parts:
        table = read_part(home, part)
        full = size + part["bytes"] > target_bytes or memory + table.nbytes > MERGE_BYTES
        if sources and full:
            yield tables, sources
            tables, sources, size, memory = [], [], 0, 0
        tables.append(table)
        sources.append(part)
        size, memory = size + part["bytes"], memory + table.nbytes
    if sources:
        yield tables, sources


def read_part(home: Home, part: Part) -> pa.Table:
    """A part's rows in the current schema; missing columns are null. Raises PartDamaged."""
    with cat.store_boundary(home):
        data, problem = read_whole(home, part)
        if problem:
            raise PartDamaged(f"{files_of(home).url(part['path'])}: {problem}; {MEND}")
        table = pq.read_table(io.BytesIO(data), partitioning=None)
    if PARTITION in TABLES[part["table_name"]].names and PARTITION not in table.column_names:
        sweeps = pa.repeat(pa.scalar(part["sweep_id"], pa.string()), table.num_rows)
        table = table.append_column(PARTITION, sweeps)
    schema = TABLES[part["table_name"]]
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _count(report: CompactionReport, sources: list[Part], entered: list[Part]) -> None:
    report.sources += len(sources)
    report.merged += len(entered)
    report.bytes_before += sum(part["bytes"] for part in sources)
    report.bytes_after += sum(part["bytes"] for part in entered)


class TaskOfAttempt(NamedTuple):
    """The columns of `attempts` that `set_tasks` sets."""

    task_id: str
    trial: int


def set_tasks(catalog: cat.Catalog, sweep_id: str, tasks: Mapping[str, TaskOfAttempt]) -> int:
    """Set the tasks of a sweep's attempts, by id; return the number of changed rows. Raises
    StoreBusy while a compaction runs, PartDamaged, StoreError."""
    parts, changed = cat.parts.c, 0
    with held(catalog, NAME) as lease:
        mine = (parts.table_name == "attempts") & (parts.sweep_id == sweep_id)
        wanted = sa.select(cat.parts).where(mine, parts.removed_at.is_(None))
        for part in catalog.rows(wanted):
            table = read_part(catalog.home, part)
            given = [tasks.get(each) for each in table["attempt_id"].to_pylist()]
            if count := sum(each is not None for each in given):
                replace(catalog, lease, "attempts", [_changed(table, given)], [part])
                changed += count
        set_replaced_aside(catalog)
    return changed


def _changed(table: pa.Table, given: list[TaskOfAttempt | None]) -> pa.Table:
    for nth, name in enumerate(TaskOfAttempt._fields):
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        values = [
            was if now is None else now[nth]
            for now, was in zip(given, table[name].to_pylist(), strict=True)
        ]
        table = table.set_column(place, field, pa.array(values, field.type))
    return table
