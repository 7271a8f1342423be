"""Writes ended calls to the store.

Rows are made immediately if that is fast: otherwise a call's data would stay in memory until the
next commit, and one second of calls exceeds a processor's cache. Rows that take long, or need a
query, are made on the writer's thread, in the order of the program's calls.
"""

import asyncio
import threading
from collections import deque
from typing import Any

from tutti.storage import BufferedWriter, Catalog, Group, RowRefused, StoreError
from tutti.tasks.serving.gateway.recording.programs import ProgramAttempts
from tutti.tasks.serving.gateway.recording.record import CallRecord
from tutti.tasks.serving.gateway.recording.transcripts import Rows, Transcripts
from tutti.tasks.serving.gateway.settings import Settings
from tutti.tasks.serving.scheduling import ReasonCode

SOON_S = 0.005
AT_ONCE = 32  # a millisecond


class CallRecorder:
    """Records calls in the order in which they end, without blocking or failing a call."""

    def __init__(
        self, writer: BufferedWriter, transcripts: Transcripts, programs: ProgramAttempts
    ) -> None:
        self.writer, self._transcripts, self.programs = writer, transcripts, programs
        self._late: dict[str, set[str]] = {}
        """By program, the calls whose rows the writer's thread has yet to make."""
        self._lock = threading.Lock()
        self._ended: deque[CallRecord | tuple[str, ReasonCode]] = deque()
        """Calls, and programs with the reason of their end, in the order in which they ended."""

    @classmethod
    def of(cls, catalog: Catalog, writer: BufferedWriter, settings: Settings) -> "CallRecorder":
        """The recorder of a gateway with these settings."""
        transcripts = Transcripts(catalog.home)
        programs = ProgramAttempts(catalog, writer, transcripts, settings.name, settings.policy)
        return cls(writer, transcripts, programs)

    def keep_samples(self, rows: list[dict[str, Any]]) -> None:
        """Record samples of engines and GPUs."""
        for row in rows:
            self.writer.add("server_metrics", row)

    def soon(self, ended: CallRecord | tuple[str, ReasonCode]) -> None:
        """Record a call, or the end of a program, within milliseconds: neither the answer nor the
        next call waits for it."""
        if not self._ended:
            asyncio.get_running_loop().call_later(SOON_S, self._keep_some)
        self._ended.append(ended)

    def _keep_some(self) -> None:
        try:
            for _ in range(min(len(self._ended), AT_ONCE)):
                self.keep(self._ended.popleft())
        finally:
            if self._ended:
                asyncio.get_running_loop().call_soon(self._keep_some)

    def catch_up(self) -> None:
        """Record all ended calls, before a flush or the end."""
        while self._ended:
            self.keep(self._ended.popleft())

    def keep(self, ended: CallRecord | tuple[str, ReasonCode]) -> None:
        """Record a call, or the end of a program; the writer counts what cannot be recorded."""
        try:
            if isinstance(ended, tuple):
                self.programs.end(*ended)
            else:
                self._keep_call(ended)
        except Exception as error:  # of this call, which has ended; others are recorded
            self.writer.lost(1, error)

    def _keep_call(self, record: CallRecord) -> None:
        self.programs.take(record)
        if not self._takes_long(record):
            if not self.writer.add_all(self._rows(record)):
                self._transcripts.restart(record.attempt_id)
            return
        program, call_id = record.request.program, record.request.call_id
        with self._lock:
            self._late.setdefault(program, set()).add(call_id)

        def make() -> Group:
            group = Group(self._rows(record))
            self._made(program, call_id)
            return group

        def refused(_: object = None) -> None:
            self._transcripts.restart(record.attempt_id)  # later calls must not refer to its rows
            self._made(program, call_id)

        if not self.writer.add_made(make, record.n_bytes, refused):
            refused()

    def _takes_long(self, record: CallRecord) -> bool:
        request = record.request
        if record.is_heavy or request.program in self._late:
            return True
        if request.keeps_messages or request.is_auxiliary:
            return False
        if (attempt_id := record.attempt_id) in self._transcripts:
            return False
        return not attempt_id or record.program_began_before

    def _made(self, program: str, call_id: str) -> None:
        with self._lock:
            late = self._late.get(program, set())
            late.discard(call_id)
            if not late:
                self._late.pop(program, None)

    def _rows(self, record: CallRecord) -> Rows:
        """The rows of a call. Raises RowRefused, or an error of the store."""
        try:
            return record.rows(self._transcripts)
        except StoreError:
            raise  # before anything was noted of the call: it can be made again
        except Exception as error:
            # Its messages are lost, so later calls must not refer to them.
            self._transcripts.restart(record.attempt_id)
            raise RowRefused(f"call {record.request.call_id!r}: {error!r}") from error
