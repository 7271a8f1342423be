"""Writes ended calls to the store, and decisions as rows of `gateway_events`.

Rows are made immediately if that is fast: otherwise a call's data would stay in memory until the
next commit, and one second of calls exceeds a processor's cache. Rows that take long, or need a
query, are made on the writer's thread, in the order of the program's calls.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from tutti.storage import BufferedWriter, Group, RowRefused, StoreError
from tutti.storage import catalog as cat
from tutti.tasks.serving.gateway.calls.record import CallRecord
from tutti.tasks.serving.gateway.calls.transcripts import Rows, Transcripts
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint
from tutti.tasks.serving.gateway.endpoints.pools import Pools, warning
from tutti.tasks.serving.gateway.recording.programs import ProgramAttempts
from tutti.tasks.serving.scheduling import Call, Program, Reason, ReasonCode

SOON_S = 0.005
AT_ONCE = 32  # a millisecond


class CallRecorder:
    """Records calls in the order in which they end, without blocking or failing a call."""

    def __init__(
        self, writer: BufferedWriter, transcripts: Transcripts, programs: ProgramAttempts
    ) -> None:
        self.writer, self._transcripts, self.programs = writer, transcripts, programs
        self._late: dict[str, int] = {}
        """By program, the number of calls whose rows the writer's thread has yet to make."""
        self._lock = threading.Lock()
        self._ended: deque[CallRecord | tuple[str, ReasonCode]] = deque()
        """Calls, and programs with the reason of their end, in the order in which they ended."""

    def keep_samples(self, rows: list[dict[str, Any]]) -> None:
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

    def close(self) -> None:
        """Commit everything, and end the run. It blocks. Raises StoreError; rows are lost then."""
        try:
            self.writer.close()
        finally:
            self.programs.close()

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
            if not self.writer.add_all(self.rows(record)):
                self.restart(record.attempt_id)
            return
        program, late = record.request.program, _LateCall(self, record)
        with self._lock:
            self._late[program] = self._late.get(program, 0) + 1
        if not self.writer.add_made(late.make, record.n_bytes, late.refuse):
            late.refuse()

    def _takes_long(self, record: CallRecord) -> bool:
        request = record.request
        if record.is_heavy or request.program in self._late:
            return True
        if request.keeps_messages or request.is_auxiliary:
            return False
        if (attempt_id := record.attempt_id) in self._transcripts:
            return False
        return not attempt_id or record.program_began_before

    def made(self, program: str) -> None:
        """One of a program's late calls is made, or will never be."""
        with self._lock:
            self._late[program] -= 1
            if not self._late[program]:
                del self._late[program]

    def restart(self, attempt_id: str) -> None:
        """Rows of an attempt were lost: its later calls must not refer to them."""
        self._transcripts.restart(attempt_id)

    def rows(self, record: CallRecord) -> Rows:
        """The rows of a call. Raises RowRefused, or an error of the store."""
        try:
            return record.rows(self._transcripts)
        except StoreError:
            raise  # before anything was noted of the call: it can be made again
        except Exception as error:
            self.restart(record.attempt_id)
            raise RowRefused(f"call {record.request.call_id!r}: {error!r}") from error


class _LateCall:
    """A call whose rows the writer's thread makes; from then on it holds no more than its id."""

    __slots__ = ("_attempt_id", "_record", "_recorder")

    def __init__(self, recorder: CallRecorder, record: CallRecord) -> None:
        self._recorder, self._attempt_id = recorder, ""
        self._record: CallRecord | None = record

    def make(self) -> Group:
        """Its rows. Raises like `CallRecorder.rows`."""
        record = self._record
        assert record is not None, "it is made once"
        group = Group(self._recorder.rows(record))
        self._recorder.made(record.request.program)
        self._attempt_id, self._record = record.attempt_id, None
        return group

    def refuse(self, _: object = None) -> None:
        """Its rows are lost, or will never be made."""
        record = self._record
        if record is not None:
            self._recorder.made(record.request.program)
        self._recorder.restart(self._attempt_id if record is None else record.attempt_id)


log = logging.getLogger(__name__)
DECISION_EVENTS = frozenset(
    ("hold", "pause", "resume", "release", "expire", "reject", "disconnect")
)
MAX_REASON = 200


class EventLog:
    """Writes the events of one gateway."""

    def __init__(
        self, recorder: BufferedWriter, cell: Callable[[], str], count: Callable[[str], None]
    ) -> None:
        self._recorder, self._cell, self._count = recorder, cell, count
        self.pools: Pools | None = None
        self.all_events = False
        """Whether to record also the events that `calls` covers."""

    def note(self, event: str, program: Program, call: Call | None, reason: Reason) -> None:
        """Record a decision about a program or one of its calls."""
        self._count(f"event_{event}")
        if event not in DECISION_EVENTS and not self.all_events:
            return
        engine = program.engine
        row: dict[str, Any] = {"tokens": call.need_tokens if call else program.context_tokens}
        if engine is not None and engine.capacity_tokens is not None and self.pools is not None:
            pools = self.pools.by_name.values()
            pool = next((p for p in pools if engine.engine_id in p.endpoints), None)
            if pool is not None and engine is pool.endpoints[engine.engine_id].engine:
                row["booked"] = pool.scheduler.policy.booked_tokens(engine)
                row["capacity"] = engine.capacity_tokens
        self._add(program.program_id, event, reason, row)

    def trouble(self, reason: Reason) -> None:
        """Record a failure that belongs to no program: of an engine or of the policy."""
        self._add("", "reject", reason, {})

    def engine_trouble(self, endpoint: Endpoint, reason: str) -> None:
        self.trouble(Reason(ReasonCode.ENGINE_FAILED, f"{endpoint.name}: {reason}"))

    def lacking(self, endpoint: Endpoint) -> None:
        """Record an engine whose calls are scheduled by count, and warn the operator."""
        log.warning(text := warning(endpoint))
        self.trouble(Reason(ReasonCode.NO_METRICS, text))

    def unknown_cost(self, record: CallRecord) -> None:
        """Record the first call under a budget whose cost is unknown, and warn the operator."""
        why = "its price is unknown; budgets do not count it"
        if record.prices is not None:
            why = "its usage was not reported; budgets count an estimate"
        text = f"{record.endpoint}: the cost of a call of {record.model} is unknown: {why}"
        log.warning(text)
        self.trouble(Reason(ReasonCode.UNKNOWN_COST, text))

    def _add(self, program: str, event: str, reason: Reason, more: dict[str, Any]) -> None:
        row = {"at": cat.now(), "cell_id": self._cell(), "program_id": program}
        row |= {"event": event, "reason_code": reason.code, "reason": reason.text[:MAX_REASON]}
        self._recorder.add("gateway_events", row | more)
