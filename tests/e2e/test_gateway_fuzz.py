"""A real gateway under fuzzed requests: it survives, never stalls, and does not grow.

``TUTTI_FUZZ_REQUESTS=200000 pytest tests/e2e/test_gateway_fuzz.py -s -m e2e`` for the long run; by
default some thousands. The engine behind it answers as badly.
"""

import asyncio
import json
import os
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.gateway_fuzz import Fuzz
from tutti.tasks.project import PROJECT

REQUESTS = int(os.environ.get("TUTTI_FUZZ_REQUESTS", "6000"))
AT_ONCE = 16
TOKEN = "a-token-of-the-admins"
ANSWER_S = 20.0
STALL_MS, GROWTH_MB = 100.0, 60.0

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60 + REQUESTS // 50)]


@asynccontextmanager
async def engine(fuzz: Fuzz) -> AsyncIterator[int]:
    """An engine that is sound when it is asked what it is, and answers calls badly."""
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


async def start_gateway(home: Path, engine_port: int) -> tuple[asyncio.subprocess.Process, int]:
    """The process, and its port."""
    config = {"url": f"http://127.0.0.1:{engine_port}", "id": "engine:1", "metrics": False}
    command = [sys.executable, "-m", "tutti.tasks.serving.gateway", "--port", "0", "--hold-s", "2"]
    with (home.parent / "gateway.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            *("--engine", json.dumps(config), "--policy", "passthrough"),
            cwd=PROJECT,
            env={**os.environ, "TUTTI_HOME": str(home), "TUTTI_GATEWAY_ADMIN_TOKEN": TOKEN},
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 30)
    return process, int(line.rsplit(b":", 1)[1])


async def send(port: int, data: bytes) -> bytes:
    """Send bytes and hear what comes until the other side ends, or says no more."""
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


def health(port: int) -> dict[str, float]:
    """What the gateway says of itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
        found: dict[str, float] = json.load(answer)
    return found


def rss_mb(pid: int) -> float:
    """Memory that the process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def test_nothing_that_is_sent_stops_it(tmp_path: Path) -> None:
    """Every request is answered or cut; afterwards a sound call is answered as ever."""
    home = tmp_path / "home"
    fuzz = Fuzz(20261122, TOKEN)
    answers = Fuzz(7, TOKEN)
    async with engine(answers) as engine_port:
        process, port = await start_gateway(home, engine_port)
        try:
            left, odd, statuses = REQUESTS, list[bytes](), dict[bytes, int]()
            rest = [0.0]

            async def work() -> None:
                nonlocal left
                while left > 0:
                    left -= 1
                    if left == REQUESTS // 2:
                        rest[0] = rss_mb(process.pid)
                    # What has an end is waited for; what has none is left by us.
                    data = fuzz.request()
                    heard = await asyncio.wait_for(send_some(port, data), 2 * ANSWER_S)
                    statuses[heard[9:12]] = statuses.get(heard[9:12], 0) + 1
                    if heard == b"TIMEOUT":
                        odd.append(data)

            await asyncio.gather(*(work() for _ in range(AT_ONCE)))
            assert process.returncode is None, "it died"
            found, grown = await asyncio.to_thread(health, port), rss_mb(process.pid) - rest[0]
            print(f"\n{REQUESTS} requests: {dict(sorted(statuses.items()))}")
            print(f"stall {found['loop_stall_max_ms']:.1f} ms, second half {grown:+.1f} MB")
            print(f"counts {found['counts']}, unrecorded {found['unrecorded']}")
            assert odd == [], odd[:3]
            assert found["counts"].get("faults", 0) == 0  # type: ignore[attr-defined]
            assert (found["held"], found["running"]) == (0, 0)
            assert found["unrecorded"] == 0, found["store_error"]
            assert found["loop_stall_max_ms"] < STALL_MS
            assert grown < GROWTH_MB
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), 30)
    log = (tmp_path / "gateway.log").read_text(errors="replace")
    assert "Traceback" not in log and "never retrieved" not in log, log[-3000:]


async def send_some(port: int, data: bytes) -> bytes:
    """As `send`; a request that was cut short gets no answer, and is given up soon."""
    try:
        async with asyncio.timeout(ANSWER_S if whole(data) else 0.02):
            return await send(port, data)
    except TimeoutError:
        return b"TIMEOUT" if whole(data) else b""


def whole(data: bytes) -> bool:
    """Whether a request has all of its body, as far as its head says."""
    head, found, body = data.partition(b"\r\n\r\n")
    if not found or b"chunked" in head.lower() or b"expect" in head.lower():
        return False
    lengths = [x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")]
    try:
        return len(lengths) == 1 and len(body) >= int(lengths[0].split(b":")[1])
    except ValueError:
        return False
