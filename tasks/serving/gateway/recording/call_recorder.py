"""Writes ended calls to the store.

Rows are made immediately if that is fast: otherwise a call's data would stay in memory until the
next commit, and one second of calls exceeds a processor's cache. Rows that take long, or need a
query, are made on the writer's thread, in the order of the program's calls.
"""

import asyncio
import threading
from collections import deque
from typing import Any

from tutti.storage import BufferedWriter, Catalog, Row
from tutti.tasks.serving.gateway.recording.programs import ProgramAttempts
from tutti.tasks.serving.gateway.recording.record import CallRecord
from tutti.tasks.serving.gateway.recording.transcripts import Transcripts
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
        self._late: dict[str, int] = {}
        """Programs with calls whose rows the writer's thread has yet to make."""
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
        for _ in range(min(len(self._ended), AT_ONCE)):
            self.keep(self._ended.popleft())
        if self._ended:
            asyncio.get_running_loop().call_soon(self._keep_some)

    def catch_up(self) -> None:
        """Record all ended calls, before a flush or the end."""
        while self._ended:
            self.keep(self._ended.popleft())

    def keep(self, record: CallRecord | tuple[str, ReasonCode]) -> None:
        """Record a call; the writer counts calls that cannot be recorded."""
        if isinstance(record, tuple):
            self.programs.end(*record)
            return
        self.programs.take(record)
        if not self._takes_long(record):
            self.writer.add_all(self._rows(record))
            return
        program = record.request.program
        with self._lock:
            self._late[program] = self._late.get(program, 0) + 1
        if not self.writer.add_made(lambda: self._make_late(record)):
            self._made(program)

    def _takes_long(self, record: CallRecord) -> bool:
        request = record.request
        if record.is_heavy or request.program in self._late:
            return True
        threads = request.keeps_messages or request.is_auxiliary
        if threads or record.attempt_id in self._transcripts:
            return False
        return record.program_began_before

    def _make_late(self, record: CallRecord) -> dict[str, list[Row]]:
        try:
            return self._rows(record)
        finally:
            self._made(record.request.program)

    def _made(self, program: str) -> None:
        with self._lock:
            self._late[program] -= 1
            if not self._late[program]:
                del self._late[program]

    def _rows(self, record: CallRecord) -> dict[str, list[Row]]:
        try:
            return record.rows(self._transcripts)
        except Exception as error:  # an invalid body must not affect the call, which has ended
            self.writer.lost(1, f"call {record.request.call_id!r}: {error!r}")
            return {}
