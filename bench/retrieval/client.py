"""The load on the retrieval service: ``python -m bench.retrieval.client JOB`` with the job as JSON.

In: a port, connections, seconds, and a rate. Out: one line of JSON with the latencies. Rate 0 is a
closed loop: each connection sends its next request after its answer. Otherwise it is an open loop:
requests are due at that rate whether or not earlier ones are answered, and the latency includes the
wait for a free connection.
"""

import asyncio
import subprocess
import sys
from collections import deque
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import cast

import orjson
import uvloop

from bench.gateway.wire import length_of, post

WARM_S = 0.5
TOPK = 10
QUERIES = 4_096


@dataclass(frozen=True)
class Job:
    """The load to generate, and its target."""

    port: int
    connections: int
    seconds: float
    rate: float = 0.0
    """Requests per second (open loop); 0: closed loop."""


@dataclass(frozen=True)
class LoadResult:
    """What was measured after the warm-up."""

    per_s: float
    p50_ms: float
    p95_ms: float
    answered: int
    failed: int
    asked: int
    """Requests sent, including the warm-up."""


class Load:
    """Asks and counts."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.free: deque[Connection] = deque()
        self.due: deque[float] = deque()
        self.latencies: list[float] = []
        self.failed = self.asked = 0
        self.counts_from = self.ends = 0.0

    async def run(self) -> LoadResult:
        """The whole job."""
        loop = asyncio.get_running_loop()
        for _ in range(self.job.connections):
            made = await loop.create_connection(
                lambda: Connection(self), "127.0.0.1", self.job.port
            )
            self.free.append(made[1])
        self.counts_from = perf_counter() + WARM_S
        self.ends = self.counts_from + self.job.seconds
        if self.job.rate:
            await self._arrivals()
        else:
            while self.free:
                self.free.popleft().ask(perf_counter())
        while len(self.free) < self.job.connections:
            await asyncio.sleep(0.01)
        for connection in self.free:
            connection.transport.close()
        await asyncio.sleep(0)  # their ends are seen in the next turn of the loop
        return self._found()

    async def _arrivals(self) -> None:
        """Requests at equal intervals from now on, to the end."""
        began, sent = perf_counter(), 0
        while (at := perf_counter()) < self.ends:
            while began + sent / self.job.rate <= at:
                self.due.append(began + sent / self.job.rate)
                sent += 1
            while self.due and self.free:
                self.free.popleft().ask(self.due.popleft())
            await asyncio.sleep(0.0005)

    def answered(self, connection: "Connection", since: float, good: bool) -> None:
        """One answer is complete."""
        now = perf_counter()
        if self.counts_from <= since and now <= self.ends:
            self.latencies.append(now - since)
            self.failed += not good
        if self.due:
            connection.ask(self.due.popleft())
        elif not self.job.rate and now < self.ends:
            connection.ask(now)
        else:
            self.free.append(connection)

    def _found(self) -> LoadResult:
        ordered = sorted(self.latencies)
        p50, p95 = (ordered[int(share * (len(ordered) - 1))] * 1000 for share in (0.5, 0.95))
        rate = len(ordered) / self.job.seconds
        return LoadResult(rate, p50, p95, len(ordered), self.failed, self.asked)


class Connection(asyncio.Protocol):
    """One request at a time."""

    transport: asyncio.Transport

    def __init__(self, load: Load) -> None:
        self.load, self.since, self.data = load, 0.0, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready to ask."""
        # uvloop's transports are not a subclass
        self.transport = cast(asyncio.Transport, transport)

    def ask(self, since: float) -> None:
        """Send the next query; `since` is when it was due."""
        self.since, self.data = since, b""
        query = self.load.asked % QUERIES
        self.load.asked += 1
        body = orjson.dumps({"queries": [f"queries {query}"], "topk": TOPK})
        self.transport.write(post("/retrieve", body))

    def data_received(self, data: bytes) -> None:
        """Notify the load when the answer is complete."""
        self.data += data
        whole = length_of(self.data)
        if whole is not None and len(self.data) >= whole:
            self.load.answered(self, self.since, self.data.startswith(b"HTTP/1.1 200"))


def run_job(job: Job) -> LoadResult:
    """Run it in a separate process. Raises RuntimeError if a request was not answered."""
    command = [sys.executable, "-m", "bench.retrieval.client", orjson.dumps(asdict(job)).decode()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the load client failed: {done.stderr[-600:]}")
    found = LoadResult(**orjson.loads(done.stdout))
    if found.failed:
        raise RuntimeError(f"{found.failed} of {found.answered} requests were refused")
    return found


def main() -> None:
    """Do the job of the command line."""
    job = Job(**orjson.loads(sys.argv[1]))

    async def work() -> LoadResult:
        return await Load(job).run()

    print(orjson.dumps(asdict(uvloop.run(work()))).decode())


if __name__ == "__main__":
    main()
