"""Record calls, events and server metrics without making a call wait.

Rows gather in memory and a background task commits them every second; `flush` commits now. Rows
that could not be committed stay, up to a bound; what is dropped beyond it is counted.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from storage import Catalog, StoreError, commit

FLUSH_S = 1.0
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
        """Commit all rows taken so far; returns how many. Raises StoreError; the rows are kept."""
        async with self._lock:
            taken, self._rows = self._rows, {}
            count = sum(map(len, taken.values()))
            if not count:
                return 0
            try:
                await asyncio.to_thread(commit, self._catalog, taken)
            except StoreError as error:
                self.last_error = str(error)
                for table, rows in taken.items():
                    self._rows[table] = rows + self._rows.get(table, [])
                raise
            self.last_error = ""
            self.committed += count
            return count

    async def run(self) -> None:
        """Flush for ever; an error is kept in `last_error` and the next round tries again."""
        while True:
            await asyncio.sleep(FLUSH_S)
            with contextlib.suppress(StoreError):
                await self.flush()
