"""The entries of the background writer's queue, and their conversion to Arrow tables."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import sqlalchemy as sa

from tutti.storage.write.encode import to_arrow
from tutti.storage.write.writer import Complete, end_attempts

Row = Mapping[str, Any]
Rows = Mapping[str, list[Any]]
NOTHING: Rows = {}
OnRefused = Callable[[Exception], object]
_TEXTS = ("content", "reasoning", "tool_calls")
LARGE = {
    "messages": _TEXTS,
    "auxiliary_messages": _TEXTS,
    "calls": ("token_ids", "logprobs", "prompt_token_ids"),
}
"""By table, the columns that the queue's limit of bytes counts; the others are small."""
NUMBER_BYTES = 36  # of a number in a list, and of its place there


class Group(NamedTuple):
    """Rows that become visible together, and changes made in the same transaction."""

    rows: Rows
    complete: Complete | None = None
    ended: Mapping[str, str] | None = None
    """Attempts that end with these rows, by status; one statement ends those of many groups."""


Make = Callable[[], Group]
"""Makes a group on the writer's thread, where expensive work delays nobody. It is called again if
it raises an error of the store that may pass."""


@dataclass(eq=False, slots=True)
class Entry:
    """One closure of the queue, or the rows that it would create; each is stored or fails alone."""

    n_rows: int
    """The number of its rows, of the queue's limit; 1 until they are made, and if there are none"""
    n_bytes: int
    """Its share of the limit of bytes."""
    rows: Rows
    make: Make | None = None
    """None once the rows are there."""
    on_refused: OnRefused | None = None
    """Called on the writer's thread with the error that it failed by."""
    is_whole: bool = False
    """Whether a row that does not fit its table refuses all its rows, not only itself."""
    complete: Complete | None = None
    ended: Mapping[str, str] | None = None
    tries: int = 0
    """How often it alone failed by an error that may pass."""

    def make_rows(self, make: Make) -> None:
        self.rows, self.complete, self.ended = make()
        self.is_whole, self.make = self.complete is not None, None
        self.n_rows = _count(self.rows) or 1

    def leave_out_unfit(self) -> int:
        """Leave out the rows that do not fit their tables; return their number."""
        rows = self.rows
        self.rows = {name: [row for row in rows[name] if _fits(name, row)] for name in rows}
        return _count(rows) - _count(self.rows)


def share_of(rows: Rows) -> tuple[int, int]:
    """The number of rows, and the approximate bytes of memory of their texts and token ids."""
    number = size = 0
    for table, given in rows.items():
        number += len(given)
        if table in LARGE:
            size += _bytes(given, LARGE[table])
    return number or 1, size


def _bytes(rows: list[Any], names: tuple[str, ...]) -> int:
    size = 0
    for name in names:
        for row in rows:
            if value := row.get(name):
                size += len(value) if value.__class__ is str else _bytes_of_list(value)
    return size


def _bytes_of_list(values: Any) -> int:
    """Bytes of tool calls, spans, or numbers; 0 for values that the column will refuse."""
    try:
        is_nested = isinstance(values[0], dict)
        return _bytes(values, ("arguments", "ids")) if is_nested else NUMBER_BYTES * len(values)
    except (AttributeError, LookupError, TypeError):
        return 0


def _count(rows: Rows) -> int:
    return sum(map(len, rows.values()))


def changes(batch: list[Entry]) -> Complete | None:
    """Return the changes of all entries in one transaction; None if there are none."""
    completes = [entry.complete for entry in batch if entry.complete is not None]
    given = [entry.ended for entry in batch if entry.ended]
    ended = {key: status for each in given for key, status in each.items()}

    def complete(connection: sa.Connection) -> None:
        if ended:
            end_attempts(connection, ended)
        for change in completes:
            change(connection)

    return complete if completes or ended else None


def to_tables(entries: list[Entry]) -> dict[str, pa.Table]:
    """All rows as Arrow tables. Raises RowRefused."""
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for entry in entries:
        for table, more in entry.rows.items():
            rows[table].extend(more)
    return {name: to_arrow(name, given, yield_gil=True) for name, given in rows.items() if given}


def unfit(entries: list[Entry]) -> Iterator[tuple[Entry, Exception]]:
    """The entries whose rows cannot be converted, each with its error."""
    try:
        to_tables(entries)
    except Exception as error:
        if len(entries) == 1:
            yield entries[0], error
            return
        half = len(entries) // 2
        yield from unfit(entries[:half])
        yield from unfit(entries[half:])


def _fits(table: str, row: Row) -> bool:
    try:
        to_arrow(table, [row])
    except Exception:
        return False
    return True
