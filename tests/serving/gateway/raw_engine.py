"""Engine that sends raw bytes: a test defines the bytes written and when the connection ends."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.serving.conftest import PRICES
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig

CAPACITY = 4096
USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 30,
    "prompt_tokens_details": {"cached_tokens": 96},
}
DONE = b"data: [DONE]\n\n"


@dataclass
class ReceivedRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(eq=False)
class Wire:
    """Connection on which a request arrived."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    closing: bool = False

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        self.closing = True
        self.writer.close()

    def reset(self) -> None:
        self.closing = True
        self.writer.transport.abort()

    async def gone(self) -> None:
        with contextlib.suppress(ConnectionError):  # closed is closed
            assert await self.reader.read(1) == b""


Reply = Callable[[ReceivedRequest, Wire], Awaitable[None]]


def whole(body: Any, status: int = 200, headers: str = "") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n{headers}"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def event(fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(text: str, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return event({"choices": [choice], **more})


def answering(*pieces: bytes, pause_s: float = 0.0) -> Reply:

    async def reply(_: ReceivedRequest, wire: Wire) -> None:
        for piece in pieces:
            await wire.write(piece)
            await asyncio.sleep(pause_s)

    return reply


def streaming(*pieces: bytes, pause_s: float = 0.0) -> Reply:
    return answering(STREAM_HEAD, *map(chunk, pieces), LAST_CHUNK, pause_s=pause_s)


MESSAGE = {"role": "assistant", "content": "hi"}
COMPLETION = {
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
    "usage": USAGE,
}


@dataclass
class RawEngine:
    """Engine that sends raw bytes; `reply` responds to each POST, and `asked` has the requests
    without probes."""

    reply: Reply = field(default_factory=lambda: answering(whole(COMPLETION)))
    asked: list[ReceivedRequest] = field(default_factory=list)
    models: tuple[str, ...] = ("m",)
    list_status: int = 200
    """The status of its answer to /v1/models."""
    capacity: int = CAPACITY
    started_at: float = 1e9
    healthy: bool = True
    idle: bool = False
    """It says that nothing runs: then a gateway measures it."""
    port: int = 0
    probed: Reply | None = None
    """Answers the probes in place of the engine's own pages."""
    connections: int = 0
    _server: asyncio.Server | None = None
    _wires: set[Wire] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def endpoint(self, name: str = "engine:1", **fields: Any) -> EndpointConfig:
        return EndpointConfig(**({"url": self.url, "id": name, "prices": PRICES} | fields))

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        assert self._server is not None
        self._server.close()  # not wait_closed(): from Python 3.12 on it waits for the clients
        while self._wires:  # one that was accepted at the last moment comes after the others
            self.drop()
            await asyncio.sleep(0.005)

    def drop(self) -> None:
        for wire in list(self._wires):
            wire.reset()

    def page(self) -> bytes:
        labels = f'{{block_size="16",kv_cache_size_tokens="{self.capacity}"}}'
        running = 0.0 if self.idle else 1.0
        return (
            f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0.0\n"
            f"vllm:cache_config_info{labels} 1.0\n"
            f"process_start_time_seconds {self.started_at}\n"
        ).encode()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        wire = Wire(reader, writer)
        self._wires.add(wire)
        try:
            while not wire.closing:
                await self._one(wire)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            self._wires.discard(wire)
            writer.close()

    async def _one(self, wire: Wire) -> None:
        head = (await wire.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
        body = await wire.reader.readexactly(int(headers.get("content-length", 0)))
        asked = ReceivedRequest(method, path, headers, body)
        if method == "GET" and self.probed is not None:
            await self.probed(asked, wire)
        elif path == "/metrics" and method == "GET":
            page = self.page() if self.healthy else b""
            await wire.write(whole(page, 200 if self.healthy else 503))
        elif path == "/v1/models" and method == "GET":
            listed = {"data": [{"id": name} for name in self.models]}
            found = listed if self.list_status == 200 else {"error": "no"}
            await wire.write(whole(found, self.list_status))
        else:
            self.asked.append(asked)
            await self.reply(asked, wire)


@asynccontextmanager
async def raw_engine(**fields: Any) -> AsyncIterator[RawEngine]:
    engine = RawEngine(**fields)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.kill()
