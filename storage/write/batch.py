"""One commit of the background writer: groups of rows that belong together, and single rows."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tutti.storage.errors import RowRefused
from tutti.storage.write.encode import GilYielder, to_arrow
from tutti.storage.write.writer import Complete

FREED_AT_ONCE = 256
Row = Mapping[str, Any]
MakeRows = Callable[[], Mapping[str, list[Row]]]
"""Makes rows by table on the writer's thread, where expensive work delays nobody."""


@dataclass(eq=False)
class Group:
    """Rows that become visible together, and a change made in the same transaction."""

    rows: Mapping[str, list[Any]]
    complete: Complete | None
    ended: Mapping[str, str]

    @property
    def size(self) -> int:
        return sum(map(len, self.rows.values()))


@dataclass
class Batch:
    """The rows of one commit."""

    groups: list[Group] = field(default_factory=list)
    loose: dict[str, list[Any]] = field(default_factory=dict)
    makers: list[MakeRows] = field(default_factory=list)
    unanswered: "UnansweredCommit | None" = None
    tables: dict[str, pa.Table] | None = None
    """The rows as Arrow tables, once they are made."""
    failure: Exception | None = None
    """The exception raised while making its rows."""
    charged: int = 0
    """Its share of the writer's buffer limit."""

    @property
    def size(self) -> int:
        rows = sum(group.size for group in self.groups) + sum(map(len, self.loose.values()))
        return rows + len(self.makers)

    def make(self) -> None:
        """Add the makers' rows in their place, in order."""
        makers, self.makers = self.makers, []
        pause = GilYielder()
        for make_rows in makers:
            for table, rows in make_rows().items():
                self.loose.setdefault(table, []).extend(rows)
            pause()

    def prepare(self) -> None:
        """Make the pending rows and convert all rows to Arrow tables.

        Leaves no tables if a row does not fit: the row is found when the batch is committed
        separately.
        """
        try:
            self.make()
        except Exception as error:  # raised to the caller when the batch is committed
            self.failure = error
            return
        if self.tables is None:
            rows = merged(self.groups, self.loose)
            with contextlib.suppress(RowRefused):
                self.tables = {name: to_arrow(name, rows[name], yield_gil=True) for name in rows}

    def without(self, groups: list[Group], loose: Mapping[str, list[Any]]) -> None:
        """Remove the rows that were committed."""
        done = set(map(id, groups))
        self.groups = [group for group in self.groups if id(group) not in done]
        if loose:
            self._let_go()
        self.tables = None

    def _let_go(self) -> None:
        """Free the loose rows a few at a time: freeing thousands at once blocks other threads for
        milliseconds."""
        pause = GilYielder()
        for rows in self.loose.values():
            while rows:
                del rows[-FREED_AT_ONCE:]
                pause()
        self.loose = {}

    def __bool__(self) -> bool:
        return bool(self.groups or self.loose or self.makers)


@dataclass(frozen=True)
class UnansweredCommit:
    """A commit without an answer from the database: it may have taken effect."""

    entries: list[dict[str, Any]]
    groups: list[Group]
    loose: Mapping[str, list[Any]]


def merged(groups: list[Group], loose: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The rows of groups and loose ones, by table."""
    rows = {table: list(given) for table, given in loose.items() if given}
    for group in groups:
        for table, more in group.rows.items():
            if more:
                rows.setdefault(table, []).extend(more)
    return rows


def unfit(table: str, row: Mapping[str, Any]) -> str:
    """Why the table refuses the row; empty if it accepts it."""
    try:
        to_arrow(table, [row])
    except RowRefused as error:
        return str(error)
    return ""
