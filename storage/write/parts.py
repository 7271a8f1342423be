"""Parts: Arrow tables as Parquet files, and as entries for the catalog.

A part exists for readers only once its entry is in the catalog.
"""

import hashlib
import io
import uuid
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tutti.storage.clock import now
from tutti.storage.columns import LOOKED_UP, PARTITION, PARTITIONED, SCHEMA_VERSION
from tutti.storage.files import files_of
from tutti.storage.home import Home

# Arrow memory of a row group: what reading one row may have to decompress
ROW_GROUP_BYTES = 16 * 2**20
MAX_ROW_GROUP_ROWS = 131_072
LIVE_LEVEL = 1  # zstd level with the best speed for its size, for parts written while a cell runs
ARCHIVE_LEVEL = 3  # zstd level with the best size for its speed, for compaction
ARCHIVE_PAGE_BYTES = 4 * 2**20  # a page is compressed separately: larger pages compress better
BLOOM_RATE = 0.001  # false positives; 15 bits an id
NO_SWEEP = "none"  # Hive's name for null makes pandas fail; our own views read it as null


def part_path(table: str, sweep_id: str | None, part_id: str) -> str:
    """The path of a part, relative to the store: hive partitions by sweep, ids made safe for
    paths."""
    folder = f"tables/{table}"
    if table in PARTITIONED:
        folder += f"/{PARTITION}={NO_SWEEP if sweep_id is None else quote(sweep_id, safe='')}"
    return f"{folder}/part-{part_id}.parquet"


def write_part(
    home: Home, name: str, sweep_id: str | None, table: pa.Table, *, archive: bool = False
) -> dict[str, Any]:
    """Write one part; returns its catalog row, which is not entered yet.

    Raises the file system's OSError; then no file is left behind.
    """
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
