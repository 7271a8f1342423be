"""Fuzz tests of every HTTP service: it survives, blocks its loop only briefly, and does not grow.

``make fuzz-http`` is the long run; the default is some thousands of requests. The engine behind the
gateway sends malformed responses, too. The longest hold of a loop is in CPU time (`held_loop`), as
a busy machine stops any process for longer.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.conftest import NewCatalog
from tests.e2e.fuzzed.http_fuzz import Fuzz, ReportFuzz, SearchFuzz
from tests.ports import free_ports
from tests.retrieval.vectors import passages
from tutti.storage import Home
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.retrieval import IndexSpec, build_index

REQUESTS = int(os.environ.get("TUTTI_FUZZ_REQUESTS", "6000"))
"""Of all services together: half for the gateway, a quarter each for the others."""
AT_ONCE = 16
PORT = "<port>"
TOKEN = "a-token-of-the-admins"
ANSWER_S, START_S = 120.0, 120.0
HELD_MS, GROWTH_MB = 50.0, 60.0

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300 + REQUESTS // 50)]


@dataclass(frozen=True)
class Service:
    """A service and the requests for it."""

    command: Sequence[str]
    """Its module and arguments; `PORT` stands for its port."""
    fuzz: Fuzz
    path: str
    """Of a request that is answered with 200."""
    environment: dict[str, str]
    requests: int


@asynccontextmanager
async def engine(fuzz: Fuzz) -> AsyncIterator[int]:
    """Run an engine that describes itself correctly and answers calls with fuzzed responses."""
    models = json.dumps({"data": [{"id": "m"}]}).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = [x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length")]
                await reader.readexactly(int(length[0].split(b":")[1]) if length else 0)
                sound = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(models) + models
                writer.write(sound if head.startswith(b"GET") else fuzz.answer())
                await writer.drain()
                if not head.startswith(b"GET"):
                    return  # else an answer that was cut short would be waited for
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def gateway(tmp_path: Path, new_catalog: NewCatalog) -> AsyncIterator[Service]:
    """Run a gateway in front of that engine."""
    async with engine(Fuzz(7, TOKEN)) as port:
        config = {"url": f"http://127.0.0.1:{port}", "id": "engine:1", "metrics": False}
        command = ["tutti.tasks.serving.gateway", "--port", PORT, "--hold-s", "2"]
        command += ["--engine", json.dumps(config), "--policy", "passthrough"]
        environment = {"TUTTI_GATEWAY_ADMIN_TOKEN": TOKEN}
        yield Service(command, Fuzz(20261122, TOKEN), "/health", environment, REQUESTS // 2)


@asynccontextmanager
async def retrieval(tmp_path: Path, new_catalog: NewCatalog) -> AsyncIterator[Service]:
    """Run the retrieval service with a small index."""
    with new_catalog(Home(tmp_path / "home")) as catalog:
        folder = build_index(passages(3000), catalog, IndexSpec(words=True))
    pools = tmp_path / "pools.json"
    pools.write_text(json.dumps({"m": ["p3", "p9"], "kept": []}))
    command = ["tutti.tasks.retrieval.service", "--index", str(folder), "--port", PORT]
    command += ["--pools", str(pools)]
    yield Service(command, SearchFuzz(20261124, TOKEN), "/health", {}, REQUESTS // 4)


@asynccontextmanager
async def reports(tmp_path: Path, new_catalog: NewCatalog) -> AsyncIterator[Service]:
    folder = tmp_path / "artifacts" / "report-0a"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<title>Sweep first</title>" * 20_000)
    (folder / "throughput.png").write_bytes(b"\x89PNG" * 20_000)
    command = ["tutti.cli.setup.reports", str(folder.parent), PORT]
    yield Service(command, ReportFuzz(20261125, TOKEN), "/report-0a/", {}, REQUESTS // 4)


@asynccontextmanager
async def running(service: Service, folder: Path) -> AsyncIterator[tuple[int, int]]:
    """Run a service and yield its process id and port; check its log after it has ended."""
    port, log_file = free_ports(), folder / "service.log"
    words = [str(port) if word == PORT else word for word in service.command]
    environment = {**os.environ, **service.environment, "TUTTI_HOME": str(folder / "home")}
    measured = ["-m", "tests.e2e.fuzzed.held_loop", str(folder / "held.json"), *words]
    with log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *measured, cwd=PROJECT, env=environment, stdout=log, stderr=log
        )
    try:
        async with asyncio.timeout(START_S):
            while await sound(port, service.path) != 200:
                assert process.returncode is None, log_file.read_text()
                await asyncio.sleep(0.1)
        process.send_signal(signal.SIGUSR1)  # its start is not measured
        yield process.pid, port
        assert process.returncode is None, "it died"
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), ANSWER_S)
    text = log_file.read_text(errors="replace")
    assert "Traceback" not in text and "never retrieved" not in text, text[-3000:]


async def sound(port: int, path: str) -> int:
    """Return the status of a valid request, or 0 if there is no response."""
    try:
        async with aiohttp.request("GET", f"http://127.0.0.1:{port}{path}") as answer:
            await answer.read()
            return answer.status
    except aiohttp.ClientError:
        return 0


async def send(port: int, data: bytes) -> bytes:
    """Send bytes and return what arrives until the other side closes or stops sending."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        async with asyncio.timeout(ANSWER_S):
            heard = await reader.read(65536)
    except ConnectionError:
        return b""
    except TimeoutError:
        return b"" if not data.endswith(b"}") else b"TIMEOUT"
    finally:
        writer.transport.abort()
    return heard


def rss_mb(pid: int) -> float:
    """Return the resident memory of the process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass
class Sent:
    """Results of the requests."""

    statuses: dict[str, int]
    silent: list[bytes]
    """Requests that should have been answered and were not."""
    rss_mb: list[float]
    """Memory at the start, and after each tenth of the requests."""


async def bombard(service: Service, pid: int, port: int) -> Sent:
    """Send all requests, several at a time."""
    sent = Sent({}, [], [rss_mb(pid)])
    left = service.requests

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            if left % (service.requests // 10) == 0:
                sent.rss_mb.append(rss_mb(pid))
            # What has an end is waited for; what has none is left by us.
            data = service.fuzz.request()
            heard = await asyncio.wait_for(send_some(port, data), 2 * ANSWER_S)
            status = heard[9:12].decode("latin-1")
            sent.statuses[status] = sent.statuses.get(status, 0) + 1
            if heard == b"TIMEOUT":
                sent.silent.append(data)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return sent


@pytest.mark.parametrize("kind", [gateway, retrieval, reports])
async def test_nothing_that_is_sent_stops_it(
    kind: Any, tmp_path: Path, new_catalog: NewCatalog
) -> None:
    """Every request is answered or its connection is closed; afterwards a valid request
    succeeds."""
    async with AsyncExitStack() as stack:
        service: Service = await stack.enter_async_context(kind(tmp_path, new_catalog))
        pid, port = await stack.enter_async_context(running(service, tmp_path))
        sent = await bombard(service, pid, port)
        print(f"\n{kind.__name__}: {service.requests} requests, {sorted(sent.statuses.items())}")
        rss = ", ".join(f"{mb:.0f}" for mb in sent.rss_mb)
        print(f"memory at the start and after each tenth: {rss} MB")
        assert await sound(port, service.path) == 200
        if kind is gateway:
            await check_gateway(port)
    held = json.loads((tmp_path / "held.json").read_text())
    print(f"longest hold of the loop {held['held_ms']:.1f} ms of CPU, by {held['by']}")
    assert sent.silent == [], sent.silent[:3]
    assert held["held_ms"] < HELD_MS
    assert sent.rss_mb[-1] - sent.rss_mb[5] < GROWTH_MB


async def check_gateway(port: int) -> None:
    """Check that nothing is left over and everything is recorded."""
    async with aiohttp.request("GET", f"http://127.0.0.1:{port}/health") as answer:
        found = await answer.json()
    assert found["counts"].get("faults", 0) == 0
    assert (found["held"], found["running"]) == (0, 0)
    assert found["unrecorded"] == 0, found["store_error"]


async def send_some(port: int, data: bytes) -> bytes:
    """Send bytes as `send` does; a truncated request gets no response and is abandoned early."""
    try:
        async with asyncio.timeout(ANSWER_S if whole(data) else 0.02):
            return await send(port, data)
    except TimeoutError:
        return b"TIMEOUT" if whole(data) else b""


def whole(data: bytes) -> bool:
    """Return whether a request has its whole body according to its head."""
    head, found, body = data.partition(b"\r\n\r\n")
    if not found or b"chunked" in head.lower() or b"expect" in head.lower():
        return False
    lengths = [x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")]
    try:
        return len(lengths) == 1 and len(body) >= int(lengths[0].split(b":")[1])
    except ValueError:
        return False
