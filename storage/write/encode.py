"""Encodes rows as Arrow tables, column by column; a value that does not fit is refused by name.

`pa.Table.from_pylist` looks up every field in every row and infers types. One list per column is
three times as fast, and for structs one list per member is faster still.
"""

import contextlib
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tutti.storage.base import columns
from tutti.storage.base.columns import COLUMNS
from tutti.storage.base.errors import RowRefused

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


Rows = Sequence[Mapping[str, Any]]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHUNK_ROWS = 1024  # values converted at a time: some tens of microseconds per column
MAX_GIL_S = 0.0005  # the longest that the GIL is kept from a waiting thread
# the columns that identify a row in a message
KEYS = ("attempt_id", "call_id", "task_id", "program_id", "name")
CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def to_arrow(name: str, rows: Rows, *, yield_gil: bool = False) -> pa.Table:
    """`rows` as an Arrow table with the schema of table `name`; missing columns are null.

    `yield_gil` lets other threads run every `CHUNK_ROWS` values, for a writer beside an event loop.
    Raises RowRefused for an unknown column, a value of another type, text with lone surrogates, NaN
    and infinities (unknown is null).
    """
    if name not in TABLES:
        raise RowRefused(f"there is no table {name!r}")
    schema = TABLES[name]
    known = frozenset(schema.names)
    pause = GilYielder() if yield_gil else None
    try:
        chunks = [
            _columns(name, schema, known, start, rows[start : start + CHUNK_ROWS], pause)
            for start in range(0, len(rows), CHUNK_ROWS)
        ]
    except CONVERSION_ERRORS as error:
        raise _refusal(name, schema, rows, error) from error
    table = pa.Table.from_arrays(
        [
            pa.chunked_array(_flat(chunk[place] for chunk in chunks), type=field.type)
            for place, field in enumerate(schema)
        ],
        schema=schema,
    )
    for field in schema:
        _check_numbers(name, field, table[field.name], rows)
    return table


def _columns(
    name: str,
    schema: pa.Schema,
    known: frozenset[str],
    start: int,
    rows: Rows,
    pause: "GilYielder | None",
) -> list[pa.Array | pa.ChunkedArray]:
    names, columns = _transposed(name, known, start, rows)
    values = dict(zip(names, columns, strict=True))
    arrays = []
    for field in schema:
        if field.name in values:
            arrays.append(_array(field.type, values[field.name]))
        else:
            arrays.append(pa.nulls(len(rows), field.type))
        if pause is not None:
            pause()
    return arrays


def _flat(arrays: Iterable[pa.Array | pa.ChunkedArray]) -> list[pa.Array]:
    """Concatenate: Arrow itself splits an array of more than 2 GB of text."""
    return [
        piece
        for array in arrays
        for piece in (array.chunks if isinstance(array, pa.ChunkedArray) else [array])
    ]


def _transposed(
    name: str, known: frozenset[str], start: int, rows: Rows
) -> tuple[list[str], Iterable[Sequence[Any]]]:
    """The columns of the rows, and their values column by column. Fastest if all rows have the
    column names of the first one, as those of one writer do."""
    names = list(rows[0])
    if len(names) > 1 and known.issuperset(names) and set(map(len, rows)) == {len(names)}:
        try:
            return names, zip(*map(itemgetter(*names), rows), strict=True)
        except KeyError:
            pass  # the same number of columns, but others
    given = set[str]().union(*rows)
    for place, row in enumerate(() if known >= given else rows, start):
        if not known.issuperset(row):
            raise RowRefused(f"{_where(name, place, row)}: no column {sorted(set(row) - known)}")
    return list(given), [[row.get(each) for row in rows] for each in given]


def storable(row: Mapping[str, Any]) -> dict[str, Any]:
    r"""`row` with lone surrogates, which UTF-8 cannot encode, replaced by the escapes ``\udXXX``.

    For text that a model or a tool produced: it must not fail the attempt, and nothing is hidden.
    """
    return {
        name: value
        if not value or (value.__class__ is str and value.isascii())
        else _storable(value)
        for name, value in row.items()
    }


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_storable(item) for item in value] if value else value
    if isinstance(value, dict) or (value is not None and isinstance(value, Mapping)):
        return storable(value)
    return value


class GilYielder:
    """Releases the GIL at least every `MAX_GIL_S`. A waiting thread requests the GIL only after 5
    ms, which is too long for an event loop."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def __call__(self) -> None:
        if time.perf_counter() - self._since > MAX_GIL_S:
            time.sleep(0)
            self._since = time.perf_counter()


def _array(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return _list_of_structs(kind, values)
    if pa.types.is_timestamp(kind):  # as times since 1970 they take a quarter of the time
        with contextlib.suppress(TypeError):  # Arrow takes some other types, too
            since = [None if value is None else value - EPOCH for value in values]
            return pa.array(since, type=pa.duration(kind.unit)).view(kind)
    return pa.array(values, type=kind)


def _list_of_structs(kind: pa.ListType, values: Sequence[Any]) -> pa.Array:
    items = list(chain.from_iterable(filter(None, values)))
    struct = kind.value_type
    columns = _members([member.name for member in struct], items)
    members = [pa.array(column, type=m.type) for column, m in zip(columns, struct, strict=True)]
    inner = pa.StructArray.from_arrays(members, fields=list(struct))
    lengths = [len(value) if value else 0 for value in values]
    offsets = pa.array([0, *accumulate(lengths)], type=pa.int32())
    mask = pa.array([value is None for value in values], type=pa.bool_())
    return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=mask)


def _members(names: list[str], items: list[Any]) -> list[Sequence[Any]]:
    """The values of each member of structs; fastest if all items have all members."""
    if items and set(map(len, items)) == {len(names)}:
        with contextlib.suppress(KeyError):
            return list(zip(*map(itemgetter(*names), items), strict=True))
    known = frozenset(names)
    for item in items:
        if not known.issuperset(item):
            raise TypeError(f"no member {sorted(set(item) - known)}")
    return [[item.get(name) for item in items] for name in names]


def _check_numbers(name: str, field: pa.Field, column: Any, rows: Rows) -> None:
    if pa.types.is_floating(field.type):
        if not pc.all(pc.is_finite(column), min_count=0).as_py():
            place = next(i for i, row in enumerate(rows) if _not_finite(row.get(field.name)))
            value = rows[place][field.name]
            where = f"{_where(name, place, rows[place])}, column {field.name}"
            raise RowRefused(f"{where}: {value} is not a finite number; use null for unknown")
    # Minus infinity is a valid log probability; NaN is not.
    elif _of_floats(field.type) and pc.any(pc.is_nan(pc.list_flatten(column))).as_py():
        place = next(i for i, row in enumerate(rows) if _holds_nan(row.get(field.name)))
        where = f"{_where(name, place, rows[place])}, column {field.name}"
        raise RowRefused(f"{where}: holds NaN; use null for unknown")


def _of_floats(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_floating(kind.value_type))


def _holds_nan(values: Sequence[float | None] | None) -> bool:
    return any(value is not None and math.isnan(value) for value in values or ())


def _not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _refusal(name: str, schema: pa.Schema, rows: Rows, error: Exception) -> RowRefused:
    """The same error with the first value that causes it."""
    for place, row in enumerate(rows):
        for field in schema:
            value = row.get(field.name)
            try:
                _array(field.type, [value])
            except CONVERSION_ERRORS as reason:
                shown = ascii(value)
                shown = shown if len(shown) <= 80 else f"{shown[:77]}…"
                where = f"{_where(name, place, row)}, column {field.name}"
                return RowRefused(f"{where}: {shown} does not fit {field.type}: {reason}")
    return RowRefused(f"table {name}: {error}")


def _where(name: str, place: int, row: Mapping[str, Any]) -> str:
    keys = ", ".join(f"{key}={row[key]!r}" for key in KEYS if row.get(key) is not None)
    return f"table {name}, row {place}" + (f" ({keys})" if keys else "")
