"""The server's side: requests in, answers out, one at a time on a connection.

`Server.sweep`, called every second, ends what is too slow: a head or body that does not come in
time, a connection that is idle for too long, a reader that takes nothing.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import httptools

from tasks.serving.wire.messages import Headers, head, status_line
from tasks.serving.wire.outbox import outbox

MAX_HEAD_BYTES = 64 * 1024
MAX_PIPELINED = 8
WRITE_HIGH_BYTES = 256 * 1024
LAST_CHUNK = b"0\r\n\r\n"
UPGRADING = frozenset((b"connection", b"upgrade", b"http2-settings", b"expect"))
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_LARGE, TIMEOUT, BAD_REQUEST, OUR_FAULT = 413, 408, 400, 500
LINGER_S = 2.0
"""For a client to read why its request is refused, while what it still sends is thrown away."""


@dataclass(frozen=True)
class ServerLimits:
    """What a client may take."""

    body_bytes: int = 64 * 2**20
    receive_s: float = 60.0
    """For a whole request to arrive."""
    idle_s: float = 300.0
    """For a connection without a request."""
    stalled_s: float = 300.0
    """For a reader that takes nothing of what is sent."""
    connections: int = 20_000


class Exchange:
    """One request and its answer. The handler answers by `respond`, or `start`, `send`, `end`."""

    __slots__ = (
        "_chunked", "_connection", "body", "headers", "keep_alive", "method", "on_gone",
        "on_writable", "started", "target",
    )  # fmt: skip

    def __init__(
        self, connection: "Connection", method: bytes, target: bytes, headers: Headers, body: bytes
    ) -> None:
        self._connection = connection
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.keep_alive = True
        self.started = self._chunked = False
        self.on_gone: Callable[[], None] | None = None
        """Called when the client goes away before the answer has ended."""
        self.on_writable: Callable[[bool], None] | None = None
        """Called with False when the client reads too slowly, with True when it has caught up."""

    @property
    def gone(self) -> bool:
        """Whether nobody is there to answer."""
        return self._connection.exchange is not self

    @property
    def peer(self) -> str:
        """The client's address."""
        return self._connection.peer

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer."""
        if self.gone:
            return
        assert not self.started, "the answer has begun"
        first = head(status_line(status), headers)
        if not self.keep_alive:
            first += b"Connection: close\r\n"
        sent = b"" if self.method == b"HEAD" else body
        self._connection.write(b"%bContent-Length: %d\r\n\r\n%b" % (first, len(body), sent))
        self._connection.done(self)

    def start(self, status: int, headers: Headers) -> None:
        """Begin an answer whose length is not known."""
        if self.gone:
            return
        self.started, self._chunked = True, self._connection.takes_chunks
        self.keep_alive = self.keep_alive and self._chunked
        first = head(status_line(status), headers)
        if not self.keep_alive:
            first += b"Connection: close\r\n"
        if self._chunked:
            first += b"Transfer-Encoding: chunked\r\n"
        self._connection.write(first + b"\r\n")

    def send(self, data: bytes) -> None:
        """Send a piece of an answer that was begun."""
        if data and self._connection.exchange is self:
            framed = b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data
            self._connection.write(framed)

    def end(self) -> None:
        """End an answer that was begun."""
        if not self.gone:
            if self._chunked:
                self._connection.write(LAST_CHUNK)
            self._connection.done(self)

    def abort(self) -> None:
        """Cut the connection: the only honest end of an answer that cannot be finished."""
        if not self.gone:
            self._connection.abort()


Handler = Callable[[Exchange], None]


class Connection(asyncio.Protocol):
    """A client's connection."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.exchange: Exchange | None = None
        self.peer = ""
        self.since = time.monotonic()  # of the state it is in
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._outbox, self._out = outbox(), list[bytes]()
        self._next: deque[Exchange] = deque()
        self._receiving = False
        self._refused = 0
        self._size = 0
        self._target = b""
        self._headers: Headers = []
        self._heading: Headers | None = None  # the headers of a head that is not whole yet
        self._heading_bytes = 0
        self._body: list[bytes] = []
        self._refused_at: float | None = None
        self.stalled_since: float | None = None

    # asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        transport.set_write_buffer_limits(WRITE_HIGH_BYTES)  # type: ignore[attr-defined]
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if isinstance(name, tuple) and name else ""
        self.server.connections.add(self)
        if len(self.server.connections) > self.server.limits.connections:
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._refused_at is not None:
            return
        heading = self._heading
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(self._refused or BAD_REQUEST)
        else:
            if heading is not None and heading is self._heading:
                # The parser says nothing of a name or value before its end.
                self._heading_bytes += len(data)
                if self._heading_bytes > MAX_HEAD_BYTES:
                    self._refuse(TOO_LARGE)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        self._transport = None
        waiting, self._next = self._next, deque()
        exchange, self.exchange = self.exchange, None
        for each in ([exchange] if exchange else []) + list(waiting):
            if each.on_gone is not None:
                each.on_gone()

    def pause_writing(self) -> None:
        self.stalled_since = time.monotonic()
        if self.exchange is not None and self.exchange.on_writable is not None:
            self.exchange.on_writable(False)

    def resume_writing(self) -> None:
        self.stalled_since = None
        if self.exchange is not None and self.exchange.on_writable is not None:
            self.exchange.on_writable(True)

    # httptools'

    def on_message_begin(self) -> None:
        self._receiving, self.since = True, time.monotonic()
        self._size = self._heading_bytes = 0
        self._target, self._headers, self._body = b"", [], []
        self._heading = self._headers

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._grow(len(url), MAX_HEAD_BYTES)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))
        self._grow(len(name) + len(value), MAX_HEAD_BYTES)

    def on_headers_complete(self) -> None:
        self._size, self._heading = 0, None
        goes_on = False
        for name, value in self._headers:
            lower = name.lower()
            if lower == b"content-length" and int(value) > self.server.limits.body_bytes:
                self._refused = TOO_LARGE
                raise ValueError("the body is too large")
            if lower == b"expect" and value.lower() == b"100-continue":
                goes_on = self.exchange is None  # else it would stand amid another answer
        if goes_on:
            self.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._grow(len(body), self.server.limits.body_bytes)

    def on_message_complete(self) -> None:
        self._receiving, self.since = False, time.monotonic()
        if self._parser.should_upgrade():
            return  # read again without that wish
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        method = self._parser.get_method()
        exchange = Exchange(self, method, self._target, self._headers, body)
        exchange.keep_alive = self._parser.should_keep_alive() and not self.server.closing
        self._body = []
        if self.exchange is None and not self._next:
            self._handle(exchange)
        else:
            self._next.append(exchange)
            if len(self._next) >= MAX_PIPELINED and self._transport is not None:
                self._transport.pause_reading()

    # the exchange's

    @property
    def takes_chunks(self) -> bool:
        """Whether the client knows answers in chunks; else an answer ends with its connection."""
        return self._parser.get_http_version() != "1.0"

    def write(self, data: bytes) -> None:
        """Send bytes, if anybody is there."""
        if self._transport is not None:
            self._out.append(data)
            if len(self._out) == 1:
                self._outbox.add(self)

    def flush(self) -> None:
        """Hand what waits over to the kernel."""
        out, transport = self._out, self._transport
        if out and transport is not None and not transport.is_closing():
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        self._out = []

    def done(self, exchange: Exchange) -> None:
        """The answer has ended: the connection is free for the next request."""
        self.exchange, self.since = None, time.monotonic()
        if not exchange.keep_alive or self.server.closing:
            self.close()
        elif self._next:
            if len(self._next) == MAX_PIPELINED and self._transport is not None:
                self._transport.resume_reading()
            # Not at once: a long pipeline must not become a deep stack.
            asyncio.get_running_loop().call_soon(self._handle_next)

    def close(self) -> None:
        """Close when all is sent."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what the kernel takes now still goes out."""
        self.flush()
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """End it if it is too slow."""
        limits = self.server.limits
        if self.stalled_since is not None and now - self.stalled_since > limits.stalled_s:
            self.abort()
        elif self._refused_at is not None:
            if now - self._refused_at > LINGER_S:
                self.abort()
        elif self._receiving and self.exchange is None and now - self.since > limits.receive_s:
            self._refuse(TIMEOUT)
        elif not self._receiving and self.exchange is None and now - self.since > limits.idle_s:
            self.close()

    def _handle_next(self) -> None:
        if self.exchange is None and self._next:
            self._handle(self._next.popleft())

    def _handle(self, exchange: Exchange) -> None:
        self.exchange = exchange
        try:
            self.server.handler(exchange)
        except Exception as error:  # a fault of ours: said, and never the client's
            context = {"message": f"{exchange.method!r} {exchange.target!r}", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            on_gone = exchange.on_gone
            if not exchange.started:
                self._answer_error(OUR_FAULT)
            self.close()
            if on_gone is not None:
                on_gone()

    def _grow(self, size: int, limit: int) -> None:
        self._size += size
        if self._size > limit:
            self._refused = TOO_LARGE
            raise ValueError("the request is too large")

    def _refuse(self, status: int) -> None:
        """Answer what cannot be understood, and close: what follows on it cannot be either."""
        if self.exchange is not None or self._transport is None:
            self.close()
            return
        self._answer_error(status)
        # Closed at once, what the client still sends would reset the connection, and it would
        # never read the answer.
        self._refused_at = time.monotonic()
        self.flush()
        self._transport.write_eof()

    def _answer_error(self, status: int) -> None:
        body = b'{"error": {"message": "%b", "type": "gateway_error", "code": %d}}' % (
            status_line(status).split(b" ", 2)[2].strip().lower(),
            status,
        )
        first = status_line(status) + b"Content-Type: application/json\r\nConnection: close\r\n"
        self.write(b"%bContent-Length: %d\r\n\r\n%b" % (first, len(body), body))

    def _decline_upgrade(self, rest: bytes) -> None:
        """Go on in HTTP/1.1: read the request as if it had not asked, with its body."""
        method = self._parser.get_method()
        if method == b"CONNECT":
            self._refuse(BAD_REQUEST)
            return
        kept = [header for header in self._headers if header[0].lower() not in UPGRADING]
        first = head(b"%b %b HTTP/1.1\r\n" % (method, self._target), kept)
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(first + b"\r\n" + rest)


class Server:
    """Listens; every request goes to `handler`."""

    def __init__(self, handler: Handler, limits: ServerLimits) -> None:
        self.handler, self.limits = handler, limits
        self.connections: set[Connection] = set()
        self.closing = False
        self.port = 0
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Start; returns the port. Raises OSError where it cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=4096, reuse_address=True
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def sweep(self) -> None:
        """End connections that are too slow."""
        now = time.monotonic()
        for connection in list(self.connections):
            connection.sweep(now)

    async def close(self, grace_s: float) -> None:
        """Take nothing new, let running answers end for at most `grace_s`, then cut."""
        self.closing = True
        if self._server is not None:
            self._server.close()
        deadline = time.monotonic() + grace_s
        for connection in list(self.connections):
            if connection.exchange is None:
                connection.close()
        while self.connections and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        for connection in list(self.connections):
            connection.abort()
