"""Commit rows: Parquet parts first, then their catalog entries and the states they complete.

Protocol: write to a temporary name, sync, rename, sync the folder, then enter all parts and the
state changes in one catalog transaction. A crash before that transaction leaves files no reader
sees; a crash after it loses nothing.
"""

import hashlib
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from storage import catalog as cat
from storage.errors import StoreError
from storage.schemas import SCHEMA_VERSION, TABLES

Rows = Sequence[Mapping[str, Any]]


def commit(
    catalog: cat.Catalog,
    rows: Mapping[str, Rows],
    complete: Callable[[sa.Connection], None] | None = None,
) -> None:
    """Commit `rows` (table name to rows) and, in the same transaction, what `complete` changes.

    Raises KeyError for a table or column the schemas do not have, pyarrow's ArrowInvalid or
    ArrowTypeError for a value of the wrong type, StoreFull when the disk is full; in each case
    nothing becomes visible.
    """
    tables = {name: to_arrow(name, given) for name, given in rows.items() if given}
    entries: list[dict[str, Any]] = []
    try:
        with cat.store_boundary(catalog.home):
            for name, table in tables.items():
                entries.append(_write_part(catalog.home.tables, name, table))
        with catalog.transaction() as connection:
            if complete is not None:
                complete(connection)
            if entries:
                connection.execute(sa.insert(cat.parts), entries)
    except BaseException:
        _remove_orphans(catalog, entries)
        raise


def _remove_orphans(catalog: cat.Catalog, entries: list[dict[str, Any]]) -> None:
    """Take away files that no reader will see, while we still know them.

    An interrupt can come when the transaction is in already, so the catalog is asked; where it
    cannot answer the files stay: an orphan costs room, a missing part costs data.
    """
    ids = [entry["part_id"] for entry in entries]
    query = sa.select(cat.parts.c.part_id).where(cat.parts.c.part_id.in_(ids))
    try:
        entered = {row["part_id"] for row in catalog.rows(query)} if ids else set()
    except StoreError:
        return
    for entry in entries:
        if entry["part_id"] not in entered:
            (catalog.home.root / entry["path"]).unlink(missing_ok=True)


def to_arrow(name: str, rows: Rows) -> pa.Table:
    """`rows` as an Arrow table of table `name`'s schema; absent columns are null.

    Raises KeyError for a column that the schema does not have.
    """
    schema = TABLES[name]
    known = set(schema.names)
    for row in rows:
        if unknown := row.keys() - known:
            raise KeyError(f"table {name} has no column {sorted(unknown)}")
    columns = [pa.array([row.get(f.name) for row in rows], type=f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _write_part(tables: Path, name: str, table: pa.Table) -> dict[str, Any]:
    folder = tables / name
    folder.mkdir(parents=True, exist_ok=True)
    part_id = uuid.uuid4().hex
    final = folder / f"part-{part_id}.parquet"
    temporary = final.with_suffix(".parquet.tmp")
    try:
        pq.write_table(table, temporary, compression="zstd", compression_level=1)
        data = temporary.read_bytes()
        _sync(temporary)
        os.replace(temporary, final)
        _sync(folder)
    except BaseException:
        temporary.unlink(missing_ok=True)
        final.unlink(missing_ok=True)
        raise
    return {
        "part_id": part_id,
        "table_name": name,
        "path": str(final.relative_to(tables.parent)),
        "rows": table.num_rows,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "schema_version": SCHEMA_VERSION,
        "created_at": cat.now(),
    }


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
