"""Attempts of programs that come by base URL: an agent that is no sweep's is kept as a whole, too.

A program is every id that a call names outside a cell, unless its client stores its messages
itself. Its attempt is written when it is released, when its lease ends, when it is crowded out, or
when the gateway stops. A program that comes again is another attempt: `PROGRAM#2`. The attempts
have the id of the gateway's run, a row of `runs` with flow ``gateway``.
"""

import json
import uuid
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
from tutti.tasks.serving.gateway.calls.transcripts import Transcripts
from tutti.tasks.serving.scheduling import ReasonCode

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
        from tutti.tasks.runs import code_version, describe_machine  # only with a name

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
