"""The tables' columns as Arrow schemas, for code that writes and rewrites parts."""

import pyarrow as pa

from tutti.storage import columns
from tutti.storage.columns import COLUMNS

ARROW_TYPES: dict[str, pa.DataType] = {
    columns.TEXT: pa.string(),
    columns.INT: pa.int64(),
    columns.REAL: pa.float64(),
    columns.FLAG: pa.bool_(),
    columns.AT: pa.timestamp("us", tz="UTC"),
    columns.TOKEN_IDS: pa.list_(pa.int32()),
    columns.LOGPROBS: pa.list_(pa.float32()),
    f"{columns.TEXT}[]": pa.list_(pa.string()),
    f"{columns.REAL}[]": pa.list_(pa.float64()),
    columns.SPANS: pa.list_(pa.struct({"first": pa.int32(), "last": pa.int32()})),
    columns.TOKEN_SPANS: pa.list_(
        pa.struct(
            {
                "call_id": pa.string(),
                "first": pa.int32(),
                "last": pa.int32(),
                "ids": pa.list_(pa.int32()),
            }
        )
    ),
    columns.TOOL_CALLS: pa.list_(
        pa.struct({"id": pa.string(), "name": pa.string(), "arguments": pa.string()})
    ),
}

TABLES: dict[str, pa.Schema] = {
    table: pa.schema([pa.field(name, ARROW_TYPES[kind]) for name, kind in kinds.items()])
    for table, kinds in COLUMNS.items()
}
"""Tables kept as Parquet parts; the contract's other tables are rows of the catalog."""
