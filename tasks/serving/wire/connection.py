"""A client's connection: parses requests and passes them to the server's handler one at a time.

A request is authorised when its head is complete, before any of its body is stored. The memory for
bodies of all connections together is bounded (`ServerLimits.buffered_bytes`). A lost connection
releases everything at once, without waiting for the garbage collector.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import httptools

from tutti.tasks.serving.wire.exchange import (
    DECISIVE_NAMES,
    Exchange,
    ParserStopped,
    RequestRefused,
    plain_refusal,
)
from tutti.tasks.serving.wire.messages import Headers, head, status_line
from tutti.tasks.serving.wire.paced import TURN_BYTES, PacedProtocol, outbox


@dataclass(frozen=True)
class ServerLimits:
    """Limits on the resources of clients."""

    body_bytes: int = 16 * 2**20
    """Size of one request's body: text of that size is parsed in 30 ms, which nothing can
    interrupt."""
    buffered_bytes: int = 2**30
    """Size of all bodies together that are arriving, waiting or being answered; beyond it, requests
    get 503."""
    receive_s: float = 60.0
    idle_s: float = 300.0
    stalled_s: float = 300.0
    """Time of a client that reads nothing of what is sent."""
    connections: int = 20_000


MAX_HEAD_BYTES = 64 * 1024
MAX_PIPELINED = 8
TURN_PIECES = 16  # heads and bodies that are parsed in one turn of the loop
WRITE_HIGH_BYTES = 256 * 1024
UPGRADING = frozenset((b"connection", b"upgrade", b"http2-settings", b"expect"))
HEAD_END = b"\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_LARGE, TIMEOUT, BAD_REQUEST, OUR_FAULT, TOO_BUSY = 413, 408, 400, 500, 503
LINGER_S = 2.0
"""Time for a client to read why its request is refused, while the rest of its input is
discarded."""
REFUSED_BODY_BYTES = 64 * 1024
"""Up to this size, a refused request's body is read and discarded, and the connection is kept."""


class ConnectionOwner(Protocol):
    """What a connection needs from its server."""

    limits: ServerLimits
    connections: "set[Connection]"
    closing: bool
    buffered: int
    handler: Callable[[Exchange], None]
    screen: Callable[[bytes, bytes, Mapping[bytes, bytes]], Any]

    def release(self, size: int) -> None: ...


class Connection(PacedProtocol):
    """A client's connection."""

    def __init__(self, server: ConnectionOwner) -> None:
        super().__init__()
        self.server = server
        self.exchange: Exchange | None = None
        self.since = time.monotonic()  # of the state it is in
        self.stalled_since: float | None = None
        self._parser: Any = httptools.HttpRequestParser(self)
        self._outbox, self._out = outbox(), list[bytes]()
        self._next: deque[Exchange] = deque()
        self._receiving = False
        self._last = False  # the last request of this connection has come: no byte after it counts
        self._fault: RequestRefused | None = None  # why the parser was stopped
        self._refused_at: float | None = None
        self._target = self._method = b""
        self._headers: Headers = []
        self._in_head = False
        self._head_data: list[bytes] = []  # what that head came in, and no other
        self._body_bytes = 0
        self._head_bytes = 0  # of a head, or of a chunked body since something of it came
        self._body: bytes | bytearray = b""
        self._body_left = 0  # of a body of known length
        self._kept_bytes = 0  # this connection's share of `server.buffered`
        self._pass: Any = None
        self._refusal: RequestRefused | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        transport.set_write_buffer_limits(WRITE_HIGH_BYTES)  # type: ignore[attr-defined]
        self.server.connections.add(self)
        if len(self.server.connections) > self.server.limits.connections:
            self.abort()

    def take(self, data: bytes) -> int:
        """Parse input in pieces, each of which ends where a head, or a body of known length, ends:
        so a head begins where a piece begins."""
        at, size, most, pieces = 0, len(data), TURN_BYTES, 0
        while at < size and at < most and pieces < TURN_PIECES and not self._is_held:
            if self._last:
                return size
            if left := self._body_left:
                end = at + left if left < size - at else size
                self._body_left = left + at - end
                most += end - at  # costs no more than its copy
                self._feed(data[at:end])
            else:
                end = self._head_end(data, at, most if most < size else size)
                self._head_bytes += end - at
                if self._head_bytes > MAX_HEAD_BYTES:
                    self._refuse(plain_refusal(TOO_LARGE))
                    return size
                self._head_data.append(piece := data[at:end])
                self._feed(piece)
                if not self._in_head:
                    self._head_data.clear()
            at, pieces = end, pieces + 1
        return at

    def _head_end(self, data: bytes, at: int, most: int) -> int:
        """Where the head, or chunk of a body, from `at` on ends; `most` if it goes on."""
        if not self._head_data:
            end = data.find(HEAD_END, at, most)
            return most if end < 0 else end + len(HEAD_END)
        edge = b"".join(self._head_data[-3:])[-3:]  # may have the first bytes of its end
        end = (edge + data[at:most]).find(HEAD_END)
        return most if end < 0 else at - len(edge) + end + len(HEAD_END)

    def _feed(self, piece: bytes) -> None:
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:  # comes at the head's end
            self._decline_upgrade()
        except httptools.HttpParserError:
            if not self._last:  # bytes after the last request are discarded
                self._refuse(self._fault or plain_refusal(BAD_REQUEST))

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        self._transport = None
        waiting, self._next = self._next, deque()
        exchange, self.exchange = self.exchange, None
        self._let_go()
        self._parser = None  # breaks the reference cycle with the parser
        for each in ([exchange] if exchange else []) + list(waiting):
            _give_up(each)

    def pause_writing(self) -> None:
        self.stalled_since = time.monotonic()
        if self.exchange is not None and self.exchange.on_writable is not None:
            self.exchange.on_writable(False)

    def resume_writing(self) -> None:
        self.stalled_since = None
        if self.exchange is not None and self.exchange.on_writable is not None:
            self.exchange.on_writable(True)

    def on_message_begin(self) -> None:
        self._receiving, self.since = True, time.monotonic()
        self._body_bytes = 0
        self._target, self._headers, self._body = b"", [], b""
        self._pass = self._refusal = None
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else it is a trailer, which nobody asked for
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._method = self._parser.get_method()
        known = self._decisive()
        length = self._body_left = int(known.get(b"content-length", 0))
        if length > self.server.limits.body_bytes:
            self._stop(plain_refusal(TOO_LARGE))
        try:
            self._pass = self.server.screen(self._method, self._target, known)
        except RequestRefused as refused:
            refused.__traceback__ = refused.__context__ = None  # else it keeps this connection
            if length > REFUSED_BODY_BYTES or b"expect" in known:
                self._stop(refused)
            self._refusal = refused
            return
        waits = b"expect" in known and known[b"expect"].lower() == b"100-continue"
        # else it would be written in the middle of another answer
        if waits and self.exchange is None:
            self.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        size, limits = len(body), self.server.limits
        self._body_bytes, self._head_bytes = self._body_bytes + size, 0
        if self._refusal is not None:
            if self._body_bytes > REFUSED_BODY_BYTES:
                self._stop(self._refusal)
            return
        if not self._body:
            self._body = body
        elif isinstance(self._body, bytearray):
            self._body += body
        else:
            self._body = bytearray(self._body) + body
        self._kept_bytes += size
        self.server.buffered += size
        if self.server.buffered > limits.buffered_bytes:
            self._stop(plain_refusal(TOO_BUSY))
        if self._body_bytes > limits.body_bytes:
            self._stop(plain_refusal(TOO_LARGE))

    def on_message_complete(self) -> None:
        self._receiving, self.since, self._head_bytes = False, time.monotonic(), 0
        if self._parser.should_upgrade():
            return  # parsed again without the upgrade header
        body = self._body if isinstance(self._body, bytes) else bytes(self._body)
        exchange = Exchange(self, self._method, self._target, self._headers, body)
        exchange.permission, exchange.refused = self._pass, self._refusal
        self._last = not self._parser.should_keep_alive()
        exchange.keep_alive = not self._last and not self.server.closing
        self._body = b""
        if self.exchange is None and not self._next:
            self._handle(exchange)
        else:
            self._next.append(exchange)
            if len(self._next) >= MAX_PIPELINED:
                self.hold(True)

    @property
    def takes_chunks(self) -> bool:
        """Whether the client supports chunked answers; otherwise an answer ends with its
        connection."""
        return bool(self._parser.get_http_version() != "1.0")

    def write(self, data: bytes) -> None:
        """Send bytes, unless the client has disconnected."""
        if self._transport is not None:
            self._out.append(data)
            if len(self._out) == 1:
                self._outbox.add(self)

    def flush(self) -> None:
        """Write buffered output to the kernel."""
        out, transport = self._out, self._transport
        if out and transport is not None and not transport.is_closing():
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        self._out = []

    def done(self, exchange: Exchange) -> None:
        """The answer has ended: free the connection for the next request."""
        self.exchange, self.since = None, time.monotonic()
        if exchange.body:
            self._release(len(exchange.body))
        if not exchange.keep_alive or self.server.closing:
            self.close()
        elif self._next:
            # Deferred: a long pipeline must not become deep recursion.
            asyncio.get_running_loop().call_soon(self._handle_next)

    def close(self) -> None:
        """Close once all output is sent."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close immediately; only what the kernel accepts now is still sent."""
        self.flush()
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """Close it if it exceeds a time limit."""
        limits = self.server.limits
        if self.stalled_since is not None and now - self.stalled_since > limits.stalled_s:
            self.abort()
        elif self._refused_at is not None:
            if now - self._refused_at > LINGER_S:
                self.abort()
        elif self._receiving and self.exchange is None and now - self.since > limits.receive_s:
            self._refuse(plain_refusal(TIMEOUT))
        elif not self._receiving and self.exchange is None and now - self.since > limits.idle_s:
            self.close()

    def _handle_next(self) -> None:
        if self.exchange is None and self._next:
            self._handle(self._next.popleft())
            if self._is_held and len(self._next) < MAX_PIPELINED:
                self.hold(False)

    def _handle(self, exchange: Exchange) -> None:
        self.exchange = exchange
        try:
            if exchange.refused is not None:
                refused = exchange.refused
                exchange.respond(refused.status, refused.headers, refused.body)
            else:
                self.server.handler(exchange)
        except Exception as error:  # an internal error: reported, and not blamed on the client
            _report(exchange, error)
            if not exchange.started:
                self._answer(plain_refusal(OUR_FAULT))
            self.close()
            _give_up(exchange)

    def _decisive(self) -> dict[bytes, bytes]:
        """Return the decisive headers. Rejects heads that are not strictly valid HTTP/1.1, because
        two parsers could read them differently."""
        known: dict[bytes, bytes] = {}
        for name, value in self._headers:
            lower = DECISIVE_NAMES[name]
            if lower is not None:
                if lower in known:
                    self._stop(plain_refusal(BAD_REQUEST))
                known[lower] = value
        coding = known.get(b"transfer-encoding")
        if (
            (coding is not None and coding.strip().lower() != b"chunked")
            or (b"host" not in known and self._parser.get_http_version() != "1.0")
            or not self._has_plain_first_line()
        ):
            self._stop(plain_refusal(BAD_REQUEST))
        return known

    def _has_plain_first_line(self) -> bool:
        """Whether the request line has exactly one space where required; the parser accepts
        several."""
        head_data = b"".join(self._head_data).lstrip(b"\r\n")
        return head_data.startswith(b"%b %b HTTP/1." % (self._method, self._target))

    def _stop(self, refused: RequestRefused) -> None:
        """Stop the parser from one of its callbacks; `_feed` finds the reason in `_fault`."""
        self._fault = refused
        raise ParserStopped

    def _refuse(self, refused: RequestRefused) -> None:
        """Refuse an invalid request and close, because later input cannot be parsed either."""
        self._body, self._last = b"", True
        if self.exchange is not None or self._transport is None:
            self.close()
            return
        self._let_go()
        self._answer(refused)
        # If closed at once, the input that the client still sends would cause a reset, and the
        # client would never read the answer.
        self._refused_at = time.monotonic()
        self.flush()
        try:
            self._transport.write_eof()
        except OSError:  # the client has reset it: asyncio's own transport says so here
            self._transport.abort()

    def _answer(self, refused: RequestRefused) -> None:
        first = head(status_line(refused.status), [*refused.headers, (b"Connection", b"close")])
        self.write(b"%bContent-Length: %d\r\n\r\n%b" % (first, len(refused.body), refused.body))

    def _decline_upgrade(self) -> None:
        """Ignore an upgrade: parse the head again as plain HTTP/1.1; its body follows."""
        if self._method == b"CONNECT":
            self._refuse(plain_refusal(BAD_REQUEST))
            return
        kept = [header for header in self._headers if header[0].lower() not in UPGRADING]
        first = head(b"%b %b HTTP/1.1\r\n" % (self._method, self._target), kept)
        self._parser = httptools.HttpRequestParser(self)
        self._head_data = [first + b"\r\n"]
        self._feed(self._head_data[0])

    def _release(self, size: int) -> None:
        size = min(size, self._kept_bytes)
        if size:
            self._kept_bytes -= size
            self.server.release(size)

    def _let_go(self) -> None:
        self._body, self._head_data, self._headers, self._in_head = b"", [], [], False
        self._waiting = b""
        self._release(self._kept_bytes)


def _give_up(exchange: Exchange) -> None:
    try:
        if exchange.on_gone is not None:
            exchange.on_gone()
    except Exception as error:  # the other exchanges on this connection must be notified too
        _report(exchange, error)


def _report(exchange: Exchange, error: Exception) -> None:
    context = {"message": f"{exchange.method!r} {exchange.target!r}", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)
