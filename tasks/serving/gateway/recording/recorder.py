"""Writes ended calls, the attempts of programs and decisions to the store.

Rows are made immediately if that is fast: otherwise a call's data would stay in memory until the
next commit. Rows that take long, or need a query, are made on the writer's thread, in the order of
the program's calls. A program is every id that a call names outside a cell, unless its client
stores its messages itself. Its attempt is written when it is released, when its lease ends, when it
is crowded out, or when the gateway stops. A program that comes again is another attempt:
`PROGRAM#2`. The attempts have the id of the gateway's run, a row of `runs` with flow ``gateway``.
"""

import asyncio
import json
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tutti.storage import (
    BufferedWriter,
    Catalog,
    Group,
    ProgramCell,
    ProgramTally,
    RowRefused,
    StoreError,
    begin_program,
    end_program,
    held,
    known_programs,
    may_end,
    read_tallies,
    record_lost,
    sweep_of_gateway,
)
from tutti.storage import catalog as cat
from tutti.tasks.serving.gateway.calls.record import GENERATING, CallRecord
from tutti.tasks.serving.gateway.calls.transcripts import Rows, Transcripts
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint
from tutti.tasks.serving.gateway.endpoints.pools import Pools, warning
from tutti.tasks.serving.scheduling import Call, Program, Reason, ReasonCode

FLOW = "gateway"
KILLED = "the gateway was killed; this is when the next one of its name started"


@dataclass
class GatewayRun:
    """Its row. All methods block."""

    catalog: Catalog
    name: str
    """The name of the gateway's sweep: one process at a time has it."""
    policy: str
    run_id: str = field(default_factory=lambda: f"run:{uuid.uuid4().hex[:16]}")
    _row: dict[str, Any] = field(default_factory=dict)

    def enter(self) -> None:
        """Enter it as running; end what a killed gateway of that name left. Raises StoreError."""
        from tutti.tasks.platform.progress import code_version, describe_machine  # only with a name

        runs = cat.runs.c
        running = sa.select(cat.runs).where(runs.flow == FLOW, runs.status == "running")
        rows = [dict(row) for row in self.catalog.rows(running)]
        # Only one process has the name, so that these have ended.
        for lost in [row for row in rows if json.loads(row["params"]).get("name") == self.name]:
            ended = {"status": "failed", "error": KILLED, "ended_at": cat.now()}
            self.catalog.upsert(cat.runs, lost | ended)
        params = json.dumps({"name": self.name, "policy": self.policy}, sort_keys=True)
        row = {"run_id": self.run_id, "flow": FLOW, "params": params, "status": "running"}
        row |= {"machine": json.dumps(describe_machine()), "code_version": code_version()}
        self._row = row | {"started_at": cat.now()}
        self.catalog.upsert(cat.runs, self._row)

    def end(self) -> None:
        """Its end, if it was entered. Raises StoreError."""
        if self._row:
            ended = {"status": "completed", "ended_at": cat.now()}
            self.catalog.upsert(cat.runs, self._row | ended)


AGAIN = "#"
MAX_LIVES = 100_000
ENDINGS = {
    ReasonCode.RELEASED: "released",
    ReasonCode.LEASE_ENDED: "idle",
    ReasonCode.CROWDED_OUT: "crowded_out",
    ReasonCode.STOPPING: "gateway_stopped",
}
"""`attempts.stop_reason` by why a program ended; ``worker_lost``: its gateway was killed."""


@dataclass
class ProgramAttempts:
    """The attempts of one gateway's programs. All methods but `open` and `close` are for its event
    loop."""

    catalog: Catalog
    writer: BufferedWriter
    transcripts: Transcripts
    name: str
    """The name of the sweep that they are in; empty: none are kept."""
    policy: str
    _open: dict[str, ProgramTally] = field(default_factory=dict)
    _refused: dict[str, Callable[[], Group]] = field(default_factory=dict)
    """By program, the entry of its attempt that the queue had no room for: made again with its next
    call."""
    _lives: dict[str, int] = field(default_factory=dict)
    """How many attempts a program has had, of the `MAX_LIVES` that began last."""
    _asks_store: bool = False
    """Whether a program may have been forgotten: then the writer's thread asks the store."""
    _held: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.run = GatewayRun(self.catalog, self.name, self.policy)

    def open(self, living: Iterable[tuple[str, str]]) -> None:
        """Take the name, go on with the `living` programs of the journal (pool, id), and record the
        others that a killed gateway left. Raises StoreBusy if a gateway of that name runs,
        StoreError."""
        if not self.name:
            return
        self._held.enter_context(held(self.catalog, sweep_of_gateway(self.name)))
        self.run.enter()
        known, wanted = known_programs(self.catalog, self.name), {program for _, program in living}
        self._asks_store = len(known) > MAX_LIVES
        for attempt_id in () if self._asks_store else known:
            program, number = program_of(attempt_id)
            self._lives[program] = max(self._lives.get(program, 0), number)
        running = [each for each, state in known.items() if state == "running"]
        going_on = [each for each in running if program_of(each)[0] in wanted]
        for attempt_id, tally in read_tallies(self.catalog, going_on).items():
            self._open[program_of(attempt_id)[0]] = tally
        lost = [each for each in running if each not in going_on]
        record_lost(self.catalog, lost, self.run.run_id)

    def take(self, record: CallRecord) -> None:
        """A call has ended: it is its program's."""
        request = record.request
        if not self.name or request.cell or request.is_anonymous:
            return
        if request.is_auxiliary or request.keeps_messages:
            return
        tally = self._open.get(request.program)
        if tally is None and request.kind in GENERATING:
            tally = self._begin(record)
        elif request.program in self._refused:
            self._enter(request.program, self._refused.pop(request.program))
        if tally is not None:
            record.tally = tally
            request.cell = tally.cell.cell_id

    def _begin(self, record: CallRecord) -> ProgramTally:
        program = record.request.program
        cell = ProgramCell(self.name, record.model or record.request.model, self.policy)
        tally = self._open[program] = ProgramTally("", cell)
        run_id, started_at = self.run.run_id, cat.at(record.sent)
        if not self._asks_store:
            tally.attempt_id = self._next_life(program)

        def complete(connection: sa.Connection) -> None:
            begin_program(connection, tally.attempt_id, cell, run_id, started_at)

        def make() -> Group:
            tally.attempt_id = tally.attempt_id or self._next_life(program)
            return Group({}, complete)

        self._enter(program, make)
        return tally

    def _enter(self, program: str, make: Callable[[], Group]) -> None:
        if not self.writer.add_made(make):
            self._refused[program] = make

    def _next_life(self, program: str) -> str:
        """The id of a program's next attempt. While the store need not be asked, it is called on
        the event loop; from then on, on the writer's thread."""
        number = self._lives.pop(program, 0) + 1
        if self._asks_store and number == 1:
            states = cat.attempt_states.c
            query = sa.select(states.attempt_id)
            while self.catalog.rows(query.where(states.attempt_id == attempt_of(program, number))):
                number += 1
        self._lives[program] = number  # as the last
        if len(self._lives) > MAX_LIVES:
            self._asks_store = True
            del self._lives[next(iter(self._lives))]
        return attempt_of(program, number)

    def end(self, program: str, code: ReasonCode) -> None:
        """A program has ended: its attempt is written behind its calls."""
        tally = self._open.pop(program, None)
        if tally is None:
            return
        if (entry := self._refused.pop(program, None)) is not None:
            self.writer.add_made(entry)

        def make() -> Group:
            attempt_id = tally.attempt_id
            self.transcripts.forget(attempt_id)
            if not attempt_id or not may_end(self.catalog, attempt_id, tally.cell.cell_id):
                return Group({})
            row = tally.row(ENDINGS.get(code, str(code)), self.run.run_id)
            status = row["status"]
            return Group({"attempts": [row]}, lambda sql: end_program(sql, attempt_id, status))

        # A row that no longer fits leaves the program running: the next start records it as lost.
        self.writer.add_made(make)

    def end_all(self) -> None:
        """The gateway stops: all programs end."""
        for program in list(self._open):
            self.end(program, ReasonCode.STOPPING)

    def close(self) -> None:
        """End the run and give the name back, once everything is committed. It blocks."""
        with self._held:
            self.run.end()


def attempt_of(program: str, number: int) -> str:
    """The id of a program's attempt of that number, from 1."""
    return program if number == 1 else f"{program}{AGAIN}{number}"


def program_of(attempt_id: str) -> tuple[str, int]:
    """The program of an attempt, and which of its attempts it is, from 1."""
    program, again, number = attempt_id.rpartition(AGAIN)
    return (program, int(number)) if again and number.isdigit() else (attempt_id, 1)


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
        """Record that the rows of one of a program's late calls exist, or never will."""
        with self._lock:
            self._late[program] -= 1
            if not self._late[program]:
                del self._late[program]

    def restart(self, attempt_id: str) -> None:
        """Forget an attempt's messages after rows were lost: later calls must not refer to them."""
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
    """A call whose rows the writer's thread creates; from then on it holds only its id."""

    __slots__ = ("_attempt_id", "_record", "_recorder")

    def __init__(self, recorder: CallRecorder, record: CallRecord) -> None:
        self._recorder, self._attempt_id = recorder, ""
        self._record: CallRecord | None = record

    def make(self) -> Group:
        """Return its rows. Raises like `CallRecorder.rows`."""
        record = self._record
        assert record is not None, "it is made once"
        group = Group(self._recorder.rows(record))
        self._recorder.made(record.request.program)
        self._attempt_id, self._record = record.attempt_id, None
        return group

    def refuse(self, _: object = None) -> None:
        """Record that its rows are lost, or will never exist."""
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
