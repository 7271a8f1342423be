"""The load on a router: ``python -m bench.gateway.client JOB`` with the job as JSON.

A closed loop on keep-alive connections with raw asyncio protocols and uvloop, in a separate
process: each connection sends the next call when its answer is complete. First the warm-up, then
the measurement. Out: one line of JSON, a `LoadResult`. The router's CPU is read here, around the
measured calls only.
"""

import asyncio
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import cast

import orjson
import uvloop

from bench.gateway.cost import cores, cpu_s, pinned
from bench.gateway.wire import (
    LAST_CHUNK,
    OTHER_EVENTS,
    PROGRAMS,
    Program,
    Programs,
    RouterProtocol,
    length_of,
)

TIMEOUT_S = 120.0
SETTLE_S, LOOK_S = 10.0, 1.25
SHORT_S, FEW_CALLS = 1.0, 64
AT_REST = 0.05  # of a core: it looks at its engines once a second


@dataclass(frozen=True)
class Job:
    """The load to generate, and its target."""

    port: int
    owner: int
    """The process whose descendants' CPU time is read."""
    connections: int
    speech: RouterProtocol = field(default_factory=RouterProtocol)
    seconds: float = 0.0
    """Measure for this long, or:"""
    calls: int = 0
    """Measure this number of calls."""
    warm: int = 0
    """Warm-up calls."""
    tokens: int = 0
    """Token events per stream; 0: no streams."""


@dataclass
class LoadResult:
    """What was measured."""

    calls: int
    sent: int
    """Including the warm-up: the number that a gateway should have recorded."""
    failed: int
    seconds: float
    cpu_s: float
    p50_ms: float
    p99_ms: float
    events: int
    """Complete events of streams that carry a token."""


class Load:
    """Warm-up and measurement on the same connections."""

    def __init__(self, job: Job) -> None:
        self.job = job
        count = max(PROGRAMS, job.connections * 3 // 2)  # some are always between their calls
        self.programs = Programs(job.speech, job.tokens, count)
        self.idle: list[Connection] = []
        self.over: asyncio.Future[None] | None = None
        self.sent = 0
        self._start(0, None)

    async def run(self) -> LoadResult:
        """Connect, warm up, measure."""
        self.idle = [await self._connect() for _ in range(self.job.connections)]
        await self._phase(self.job.warm, None)
        cpu, began = await self._settled(), perf_counter()
        until = began + self.job.seconds if self.job.seconds else None
        await self._phase(self.job.calls, until)
        seconds = perf_counter() - began
        return self._found(seconds, await self._settled() - cpu)

    async def _settled(self) -> float:
        """The router's CPU seconds once it is idle: deferred work belongs to the load too."""
        job = self.job
        if job.seconds < SHORT_S and job.calls < FEW_CALLS:  # nobody asks what so little costs
            return cpu_s(job.owner)
        spent, deadline = cpu_s(job.owner), perf_counter() + SETTLE_S
        while perf_counter() < deadline:
            await asyncio.sleep(LOOK_S)
            before, spent = spent, cpu_s(job.owner)
            if spent - before < AT_REST * LOOK_S:
                break
        return spent

    async def _connect(self) -> "Connection":
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: Connection(self), "127.0.0.1", self.job.port)
        return made

    def _found(self, seconds: float, cpu: float) -> LoadResult:
        times = sorted(self.times)
        assert times, "no call was answered"
        return LoadResult(
            calls=len(times),
            sent=self.sent,
            failed=self.failed,
            seconds=seconds,
            cpu_s=cpu,
            p50_ms=times[len(times) // 2] * 1000,
            p99_ms=times[int(len(times) * 0.99)] * 1000,
            events=self.events,
        )

    def _start(self, calls: int, until: float | None) -> None:
        self.left, self.until = calls, until
        self.times: list[float] = []
        self.failed = self.events = 0

    async def _phase(self, calls: int, until: float | None) -> None:
        self._start(calls, until)
        if not calls and until is None:
            return
        self.over = asyncio.get_running_loop().create_future()
        ready, self.idle = self.idle, []
        for connection in ready:
            closed = connection.transport.is_closing()  # some close what is idle for seconds
            self.next(await self._connect() if closed else connection)
        await asyncio.wait_for(self.over, TIMEOUT_S)

    def next(self, connection: "Connection") -> None:
        """The next call on a connection that is free, while there is one to send."""
        more = perf_counter() < self.until if self.until is not None else self.left > 0
        if more:
            self.left -= 1
            self.sent += 1
            connection.program, request = self.programs.take()
            connection.send(request)
            return
        self.idle.append(connection)
        if len(self.idle) == self.job.connections and self.over and not self.over.done():
            self.over.set_result(None)

    def answered(self, connection: "Connection", parts: list[bytes]) -> None:
        """An answer is complete: to a call, or to the release after a program's last call."""
        well = parts[0].startswith(b"HTTP/1.1 200")
        program, connection.program = connection.program, None
        release = None
        if program is not None:
            self.times.append(perf_counter() - connection.sent_at)
            self.failed += not well
            if self.job.tokens:
                self.events += b"".join(parts).count(b"data: ") - OTHER_EVENTS
            release = self.programs.put_back(program)
        if release is not None:
            connection.send(release)
        else:
            self.next(connection)

    def fail(self, error: Exception) -> None:
        """Abort: a router that closes connections under load is not measured further."""
        if self.over and not self.over.done():
            self.over.set_exception(error)


class Connection(asyncio.Protocol):
    """A connection with one request at a time."""

    transport: asyncio.Transport

    def __init__(self, load: Load) -> None:
        self.load = load
        self.program: Program | None = None
        self.parts: list[bytes] = []
        self.size = 0
        self.whole: int | None = None
        self.sent_at = 0.0
        self.waits = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready to send."""
        # uvloop's transports are not a subclass
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The router closed it, which it may between calls."""
        if self.waits:
            self.load.fail(ConnectionError(f"the router closed a connection in a call: {exc}"))

    def send(self, request: bytes) -> None:
        """Ask."""
        self.parts, self.size, self.whole = [], 0, None
        self.waits, self.sent_at = True, perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Tell the load when the answer is whole."""
        self.parts.append(data)
        self.size += len(data)
        if self.whole is None:
            self.whole = length_of(data if len(self.parts) == 1 else b"".join(self.parts))
            if self.whole is None:
                return
        if self.whole < 0:
            short = len(data) < len(LAST_CHUNK)
            end = b"".join(self.parts[-len(LAST_CHUNK) :]) if short else data
            if not end.endswith(LAST_CHUNK):
                return
        elif self.size < self.whole:
            return
        self.waits = False
        self.load.answered(self, self.parts)


def run_job(job: Job) -> LoadResult:
    """Run it in a separate process. Raises RuntimeError."""
    command = [sys.executable, "-m", "bench.gateway.client", orjson.dumps(asdict(job)).decode()]
    done = subprocess.run(pinned(command, cores()[1]), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the load client failed: {done.stderr[-600:]}")
    found = LoadResult(**orjson.loads(done.stdout))
    if found.failed:
        raise RuntimeError(f"{found.failed} of {found.calls} calls were not answered with 200")
    expected = job.tokens * found.calls
    if found.events != expected:
        raise RuntimeError(f"{found.events} events of {expected} came")
    return found


def main() -> None:
    """Do the job of the command line."""
    given = orjson.loads(sys.argv[1])
    job = Job(**given | {"speech": RouterProtocol(**given["speech"])})

    async def work() -> LoadResult:
        return await Load(job).run()  # the load needs a running loop

    print(orjson.dumps(asdict(uvloop.run(work()))).decode())


if __name__ == "__main__":
    main()
