"""Commit rows: Parquet parts first, then their catalog entries and the states they complete.

Protocol: write to a temporary name, sync, rename, sync the folder, then enter all parts and the
state changes in one catalog transaction. A crash before that transaction leaves files no reader
sees; a crash after it loses nothing. A part exists for readers only once its entry is in the
catalog.
"""

import hashlib
import io
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.base.clock import now
from tutti.storage.base.columns import LOOKED_UP, PARTITION, PARTITIONED, SCHEMA_VERSION
from tutti.storage.base.errors import CommitUncertain, StoreError
from tutti.storage.base.home import Home, files_of
from tutti.storage.catalog.leasing import Lease, check_lease
from tutti.storage.write.encode import TABLES, Rows, to_arrow

# Arrow memory of a row group: what reading one row may have to decompress
ROW_GROUP_BYTES = 16 * 2**20
MAX_ROW_GROUP_ROWS = 131_072
LIVE_LEVEL = 1  # zstd level with the best speed for its size, for parts written while a cell runs
ARCHIVE_LEVEL = 3  # zstd level with the best size for its speed, for compaction
ARCHIVE_PAGE_BYTES = 4 * 2**20  # a page is compressed separately: larger pages compress better
BLOOM_RATE = 0.001  # false positives; 15 bits an id
NO_SWEEP = "none"  # Hive's name for null makes pandas fail; our own views read it as null


def part_path(table: str, sweep_id: str | None, part_id: str) -> str:
    """The path of a part in the store: hive partitions by sweep, ids made safe for paths."""
    folder = f"tables/{table}"
    if table in PARTITIONED:
        folder += f"/{PARTITION}={NO_SWEEP if sweep_id is None else quote(sweep_id, safe='')}"
    return f"{folder}/part-{part_id}.parquet"


def write_part(
    home: Home, name: str, sweep_id: str | None, table: pa.Table, *, archive: bool = False
) -> dict[str, Any]:
    """Write one part; returns its catalog row, which is not entered yet. Raises the file system's
    OSError; then no file is left behind."""
    part_id = uuid.uuid4().hex
    path = part_path(name, sweep_id, part_id)
    if name in PARTITIONED:
        # The folder's name has it: other programs refuse a column that is in both.
        table = table.drop_columns([PARTITION])
    data = encode_part(table, archive=archive)
    state = files_of(home).put(path, data)
    return {
        "part_id": part_id,
        "table_name": name,
        "path": path,
        "sweep_id": sweep_id,
        "rows": table.num_rows,
        "bytes": len(data),
        "mtime_ns": state.mtime_ns,
        "sha256": hashlib.sha256(data).hexdigest(),
        "schema_version": SCHEMA_VERSION,
        "created_at": now(),
    }


def encode_part(table: pa.Table, *, archive: bool = False) -> memoryview:
    """The bytes of a Parquet file: zstd, page checksums, Bloom filters on random ids.

    In an archive, values that repeat within a row group (system prompts, tasks, documents) are
    stored once, in a dictionary larger than Parquet's default of a megabyte, and pages are larger.
    """
    sink = io.BytesIO()
    rows = max(1, table.num_rows)
    group = min(MAX_ROW_GROUP_ROWS, max(1024, ROW_GROUP_BYTES * rows // max(1, table.nbytes)))
    blooms = {
        column: {"ndv": min(group, rows), "fpp": BLOOM_RATE}
        for column in LOOKED_UP
        if column in table.column_names
    }
    options: dict[str, Any] = {"compression_level": LIVE_LEVEL}
    if archive:
        options = {
            "compression_level": ARCHIVE_LEVEL,
            "data_page_size": ARCHIVE_PAGE_BYTES,
            "use_dictionary": _repeating(table),
            "dictionary_pagesize_limit": 2 * ROW_GROUP_BYTES,
        }
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        write_page_checksum=True,
        bloom_filter_options=blooms if rows > 1024 else None,
        **options,
    ) as writer:
        writer.write_table(table, row_group_size=group)
    return memoryview(sink.getvalue())  # not getbuffer(): the sink could not be closed with it


def _repeating(table: pa.Table) -> list[str]:
    """Columns whose values repeat often enough for a dictionary to be smaller."""
    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_nested(column.type):
            often = 2 if pa.types.is_string(column.type) else 8
            if pc.count_distinct(column, mode="all").as_py() * often <= table.num_rows:
                found.append(name)
    return found


log = logging.getLogger(__name__)

Complete = Callable[[sa.Connection], None]


def commit(
    catalog: cat.Catalog,
    rows: Mapping[str, Rows],
    complete: Complete | None = None,
    lease: Lease | None = None,
) -> None:
    """Commit `rows` (table name to rows) and, in the same transaction, the changes of `complete`.

    With a `lease`, nothing is committed unless the lease is still held. Raises RowRefused for a row
    that does not fit its table, LeaseLost, StoreFull if the disk is full; in each case nothing
    becomes visible.
    """
    tables = {name: to_arrow(name, given) for name, given in rows.items() if given}
    commit_tables(catalog, tables, complete, lease)


def commit_tables(
    catalog: cat.Catalog,
    tables: Mapping[str, pa.Table],
    complete: Complete | None = None,
    lease: Lease | None = None,
) -> None:
    """Commit Arrow tables with the schemas' columns; otherwise like `commit`."""
    entries: list[dict[str, Any]] = []
    sent = False
    try:
        with cat.store_boundary(catalog.home):
            for entry in _write_parts(catalog, tables):
                # one by one: on failure, the parts written so far are removed
                entries.append(entry)
        with catalog.transaction() as connection:
            if lease is not None:
                check_lease(connection, lease)
            if complete is not None:
                complete(connection)
            if entries:
                connection.execute(sa.insert(cat.parts), entries)
            sent = True  # the commit itself follows
    except BaseException as error:
        entered = _settled(catalog, entries) if sent else _take_away(catalog, entries)
        if entered is None and isinstance(error, StoreError):
            raise CommitUncertain(str(error), entries) from error
        if entered and isinstance(error, StoreError):
            return  # the connection broke after the commit: it took effect
        raise


def _write_parts(catalog: cat.Catalog, tables: Mapping[str, pa.Table]) -> Iterator[dict[str, Any]]:
    """Write the parts of `tables`; yields each one's entry once its file is there."""
    for name, table in tables.items():
        for sweep_id, rows in rows_by_sweep(catalog, name, table):
            yield write_part(catalog.home, name, sweep_id, rows)


def end_attempts(connection: sa.Connection, ended: Mapping[str, str]) -> None:
    """End running attempts, given with their status, inside the caller's transaction. Raises
    AssertionError if one of them is not running: it was committed before."""
    states, ids = cat.attempt_states, list(ended)
    running = 0
    for some in cat.any_of(states.c.attempt_id, ids):
        query = sa.select(sa.func.count()).where(some, states.c.state == "running")
        running += connection.execute(query).scalar_one()
    assert running == len(ids), f"{ids[0]} or one of {len(ids)} attempts was committed before"
    end = sa.update(states).where(states.c.attempt_id == sa.bindparam("of"))
    values = [{"of": attempt, "as": status} for attempt, status in ended.items()]
    connection.execute(end.values(state="done", status=sa.bindparam("as")), values)


def check_files(catalog: cat.Catalog) -> None:
    """Raise StoreError unless a part can be written; no file is left behind."""
    with cat.store_boundary(catalog.home):
        entry = write_part(catalog.home, "calls", None, TABLES["calls"].empty_table())
        _take_away(catalog, [entry])


def write_nothing(connection: sa.Connection) -> None:
    """Run a statement that an unwritable catalog refuses; it changes no row."""
    path = cat.parts.c.path
    connection.execute(sa.update(cat.parts).where(sa.false()).values(path=path))


def settle(catalog: cat.Catalog, entries: list[dict[str, Any]]) -> bool:
    """Return whether the commit of `entries` took effect; if not, their files are removed.

    A server may still be processing a commit whose client lost the connection: entering the same
    parts waits for it, and fails if it took effect. Raises StoreError if the database cannot be
    queried.
    """
    if not entries:
        return False
    try:
        with catalog.transaction() as connection:
            connection.execute(sa.insert(cat.parts), entries)
            raise _NotEntered
    except sa.exc.IntegrityError:
        return True  # one transaction: either all or none
    except _NotEntered:
        return _take_away(catalog, entries)


class _NotEntered(Exception):
    """Raised to roll an entry back: parts that could be entered had not been entered before."""


def _take_away(catalog: cat.Catalog, entries: list[dict[str, Any]]) -> bool:
    """Remove the files of parts that were certainly not entered; return False. A file that cannot
    be removed stays: an orphan only costs space, and the caller needs the original error."""
    for entry in entries:
        try:
            files_of(catalog.home).remove(entry["path"])
        except OSError as error:
            log.warning("the file of a part that was not entered stays: %s", error)
    return False


def _settled(catalog: cat.Catalog, entries: list[dict[str, Any]]) -> bool | None:
    """Like `settle`; None if the catalog cannot be queried. Then the files stay: an orphan costs
    space, a missing part costs data."""
    try:
        return settle(catalog, entries)
    except StoreError:
        return None


def rows_by_sweep(
    catalog: cat.Catalog, name: str, table: pa.Table
) -> list[tuple[str | None, pa.Table]]:
    """The table's rows by sweep; a row without a sweep gets its cell's."""
    if name not in PARTITIONED:
        return [(None, table)]
    table = _with_sweeps(catalog, table)
    sweeps = pc.unique(table["sweep_id"]).to_pylist()
    if len(sweeps) == 1:
        return [(sweeps[0], table)]
    column = table["sweep_id"]
    return [
        (sweep, table.filter(pc.is_null(column) if sweep is None else pc.equal(column, sweep)))
        for sweep in sweeps
    ]


def _with_sweeps(catalog: cat.Catalog, table: pa.Table) -> pa.Table:
    column = table["sweep_id"]
    if column.null_count == 0 or "cell_id" not in table.column_names:
        return table
    cells = table["cell_id"].combine_chunks().dictionary_encode()
    sweeps = [catalog.sweep_of(cell) for cell in cells.dictionary.to_pylist()]
    known = pa.array(sweeps, pa.string()).take(cells.indices)
    place = table.schema.get_field_index("sweep_id")
    return table.set_column(place, "sweep_id", pc.coalesce(column, pa.chunked_array([known])))
