"""The entries of the background writer's queue, and their conversion to Arrow tables."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import sqlalchemy as sa

from tutti.storage.write.encode import to_arrow
from tutti.storage.write.writer import Complete, end_attempts

Row = Mapping[str, Any]
Rows = Mapping[str, list[Any]]
"""Rows by table."""
NONE_ENDED: Mapping[str, str] = MappingProxyType({})
OnRefused = Callable[[Exception], object]


class Group(NamedTuple):
    """Rows that become visible together, and changes made in the same transaction."""

    rows: Rows
    complete: Complete | None = None
    ended: Mapping[str, str] = NONE_ENDED
    """Attempts that end with these rows, with their status; one statement ends those of many
    groups."""


EMPTY = Group({})
Make = Callable[[], Group]
"""Makes a group on the writer's thread, where expensive work delays nobody. It is called again if
it raises an error of the store that may pass."""


@dataclass(eq=False, slots=True)
class Entry:
    """One closure of the queue; it is stored, or it fails, alone."""

    make: Make
    rows: int
    """Its share of the queue's limit of rows."""
    bytes: int
    """Its share of the limit of bytes."""
    on_refused: OnRefused | None = None
    """Called on the writer's thread with the error that it failed by."""
    is_whole: bool = False
    """Whether a row that does not fit its table refuses its group, not only itself."""
    tries: int = 0
    """How often it alone failed by an error that may pass."""
    group: Group = EMPTY
    size: int = -1
    """The group's number of rows; -1 until it is made."""

    @classmethod
    def of(
        cls, group: Group, on_refused: OnRefused | None = None, is_whole: bool = False
    ) -> "Entry":
        """The trivial closure, of rows that are there."""
        rows = size = 0
        for given in group.rows.values():
            rows += len(given)
            for row in given:
                text = row.get("content")  # a message's
                if text.__class__ is str:
                    size += len(text)
        return cls(lambda: group, rows or 1, size, on_refused, is_whole, 0, group, rows)

    def make_rows(self) -> None:
        """Make the group."""
        group = self.group = self.make()
        self.is_whole = group.complete is not None
        self.size = _count(group.rows)

    def leave_out_unfit(self) -> int:
        """Leave out the rows that do not fit their tables; returns their number."""
        before, rows = self.size, self.group.rows
        fit = {name: [row for row in rows[name] if _fits(name, row)] for name in rows}
        self.group, self.size = self.group._replace(rows=fit), _count(fit)
        return before - self.size


def changes(batch: list[Entry]) -> Complete | None:
    """The changes of all groups in one transaction; None if there are none."""
    groups = [entry.group for entry in batch]
    completes = [group.complete for group in groups if group.complete is not None]
    ended = {key: status for group in groups for key, status in group.ended.items()}

    def complete(connection: sa.Connection) -> None:
        if ended:
            end_attempts(connection, ended)
        for change in completes:
            change(connection)

    return complete if completes or ended else None


def to_tables(entries: list[Entry]) -> dict[str, pa.Table]:
    """All rows as Arrow tables. Raises RowRefused."""
    rows: dict[str, list[Row]] = {}
    for entry in entries:
        for table, more in entry.group.rows.items():
            if more:
                rows.setdefault(table, []).extend(more)
    return {name: to_arrow(name, given, yield_gil=True) for name, given in rows.items()}


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


def _count(rows: Rows) -> int:
    return sum(map(len, rows.values()))


def _fits(table: str, row: Row) -> bool:
    try:
        to_arrow(table, [row])
    except Exception:
        return False
    return True
