"""The background writer: callers add rows, and a thread commits them, with bounded memory.

`add` never waits and never fails: when the buffer is full it refuses the rows and counts them (a
gateway's calls). `put` waits for room instead, so that the producer slows down to the speed of the
disk (a sweep's attempts). Rows that cannot be committed stay in the buffer and are tried again.
"""

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tutti.storage.catalog import Catalog
from tutti.storage.errors import CommitUncertain, LeaseLost, RowRefused, StoreError
from tutti.storage.leases import Lease
from tutti.storage.write.batch import Batch, Group, MakeRows, Row, UnansweredCommit, merged, unfit
from tutti.storage.write.encode import to_arrow
from tutti.storage.write.writer import Complete, commit_tables, end_attempts, settle

COMMIT_S = 1.0
MAX_ROWS = 200_000  # about 100 MB: minutes of a busy gateway while the disk is unavailable
BATCH_ROWS = 50_000  # rows of one commit: a part of a few MB, a second's work
TIMEOUT_S = 600.0
NONE_ENDED: Mapping[str, str] = MappingProxyType({})


class BufferedWriter:
    """Takes rows from any thread; one thread commits them every `commit_s`, or when a batch is
    full.

    `before` is called on that thread before each commit; if it raises StoreError, the commit fails.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        max_rows: int = MAX_ROWS,
        commit_s: float = COMMIT_S,
        lease: Lease | None = None,
        before: Callable[[], object] | None = None,
    ) -> None:
        self._catalog, self._max_rows, self._commit_s = catalog, max_rows, commit_s
        self._lease, self._before = lease, before
        self._changed = threading.Condition(threading.Lock())
        self._next = Batch()
        self._again: Batch | None = None  # the rest of a commit that failed
        self._ahead: Batch | None = None  # committed after it, and before new rows
        self._room = max_rows
        self._asked = self._attempted = 0  # flushes
        self._error: StoreError | None = None  # of the last commit
        # an error that no retry can fix; put and flush raise it
        self._refused: Exception | None = None
        self._failing_since: float | None = None
        self._note = ""  # rows added without waiting that were lost
        self._closed = False
        self.committed = 0
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="store writer", daemon=True)
        self._thread.start()

    @property
    def failing_s(self) -> float:
        """Seconds for which no commit has succeeded although rows were waiting."""
        since = self._failing_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def last_error(self) -> str:
        """The error of the last commit; empty if it succeeded."""
        return str(self._refused or self._error or self._note)

    def add(self, table: str, row: Row) -> bool:
        """Add a row without waiting; if the buffer is full, the row is counted and False
        returned."""
        return self.add_all({table: [row]})

    def add_all(self, rows: Mapping[str, list[Any]]) -> bool:
        """Like `add`, for rows of several tables: all of them, or none."""
        size = sum(map(len, rows.values()))
        with self._changed:
            if self._room < size or self._closed:
                self.dropped += size
                return False
            for table, more in rows.items():
                self._next.loose.setdefault(table, []).extend(more)
            self._room -= size
            return True

    def lost(self, rows: int, reason: str) -> None:
        """Count rows that could not be made; `last_error` gives the reason."""
        with self._changed:
            self.dropped += rows
            self._note = f"a row was lost: {reason}"

    def add_made(self, make: MakeRows) -> bool:
        """Like `add`, for rows that `make` creates on the writer's thread, in order of arrival."""
        with self._changed:
            if self._room <= 0 or self._closed:
                self.dropped += 1
                return False
            self._next.makers.append(make)
            self._room -= 1
            return True

    def put(
        self,
        rows: Mapping[str, list[Any]],
        complete: Complete | None = None,
        timeout_s: float = TIMEOUT_S,
        *,
        ended: Mapping[str, str] = NONE_ENDED,
    ) -> None:
        """Add rows that become visible together, with the changes of `complete`; wait for space.

        `ended` are attempts that end with these rows, with their status; those of many groups are
        ended by one statement. Raises the error that made an earlier commit fail permanently
        (LeaseLost, RowRefused, AssertionError for an attempt that was not running), and StoreError
        if there is no space after `timeout_s`.
        """
        group = Group(rows, complete, ended)
        with self._changed:
            if not self._changed.wait_for(lambda: self._takes(group), timeout_s):
                raise StoreError(f"nothing was committed for {timeout_s:.0f} s: {self.last_error}")
            self._take_in(group)

    def offer(
        self,
        rows: Mapping[str, list[Any]],
        ended: Mapping[str, str] = NONE_ENDED,
        complete: Complete | None = None,
    ) -> bool:
        """Like `put`, but returns False without adding anything if `put` would wait.

        For event loops, which must not block. Raises like `put`, except for the time-out.
        """
        group = Group(rows, complete, ended)
        with self._changed:
            if not self._takes(group):
                return False
            self._take_in(group)
            return True

    def _takes(self, group: Group) -> bool:
        """Whether there is space; a group larger than the limit is accepted if it is alone."""
        empty = self._room == self._max_rows
        return bool(self._refused) or empty or self._room >= group.size

    def _take_in(self, group: Group) -> None:
        self._raise_refused()
        self._next.groups.append(group)
        self._room -= group.size
        if self._max_rows - self._room >= BATCH_ROWS:
            self._changed.notify_all()

    def flush(self, timeout_s: float = TIMEOUT_S) -> int:
        """Commit everything added so far; returns the total number of committed rows.

        Raises the StoreError of the commit. Rows that were not committed stay and are retried,
        unless they can never be committed (LeaseLost, RowRefused).
        """
        with self._changed:
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._attempted >= mine, timeout_s):
                raise StoreError(f"the commit did not end within {timeout_s:.0f} s")
            self._raise_refused()
            if self._error is not None:
                raise self._error
            return self.committed

    def close(self, timeout_s: float = TIMEOUT_S) -> None:
        """Commit the remaining rows and end the thread. Raises like `flush`, and ends the thread
        anyway."""
        if not self._thread.is_alive():
            return
        try:
            self.flush(timeout_s)
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            self._thread.join(timeout_s)

    def __enter__(self) -> "BufferedWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raise_refused(self) -> None:
        if self._refused is not None:
            refused, self._refused = self._refused, None
            raise refused

    def _run(self) -> None:
        while True:
            with self._changed:
                full = self._max_rows - self._room >= BATCH_ROWS and self._error is None
                if not (self._closed or self._asked > self._attempted or full):
                    self._changed.wait(self._commit_s)
                if self._closed:
                    return
                asked = self._asked
            error = self._commit_all()
            with self._changed:
                self._error, self._attempted = error, asked
                if error is None:
                    self._failing_since = None
                else:
                    self._failing_since = self._failing_since or time.monotonic()
                self._changed.notify_all()

    def _commit_all(self) -> StoreError | None:
        """Commit the present rows. Rows added meanwhile wait, so that there are few parts per
        second."""
        with self._changed:
            left = self._max_rows - self._room
        while left > 0 and (batch := self._take()):
            left -= batch.charged
            batch.prepare()  # before the next batch: rows are made in order of arrival
            ahead, failed = self._prepare_next(), None
            try:
                self._commit(batch)
            except StoreError as error:
                failed = error
            # errors of `before` or of making rows: no caller may wait forever
            except Exception as error:
                self._refuse(error, batch.charged)
                batch = Batch(charged=batch.charged)
            if ahead is not None:
                ahead.join()
            with self._changed:
                self._again = batch if failed else None
                self._room += batch.charged - batch.size
                batch.charged = batch.size
                self._changed.notify_all()
            if failed is not None:
                return failed
        return None

    def _take(self) -> Batch:
        """The next batch, of about BATCH_ROWS; the rest stays. A failed batch is retried
        unchanged."""
        with self._changed:
            if self._again:
                return self._again
            if self._ahead is not None:
                taken, self._ahead = self._ahead, None
                return taken
            return self._cut()

    def _prepare_next(self) -> threading.Thread | None:
        """Convert the next batch to tables while the disk is busy with this one."""
        with self._changed:
            if self._ahead is not None or self._next.size < BATCH_ROWS // 2:
                return None
            self._ahead = self._cut()
        thread = threading.Thread(target=self._ahead.prepare, daemon=True)
        thread.start()
        return thread

    def _cut(self) -> Batch:
        """Cut about BATCH_ROWS from the waiting rows."""
        size, count = 0, 0
        for group in self._next.groups:
            if count and size + group.size > BATCH_ROWS:
                break
            size, count = size + group.size, count + 1
        taken = Batch(self._next.groups[:count], self._next.loose, self._next.makers)
        taken.charged = taken.size
        self._next = Batch(self._next.groups[count:])
        return taken

    def _commit(self, batch: Batch) -> None:
        """Commit a batch and remove what is done from it. Raises errors that may be temporary."""
        if batch.failure is not None:
            raise batch.failure
        if self._before is not None:
            self._before()
        self._resolve(batch)
        if not batch:
            return  # it took effect
        batch.prepare()  # again if part of it took effect
        try:
            if batch.tables is None:
                self._commit_apart(batch)
            else:
                self._commit_tables(batch, batch.tables, batch.groups, batch.loose)
        except LeaseLost as error:
            self._refuse(error, batch.size)
            batch.without(batch.groups, batch.loose)
        except StoreError:
            raise
        except Exception:  # raised by a group's `complete`; passed to the waiting caller
            self._commit_apart(batch)

    def _resolve(self, batch: Batch) -> None:
        """Find out whether an unanswered commit took effect. Raises StoreError if that fails."""
        if (last := batch.unanswered) is None:
            return
        if settle(self._catalog, last.entries):
            self.committed += Batch(last.groups, dict(last.loose)).size
            batch.without(last.groups, last.loose)
        batch.unanswered = None

    def _commit_apart(self, batch: Batch) -> None:
        """Commit rows separately, so that one invalid row or group does not affect the others."""
        for table, rows in batch.loose.items():
            reasons = [unfit(table, row) for row in rows]
            batch.loose[table] = [row for row, why in zip(rows, reasons, strict=True) if not why]
            self.dropped += len(rows) - len(batch.loose[table])
            self._note = next((f"a row was dropped: {why}" for why in reasons if why), self._note)
        self._commit_rows(batch, [], batch.loose)
        for group in list(batch.groups):
            try:
                self._commit_rows(batch, [group], {})
            except (RowRefused, LeaseLost) as error:
                self._refuse(error, group.size)
            except StoreError:
                raise
            except Exception as error:
                self._refuse(error, group.size)
            batch.without([group], {})

    def _commit_rows(
        self, batch: Batch, groups: list[Group], loose: Mapping[str, list[Any]]
    ) -> None:
        rows = merged(groups, loose)
        tables = {name: to_arrow(name, given, yield_gil=True) for name, given in rows.items()}
        self._commit_tables(batch, tables, groups, loose)

    def _commit_tables(
        self,
        batch: Batch,
        tables: Mapping[str, pa.Table],
        groups: list[Group],
        loose: Mapping[str, list[Any]],
    ) -> None:
        completes = [group.complete for group in groups if group.complete is not None]
        ended = {key: status for group in groups for key, status in group.ended.items()}

        def complete(connection: sa.Connection) -> None:
            if ended:
                end_attempts(connection, ended)
            for change in completes:
                change(connection)

        try:
            states = complete if completes or ended else None
            commit_tables(self._catalog, tables, states, self._lease)
        except CommitUncertain as error:
            batch.unanswered = UnansweredCommit(error.entries, groups, loose)
            raise
        self.committed += sum(table.num_rows for table in tables.values())
        batch.without(groups, loose)

    def _refuse(self, error: Exception, rows: int) -> None:
        self.dropped += rows
        self._refused = error
