"""Commit rows: Parquet parts first, then their catalog entries and the states they complete.

Protocol: write to a temporary name, sync, rename, sync the folder, then enter all parts and the
state changes in one catalog transaction. A crash before that transaction leaves files no reader
sees; a crash after it loses nothing.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.columns import PARTITIONED
from tutti.storage.errors import CommitUncertain, StoreError
from tutti.storage.files import files_of
from tutti.storage.leases import Lease, check_lease
from tutti.storage.schemas import TABLES
from tutti.storage.write.encode import Rows, to_arrow
from tutti.storage.write.parts import write_part

log = logging.getLogger(__name__)

Complete = Callable[[sa.Connection], None]
IDS_AT_ONCE = 500  # bound variables of one statement


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
    """End running attempts, given with their status, inside the caller's transaction.

    Raises AssertionError if one of them is not running: it was committed before.
    """
    states, ids = cat.attempt_states, list(ended)
    running = 0
    for start in range(0, len(ids), IDS_AT_ONCE):
        some = states.c.attempt_id.in_(ids[start : start + IDS_AT_ONCE])
        query = sa.select(sa.func.count()).where(some, states.c.state == "running")
        running += connection.execute(query).scalar_one()
    assert running == len(ids), f"{ids[0]} or one of {len(ids)} attempts was committed before"
    end = sa.update(states).where(states.c.attempt_id == sa.bindparam("of"))
    values = [{"of": attempt, "as": status} for attempt, status in ended.items()]
    connection.execute(end.values(state="done", status=sa.bindparam("as")), values)


def check_files(catalog: cat.Catalog) -> None:
    """Raise StoreError unless a part can be written; nothing stays of it."""
    with cat.store_boundary(catalog.home):
        entry = write_part(catalog.home, "calls", None, TABLES["calls"].empty_table())
        _take_away(catalog, [entry])


def write_nothing(connection: sa.Connection) -> None:
    """A statement that a catalog refuses which cannot be written; it changes no row."""
    path = cat.parts.c.path
    connection.execute(sa.update(cat.parts).where(sa.false()).values(path=path))


def settle(catalog: cat.Catalog, entries: list[dict[str, Any]]) -> bool:
    """Whether the commit of `entries` took effect; if not, their files are removed.

    A server may still be processing a commit whose client lost the connection: entering the same
    parts waits for it, and fails if it took effect. Raises StoreError if the database cannot be
    asked.
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
    """The parts could be entered, so they had not been; raised to roll the entry back."""


def _take_away(catalog: cat.Catalog, entries: list[dict[str, Any]]) -> bool:
    """Remove the files of parts that were certainly not entered; returns False. One that cannot be
    removed stays: an orphan costs space, and what failed before is what the caller must know."""
    for entry in entries:
        try:
            files_of(catalog.home).remove(entry["path"])
        except OSError as error:
            log.warning("the file of a part that was not entered stays: %s", error)
    return False


def _settled(catalog: cat.Catalog, entries: list[dict[str, Any]]) -> bool | None:
    """Like `settle`; None if the catalog cannot be asked.

    Then the files stay: an orphan costs space, a missing part costs data.
    """
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
