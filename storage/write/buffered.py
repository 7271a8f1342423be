"""The background writer: one queue of closures, committed in order by one thread.

`add` never waits: when the queue is full it refuses the rows and counts them (a gateway's calls).
`put` waits for room (a sweep's attempts). Each entry fails alone: it is logged, counted in
`dropped` and reported to its producer. While the store accepts nothing, the entries stay in order
and are tried again every `commit_s`. An entry that alone fails `TRIES` times fails permanently. A
closed writer and one whose lease is lost raise StoreError and LeaseLost.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tutti.storage.base.errors import PERMANENT, CommitUncertain, LeaseLost, StoreError, StoreFull
from tutti.storage.catalog import Catalog
from tutti.storage.catalog.leasing import Lease
from tutti.storage.write.batch import (
    NOTHING,
    Entry,
    Make,
    OnRefused,
    Row,
    Rows,
    changes,
    share_of,
    to_tables,
    unfit,
)
from tutti.storage.write.encode import GilYielder
from tutti.storage.write.writer import (
    Complete,
    check_files,
    commit_tables,
    settle,
    write_nothing,
)

log = logging.getLogger(__name__)
COMMIT_S = 1.0
MAX_ROWS = 200_000  # about 100 MB: minutes of a busy gateway while the disk is unavailable
MAX_BYTES = 512 * 2**20  # of long texts among them
BATCH_ROWS = 50_000  # rows of one commit: a part of a few MB, a second's work
BATCH_BYTES = 384 * 2**20  # the rest is room for what comes while they are committed
TIMEOUT_S = 600.0
TRIES = 5  # a few seconds: less than a sweep waits for its store
FREED_AT_ONCE = 256


class BufferedWriter:
    """Takes rows from any thread; one thread commits them every `commit_s`, or when a batch is
    full. `before` is called on that thread before each commit; if it raises, the commit fails."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        max_rows: int = MAX_ROWS,
        commit_s: float = COMMIT_S,
        lease: Lease | None = None,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self._catalog, self._max_rows, self._commit_s = catalog, max_rows, commit_s
        self._lease, self._before = lease, before
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._queue: deque[Entry] = deque()
        self._rows = self._bytes = 0  # of all entries that are not done
        self._asked = self._attempted = 0  # flushes
        self._unanswered: tuple[list[dict[str, Any]], int] | None = None
        """The parts of a commit without an answer, and the number of its entries, the first."""
        self._error: StoreError | None = None  # of the last commit
        self._lease_lost: LeaseLost | None = None
        self._failing_since: float | None = None
        self._note = ""  # why a row was lost
        self._closed = False
        self.committed = 0
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="store writer", daemon=True)
        self._thread.start()

    @property
    def failing_s(self) -> float:
        """Seconds for which no commit has succeeded although rows were waiting."""
        return 0.0 if (since := self._failing_since) is None else time.monotonic() - since

    @property
    def last_error(self) -> str:
        """The error of the last commit, or why a row was lost; empty if there is none."""
        return str(self._lease_lost or self._error or self._note)

    def add(self, table: str, row: Row) -> bool:
        """Add a row without waiting; if the queue is full, count it as lost and return False."""
        return self.add_all({table: [row]})

    def add_all(self, rows: Rows) -> bool:
        """Like `add`, for rows of several tables: all of them, or none."""
        return self._enter(Entry(*share_of(rows), rows))

    def add_made(self, make: Make, n_bytes: int = 0, on_refused: OnRefused | None = None) -> bool:
        """Like `add`, for rows that `make` creates on the writer's thread, in order of arrival. It
        holds about `n_bytes` of memory until then. `on_refused` is called if it fails there."""
        return self._enter(Entry(1, n_bytes, NOTHING, make, on_refused))

    def put(
        self,
        rows: Rows,
        complete: Complete | None = None,
        timeout_s: float = TIMEOUT_S,
        *,
        ended: Mapping[str, str] | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        """Add rows that become visible together, with the changes of `complete` and the ends of
        running attempts, `ended`, by their status; wait for room.

        `on_refused` is called on the writer's thread if they cannot be committed. Raises
        StoreError if there is no room after `timeout_s`.
        """
        entry = Entry(*share_of(rows), rows, None, on_refused, True, complete, ended)
        if not self._enter(entry, timeout_s):
            raise StoreError(f"nothing was committed for {timeout_s:.0f} s: {self.last_error}")

    def offer(
        self, rows: Rows, ended: Mapping[str, str], on_refused: OnRefused | None = None
    ) -> bool:
        """Like `put`, for event loops: returns False without adding anything if it would wait."""
        return self._enter(Entry(*share_of(rows), rows, None, on_refused, True, None, ended))

    def lost(self, rows: int, error: Exception) -> None:
        """Count rows that were lost; `last_error` gives the reason."""
        note = f"a row was lost: {error if isinstance(error, StoreError) else repr(error)}"
        if note != self._note:
            log.warning(note, exc_info=None if isinstance(error, StoreError) else error)
        with self._changed:
            self.dropped += rows
            self._note = note

    def flush(self, timeout_s: float = TIMEOUT_S) -> int:
        """Commit everything added so far; return the total number of committed rows. Raises the
        StoreError for which the store accepts nothing; the rows stay and are tried again."""
        with self._changed:
            self._check()
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._attempted >= mine, timeout_s):
                raise StoreError(f"the commit did not end within {timeout_s:.0f} s")
            return self._result()

    def close(self, timeout_s: float = TIMEOUT_S) -> None:
        """Commit the remaining rows and end the thread; if the store accepts nothing, try `TRIES`
        times. Raises like `flush`; rows that could not be committed are counted."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._asked += 1
            self._changed.notify_all()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise StoreError(f"the commit did not end within {timeout_s:.0f} s")
        self._result()

    def __enter__(self) -> "BufferedWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _enter(self, entry: Entry, timeout_s: float = 0.0) -> bool:
        """Add an entry once there is room; return whether there was. Counts the losses of `add`."""
        with self._lock:
            rows, size = self._rows + entry.n_rows, self._bytes + entry.n_bytes
            if rows > self._max_rows or size > MAX_BYTES or self._closed or self._lease_lost:
                if not self._changed.wait_for(lambda: self._takes(entry), timeout_s):
                    self.dropped += 0 if entry.is_whole else entry.n_rows
                    return False
                self._check()
                rows, size = self._rows + entry.n_rows, self._bytes + entry.n_bytes
            self._queue.append(entry)
            self._rows, self._bytes = rows, size
            if (rows >= BATCH_ROWS or size >= BATCH_BYTES) and self._is_due():
                self._changed.notify_all()
            return True

    def _takes(self, entry: Entry) -> bool:
        """Whether there is room, or never will be; an entry larger than the limits is accepted if
        it is alone."""
        rows, size = self._rows + entry.n_rows, self._bytes + entry.n_bytes
        has_room = rows <= self._max_rows and size <= MAX_BYTES
        return has_room or not self._rows or self._closed or self._lease_lost is not None

    def _check(self) -> None:
        if self._closed:
            raise StoreError("the store's writer is closed: nothing can be added")
        if self._lease_lost is not None:
            raise self._lease_lost

    def _result(self) -> int:
        if (error := self._lease_lost or self._error) is not None:
            raise error
        return self.committed

    # The thread

    def _run(self) -> None:
        tries = 0  # since it was closed
        while tries < TRIES:
            with self._changed:
                self._changed.wait_for(self._is_due, self._commit_s)
                is_closed, asked = self._closed, self._asked
                pending, self._queue = self._queue, deque()
            error = self._commit_pending(pending)
            with self._changed:
                self._queue.extendleft(reversed(pending))
                self._error, self._attempted = error, asked
                since = self._failing_since or time.monotonic()
                self._failing_since = None if error is None else since
                self._changed.notify_all()
            if is_closed:
                tries = TRIES if error is None else tries + 1
        if self._error is not None:
            self.lost(self._rows, self._error)

    def _is_due(self) -> bool:
        """Whether a commit is requested, or there is a batch that need not wait."""
        is_full = self._rows >= BATCH_ROWS or self._bytes >= BATCH_BYTES
        return self._asked > self._attempted or (is_full and self._error is None)

    def _commit_pending(self, pending: deque[Entry]) -> StoreError | None:
        """Commit entries in order and remove them; return the error for which the rest waits.
        Entries added meanwhile wait for the next time, so that there are few parts per second."""
        try:
            self._settle(pending)
            while pending:
                batch = self._take(pending)
                try:
                    self._before()
                    self._commit(batch)
                finally:
                    pending.extendleft(reversed(batch))
        except LeaseLost as error:
            self._lease_lost = error
            while pending:
                self._fail(pending.popleft(), error)
        except StoreError as error:
            return error
        except Exception as error:  # of `before`: the rows stay
            log.error("the store's writer failed: %r", error)
            return StoreError(f"the store's writer failed: {error!r}")
        return None

    def _settle(self, pending: deque[Entry]) -> None:
        """Determine whether an unanswered commit took effect. Raises StoreError if that fails."""
        if self._unanswered is not None:
            entries, count = self._unanswered
            if settle(self._catalog, entries):
                rows = sum(entry["rows"] for entry in entries)
                self._let_go([pending.popleft() for _ in range(count)], rows)
            self._unanswered = None

    def _take(self, pending: deque[Entry]) -> list[Entry]:
        """Take the entries of about one part from the queue, and create their rows."""
        batch: list[Entry] = []
        rows, size, more, pause = 0, 0, 0, GilYielder()
        while pending and rows < BATCH_ROWS and size < BATCH_BYTES:
            entry = pending.popleft()
            before = entry.n_rows
            try:
                is_made = entry.make is None or self._make(entry, entry.make, pause)
            except StoreError:
                pending.appendleft(entry)
                if batch:
                    break  # those before it first
                raise
            if is_made:
                batch.append(entry)
                rows += entry.n_rows
                size += entry.n_bytes
                more += entry.n_rows - before
        with self._lock:
            self._rows += more
        return batch

    def _make(self, entry: Entry, make: Make, pause: GilYielder) -> bool:
        """Create an entry's rows; return whether it did not fail. Raises StoreError if it waits."""
        try:
            entry.make_rows(make)
            pause()
        except Exception as error:
            if self._waits([entry], error):
                raise
            self._fail(entry, error)
            return False
        return True

    def _commit(self, batch: list[Entry]) -> None:
        """Commit entries in one transaction, or the good ones without the bad, and remove them.
        Raises StoreError if the store accepts nothing."""
        tables = self._tables(batch)
        if not batch:
            return
        try:
            commit_tables(self._catalog, tables, changes(batch), self._lease)
        except CommitUncertain as error:
            self._unanswered = error.entries, len(batch)
            raise
        except Exception as error:
            if isinstance(error, LeaseLost) or self._waits(batch, error):
                raise
            if len(batch) == 1:
                self._fail(batch.pop(), error)
                return
            half = len(batch) // 2
            first, second = batch[:half], batch[half:]
            try:
                self._commit(first)
                self._commit(second)
            finally:
                batch[:] = [*first, *second]
            return
        self._let_go(batch, sum(table.num_rows for table in tables.values()))

    def _tables(self, batch: list[Entry]) -> dict[str, pa.Table]:
        """The rows of a batch, without those that do not fit their tables."""
        try:
            return to_tables(batch)
        except Exception:
            refused = dict(unfit(batch))
        for entry, error in refused.items():
            if entry.is_whole:
                self._fail(entry, error)
            else:
                self.lost(entry.leave_out_unfit(), error)
        batch[:] = [entry for entry in batch if entry not in refused or not entry.is_whole]
        return to_tables(batch)

    def _waits(self, failed: list[Entry], error: Exception) -> bool:
        """Whether to retry a failed commit: the store accepts nothing, or the error may pass."""
        if not isinstance(error, StoreError) or isinstance(error, PERMANENT):
            return False
        if isinstance(error, StoreFull):
            return True
        try:
            check_files(self._catalog)
            commit_tables(self._catalog, {}, write_nothing, self._lease)
        except StoreError:
            return True
        if len(failed) > 1:
            return False
        failed[0].tries += 1
        return failed[0].tries < TRIES

    def _fail(self, entry: Entry, error: Exception) -> None:
        self.lost(entry.n_rows, error)
        self._free([entry])
        if entry.on_refused is not None:
            try:
                entry.on_refused(error)
            except Exception:
                log.exception("the producer of a lost row failed")

    def _free(self, done: list[Entry]) -> None:
        with self._changed:
            for entry in done:
                self._rows -= entry.n_rows
                self._bytes -= entry.n_bytes
            self._changed.notify_all()

    def _let_go(self, committed: list[Entry], rows: int) -> None:
        """Count committed rows; free few entries at a time, as thousands block other threads."""
        self.committed += rows
        self._free(committed)
        pause = GilYielder()
        while committed:
            del committed[-FREED_AT_ONCE:]
            pause()
