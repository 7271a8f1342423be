"""Record calls, events and server metrics without making a call wait.

Rows gather in memory and a background task commits them every second; `flush` commits now. Rows
that could not be committed stay, up to a bound; what is dropped beyond it is counted.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from storage import Catalog, StoreError, commit
from storage.writer import to_arrow

FLUSH_S = 1.0
ROW_ERRORS = (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError)
MAX_ROWS = 200_000  # about 100 MB: minutes of a busy gateway with the disk away


class Recorder:
    """Buffers rows of several tables and commits them together."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        self._lock = asyncio.Lock()
        self.committed = 0
        self.dropped = 0
        self.last_error = ""

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Take a row; never waits, never fails."""
        rows = self._rows.setdefault(table, [])
        if len(rows) >= MAX_ROWS:
            self.dropped += 1
            return
        rows.append(row)

    async def flush(self) -> int:
        """Commit all rows taken so far; returns how many. Raises StoreError; the rows are kept.

        Giving up the wait does not give up the commit.
        """
        return await asyncio.shield(asyncio.ensure_future(self._flush()))

    async def _flush(self) -> int:
        async with self._lock:
            taken, self._rows = self._rows, {}
            count = sum(map(len, taken.values()))
            if not count:
                return 0
            try:
                await asyncio.to_thread(self._commit, taken)
            except StoreError as error:
                self.last_error = str(error)
                for table, rows in taken.items():
                    self._rows[table] = rows + self._rows.get(table, [])
                raise
            self.committed += count
            return count

    def _commit(self, taken: dict[str, list[Mapping[str, Any]]]) -> None:
        try:
            commit(self._catalog, taken)
            self.last_error = ""
        except ROW_ERRORS as error:
            # One row that no table takes must not cost the others, nor end the recording.
            fitting = {table: [r for r in rows if _fits(table, r)] for table, rows in taken.items()}
            self.dropped += sum(map(len, taken.values())) - sum(map(len, fitting.values()))
            self.last_error = f"a row was dropped: {error}"
            commit(self._catalog, fitting)

    async def run(self) -> None:
        """Flush for ever; an error is kept in `last_error` and the next round tries again."""
        while True:
            await asyncio.sleep(FLUSH_S)
            with contextlib.suppress(StoreError):
                await self.flush()


def _fits(table: str, row: Mapping[str, Any]) -> bool:
    try:
        to_arrow(table, [row])
    except ROW_ERRORS:
        return False
    return True
