"""Thousands of held programs: ``python -m bench.gateway.held JOB`` with the job as JSON.

Each program's one call arrives on a connection of its own; the engines, which hold their answers,
have room for few, so the gateway holds the rest. Then engines answer one call after another, its
program is released, and the gateway decides who follows. All the while another process asks
``/health`` every 20 ms: how long it waits is how long the event loop stood still. Out: a line of
JSON, a `HeldResult`.
"""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable
from dataclasses import asdict, dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, cast

import orjson
import uvloop

from bench.gateway.cost import cores, cpu_s, pinned, rss_mb
from bench.gateway.wire import (
    ADMIN,
    Programs,
    RouterProtocol,
    body_of,
    get,
    length_of,
    post,
    release,
)

SETTLE_S = 30.0
ANSWER_TIMEOUT_S = 30.0
CELL = {"cell_id": "bench", "concurrency": 5000}


@dataclass(frozen=True)
class HeldJob:
    """The programs to hold, and how."""

    port: int
    owner: int
    """The gateway's supervisor."""
    control_port: int
    """Control port of an engine."""
    programs: int
    released: int
    arrivals_per_s: float = 1500.0
    releases_per_s: float = 500.0
    cap: int = 0
    """Set the policy `cap` with this limit; 0: the policy is not changed."""
    speech: RouterProtocol = field(default_factory=RouterProtocol)
    held_field: str = "held"
    """The field of `/health` with the number of held calls."""
    watch_s: float = 0.0
    """If nothing is released: how long to observe."""


@dataclass
class HeldResult:
    """What was measured."""

    held: int
    """Calls held by the gateway when all had arrived; the engines held the answers of the
    others."""
    rss_mb: float
    rss_before_mb: float
    cpu_us_per_program: float
    """From an engine's answer through the release to the next call at an engine."""
    release_p99_ms: float
    poll_p99_ms: float
    poll_max_ms: float
    arrival_poll_max_ms: float
    health: dict[str, Any]
    """The gateway's own figures at the end."""


class Channel(asyncio.Protocol):
    """A connection with at most one request in progress."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.buffer = b""
        self.asked: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready to ask."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        """No answer will come."""
        if self.asked is not None and not self.asked.done():
            self.asked.set_exception(ConnectionError(f"closed before the answer: {exc}"))

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a request and wait for the answer's body, with a time limit."""
        self.asked = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.asked

    def data_received(self, data: bytes) -> None:
        """Hand over a whole answer."""
        self.buffer += data
        whole = length_of(self.buffer)
        if whole is None or len(self.buffer) < whole or self.asked is None:
            return
        answer, self.buffer = self.buffer, b""
        if answer.startswith(b"HTTP/1.1 200"):
            self.asked.set_result(body_of(answer))
        else:
            self.asked.set_exception(RuntimeError(f"refused: {answer[:300]!r}"))


async def connect(port: int) -> Channel:
    """A channel to a loopback port."""
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(Channel, "127.0.0.1", port)
    return channel


class Poller:
    """The process that polls ``/health``; its measurements are read when it ends."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-m", "bench.gateway.poll", str(port)]
        self._process = subprocess.Popen(
            pinned(command, cores()[1]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has had its first answer

    def stop(self) -> list[tuple[float, float]]:
        """When each request was due and how many milliseconds its answer took."""
        told, _ = self._process.communicate(timeout=10)
        return [(at, ms) for at, ms in orjson.loads(told)]


class Driver:
    """Sends all programs' calls and releases."""

    def __init__(self, job: HeldJob) -> None:
        self.job = job
        self.channels: list[Channel] = []
        self.answered: asyncio.Queue[str] = asyncio.Queue()
        self.programs = Programs(job.speech, count=job.programs)

    async def run(self) -> HeldResult:
        """Arrive, hold, release."""
        job = self.job
        self.gateway, self.engines = await connect(job.port), await connect(job.control_port)
        if job.cap:
            order = orjson.dumps(CELL | {"policy": "cap", "limit": job.cap})
            asked = post("/cell", order, f"Authorization: Bearer {ADMIN}\r\n")
            await self.gateway.ask(asked.replace(b"POST", b"PUT", 1))
        before = rss_mb(job.owner)
        poller = Poller(job.port)
        await self._arrive()
        held = await self._settle()
        full, cpu, began = rss_mb(job.owner), cpu_s(job.owner), perf_counter()
        times = sorted([await self._release_one(began, number) for number in range(job.released)])
        await asyncio.sleep(job.watch_s)
        over, cpu = perf_counter(), cpu_s(job.owner) - cpu
        health = await self._health()
        seen = poller.stop()
        arriving = [ms for at, ms in seen if at < began]
        releasing = sorted(ms for at, ms in seen if began <= at < over)
        return HeldResult(
            held=held,
            rss_mb=full,
            rss_before_mb=before,
            cpu_us_per_program=cpu / max(1, job.released) * 1e6,
            release_p99_ms=_p99(times) * 1000,
            poll_p99_ms=_p99(releasing),
            poll_max_ms=releasing[-1],
            arrival_poll_max_ms=max(arriving),
            health=health,
        )

    async def _arrive(self) -> None:
        began = perf_counter()
        for number in range(self.job.programs):
            channel = await connect(self.job.port)
            self.channels.append(channel)
            program, request = self.programs.take()
            asked = channel.ask(request)
            asked.add_done_callback(partial(self._note, program.name))
            await _until(began + number / self.job.arrivals_per_s)

    def _note(self, name: str, done: "asyncio.Future[bytes]") -> None:
        if not done.cancelled() and done.exception() is None:
            self.answered.put_nowait(name)

    async def _settle(self) -> int:
        """Wait until every call is held by gateway or engine; returns how many the gateway
        holds."""
        deadline = perf_counter() + SETTLE_S
        while True:
            health = await self._health()
            engines = orjson.loads(await self.engines.ask(post("/control", b"{}")))
            held = int(health[self.job.held_field])
            if held + engines["held"] >= self.job.programs:
                return held
            if perf_counter() > deadline:
                raise RuntimeError(
                    f"of {self.job.programs} calls the router holds {held}, the engines "
                    f"{engines['held']}"
                )
            await asyncio.sleep(0.2)

    async def _health(self) -> dict[str, Any]:
        # On a new connection: some servers close one that was idle for seconds.
        channel = await connect(self.job.port)
        try:
            return dict(orjson.loads(await channel.ask(get("/health"))))
        finally:
            channel.transport.close()

    async def _release_one(self, began: float, number: int) -> float:
        """Let an engine answer and release the program; returns the seconds until the gateway has
        confirmed."""
        await _until(began + number / self.job.releases_per_s)
        # A program just admitted may still be on its way to the engine.
        await self._in_time(self.engines.ask(post("/control", b'{"release":1}')))
        name = await self._in_time(self.answered.get())
        asked = perf_counter()
        await self._in_time(self.gateway.ask(release(name)))
        return perf_counter() - asked

    async def _in_time(self, work: Awaitable[Any]) -> Any:
        return await asyncio.wait_for(work, ANSWER_TIMEOUT_S)


async def _until(when: float) -> None:
    left = when - perf_counter()
    if left > 0:
        await asyncio.sleep(left)


def _p99(ordered: list[float]) -> float:
    return ordered[int(len(ordered) * 0.99)] if ordered else 0.0


def run_job(job: HeldJob) -> HeldResult:
    """Run it in a process of its own. Raises RuntimeError."""
    command = [sys.executable, "-m", "bench.gateway.held", orjson.dumps(asdict(job)).decode()]
    done = subprocess.run(pinned(command, cores()[1]), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"holding failed: {done.stderr[-600:]}")
    return HeldResult(**orjson.loads(done.stdout))


def main() -> None:
    """Do the job of the command line."""
    given = orjson.loads(sys.argv[1])
    job = HeldJob(**given | {"speech": RouterProtocol(**given["speech"])})

    async def work() -> HeldResult:
        return await Driver(job).run()

    print(orjson.dumps(asdict(uvloop.run(work()))).decode())


if __name__ == "__main__":
    main()
