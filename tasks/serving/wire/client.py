"""The HTTP client: requests to one origin over persistent connections.

The receiver of an answer gets direct calls: `on_head`, `on_data`, then `on_end` or `on_failure`
(exactly one, last). If the server closed a persistent connection before it answered anything, the
request is sent once more on a new connection.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

from tutti.tasks.serving.wire.messages import Headers, find
from tutti.tasks.serving.wire.paced import TURN_BYTES, PacedProtocol, outbox

CONNECT_TIMEOUT_S = 10.0
KEEP_IDLE_S = 4.0
"""Servers close idle connections after 5 s (uvicorn's default); the client closes them first."""
MAX_IDLE = 1024
MAX_HEAD_BYTES = 2**20
CLOSED = "the client is closed"

Permits = Callable[[str], bool]


class Receiver:
    """Receives an answer; this one discards it."""

    __slots__ = ()

    def on_head(self, status: int, headers: Headers) -> None:
        """The head arrived."""

    def on_data(self, data: bytes) -> None:
        """A piece of the body arrived."""

    def on_end(self) -> None:
        """The answer is complete."""

    def on_failure(self, reason: str) -> None:
        """The request failed; no further call follows."""


NOBODY = Receiver()


class OutgoingRequest:
    """One request in progress; `cancel` it if the answer is no longer needed."""

    __slots__ = ("answered", "data", "link", "receiver", "retried", "sent_at")

    def __init__(self, data: bytes, receiver: Receiver) -> None:
        self.data, self.receiver = data, receiver
        self.link: ClientConnection | None = None
        self.answered = self.retried = False
        self.sent_at = 0.0
        """When it was last written to a connection, on the monotonic clock; 0 before that."""

    def cancel(self) -> None:
        """Close its connection; the receiver gets no more calls."""
        self.receiver = NOBODY
        if self.link is not None:
            self.link.abort()

    def pause(self, paused: bool) -> None:
        if self.link is not None:
            self.link.hold(paused)


class ClientConnection(PacedProtocol):
    """One connection to the origin."""

    def __init__(self, origin: "Origin") -> None:
        super().__init__()
        self.origin = origin
        self.request: OutgoingRequest | None = None
        self.idle_since = 0.0
        self._outbox = outbox()
        self._parser: httptools.HttpResponseParser | None = None
        self._pieces: list[bytes] = []  # of the body, which the receiver gets as one
        self._headers: Headers = []
        self._head_bytes: int | None = None  # of a head that is not complete yet
        self._complete = self._keep = False
        self._until_close = self._unsent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def take(self, data: bytes) -> int:
        """Parse an answer's next piece."""
        piece, request = data[:TURN_BYTES], self.request
        error: Exception | None = None
        if request is None or self._parser is None or self._unsent:
            self.abort()  # an answer without a request
            return len(data)
        request.answered = True
        try:
            self._parser.feed_data(piece)
            if self._head_bytes is not None:
                self._head_bytes += len(piece)
                if self._head_bytes > MAX_HEAD_BYTES:
                    raise httptools.HttpParserError(f"a head of over {MAX_HEAD_BYTES} bytes")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as fault:
            error = fault
        if body := self._pieces:
            self._pieces = []
            request.receiver.on_data(body[0] if len(body) == 1 else b"".join(body))
        if error is not None:
            self._fail(f"its answer is not HTTP: {error}")
            self.abort()
        elif self._complete:
            self._keep &= len(piece) == len(data)
            self._finish()
        return len(piece)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self._parser = None  # breaks the reference cycle with the parser
        self._waiting = b""
        self.origin.forget(self)
        request = self.request
        if request is None:
            return
        if self._until_close and not self._complete and exc is None:
            self.request = None
            request.receiver.on_end()
        elif not request.answered and not request.retried and self.idle_since:
            self.request, request.retried, request.link = None, True, None
            if request.receiver is not NOBODY:
                self.origin.connect(request)
        else:
            self._fail(f"the connection was lost{f': {exc}' if exc else ''}")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_bytes is not None:  # else it is a trailer, which nobody asked for
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser, request = self._parser, self.request
        assert parser is not None and request is not None
        status = parser.get_status_code()
        if status < 200:
            self._headers = []
            return
        if self._complete:
            raise ValueError("a second answer to one request")
        self._head_bytes = None
        names = [name.lower() for name, _ in self._headers]
        framed = b"content-length" in names or b"transfer-encoding" in names
        self._until_close = not framed and status not in (204, 304)
        request.receiver.on_head(status, self._headers)

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        if parser.get_status_code() >= 200:
            self._complete = True
            self._keep = parser.should_keep_alive()  # it forgets when the message is over

    def send(self, request: OutgoingRequest) -> None:
        """Send a request; the connection is exclusive to it until the answer has ended."""
        assert self._transport is not None and self.request is None
        self.request, request.link = request, self
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._complete, self._until_close = [], False, False
        self._head_bytes = 0
        self._unsent = True
        self._outbox.add(self)

    def flush(self) -> None:
        """Write the request, unless it was cancelled."""
        request, transport = self.request, self._transport
        if self._unsent and request is not None and transport is not None:
            self._unsent = False
            if not transport.is_closing():
                request.sent_at = time.monotonic()
                transport.write(request.data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def usable(self) -> bool:
        """Whether a request can be sent on it."""
        return self._transport is not None and not self._transport.is_closing()

    def _finish(self) -> None:
        request = self.request
        assert request is not None
        self.request, request.link = None, None
        if self._keep and self.usable:
            if self._is_held:  # the client may have paused reading before the last piece
                self.hold(False)
            self.origin.keep(self)
        else:
            self.abort()
        request.receiver.on_end()

    def _fail(self, reason: str) -> None:
        request, self.request = self.request, None
        if request is not None:
            request.link = None
            request.receiver.on_failure(reason)


class Origin:
    """Destination of requests: scheme, host and port of a URL, and the path prefix of its URLs."""

    def __init__(self, url: str, permits: Permits | None = None) -> None:
        """`permits` decides which addresses of the host are allowed; None allows all. Raises
        ValueError."""
        self._permits = permits
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http(s) URL: {url!r}")
        self.url = url.rstrip("/")
        self.tls = parts.scheme == "https"
        self.host, self.port = parts.hostname, parts.port or (443 if self.tls else 80)
        self.path = parts.path.rstrip("/").encode()
        default = self.port == (443 if self.tls else 80)
        name = f"[{self.host}]" if ":" in self.host else self.host  # an IPv6 address
        self.host_header = (name if default else f"{name}:{self.port}").encode()
        self._idle: list[ClientConnection] = []
        self._connecting: dict[asyncio.Task[None], OutgoingRequest] = {}
        self._links: set[ClientConnection] = set()
        self._context = ssl.create_default_context() if self.tls else None
        self._closed = False

    def send(
        self, method: bytes, path: bytes, headers: Headers, body: bytes, receiver: Receiver
    ) -> OutgoingRequest:
        """Send a request; the receiver gets its answer or failure."""
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        data = b"%b %b%b HTTP/1.1\r\nHost: %b\r\n%bContent-Length: %d\r\n\r\n%b" % (
            method, self.path, path, self.host_header, lines, len(body), body,
        )  # fmt: skip
        request = OutgoingRequest(data, receiver)
        while self._idle:
            link = self._idle.pop()
            if link.usable:
                link.send(request)
                return request
        self.connect(request)
        return request

    def connect(self, request: OutgoingRequest) -> None:
        if self._closed:
            request.receiver.on_failure(CLOSED)
            return
        task = asyncio.get_running_loop().create_task(self._connect(request))
        self._connecting[task] = request
        task.add_done_callback(self._connecting.pop)

    async def _connect(self, request: OutgoingRequest) -> None:
        loop = asyncio.get_running_loop()
        name = self.host if self.tls else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                host = await self._permitted() if self._permits is not None else self.host
                _, link = await loop.create_connection(
                    lambda: ClientConnection(self),
                    host,
                    self.port,
                    ssl=self._context,
                    server_hostname=name,
                )
        except (OSError, TimeoutError, UnicodeError) as error:
            words = str(error) or "timed out"
            request.receiver.on_failure(f"cannot connect to {self.host}:{self.port}: {words}")
            return
        self._links.add(link)
        if request.receiver is NOBODY:
            self.keep(link)
        else:
            link.send(request)

    async def _permitted(self) -> str:
        assert self._permits is not None, "asked only where addresses are limited"
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        allowed = [address for address in addresses if self._permits(address)]
        if not allowed:
            raise OSError(f"{', '.join(addresses)} is not permitted; allow it with --allow-engine")
        return allowed[0]

    def keep(self, link: ClientConnection) -> None:
        if len(self._idle) >= MAX_IDLE:
            link.abort()
            return
        link.idle_since = time.monotonic()
        self._idle.append(link)

    def forget(self, link: ClientConnection) -> None:
        self._links.discard(link)
        if link.request is None and link in self._idle:
            self._idle.remove(link)

    def sweep(self) -> None:
        """Close connections that were idle for long, before the server does."""
        oldest = time.monotonic() - KEEP_IDLE_S
        kept = [link for link in self._idle if link.idle_since > oldest]
        gone = [link for link in self._idle if link.idle_since <= oldest]
        self._idle = kept
        for link in gone:
            link.abort()

    async def close(self) -> None:
        """Close all connections; running requests fail."""
        self._closed = True
        connecting = {task: one for task, one in self._connecting.items() if not task.done()}
        for task, request in connecting.items():
            task.cancel()
            request.receiver.on_failure(CLOSED)
            request.receiver = NOBODY
        await asyncio.gather(*connecting, return_exceptions=True)
        for link in list(self._links):
            link.abort()
        self._idle.clear()


MAX_BYTES = 64 * 2**20


class NoAnswer(Exception):
    """The request got no complete answer; the message gives the reason."""


@dataclass(slots=True)
class Answer:
    """A complete answer."""

    status: int
    headers: Headers
    body: bytes
    sent_at: float
    """Seconds on the monotonic clock: when the request was written to its connection."""
    ended_at: float
    """When the answer's last byte was read."""

    def header(self, name: bytes) -> str | None:
        """The first value of `name` (in lower case)."""
        value = find(self.headers, name)
        return None if value is None else value.decode("latin-1")


class AnswerReceiver(Receiver):
    """Collects an answer; `done` is resolved at its end."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status = 0
        self.headers: Headers = []
        self.pieces: list[bytes] = []
        self.size = 0
        self.ended_at = 0.0

    def on_head(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers

    def on_data(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > MAX_BYTES:
            self.pieces.clear()
            self.on_failure(f"the answer is larger than {MAX_BYTES} bytes")
            return
        self.pieces.append(data)

    def on_end(self) -> None:
        self.ended_at = time.monotonic()
        if not self.done.done():
            self.done.set_result(None)

    def on_failure(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(NoAnswer(reason))


async def ask(
    origin: Origin,
    method: bytes,
    path: bytes,
    headers: Headers,
    body: bytes,
    receiver: AnswerReceiver | None = None,
) -> Answer:
    """Send a request and wait for its answer. Raises NoAnswer. Cancelling it closes the connection.
    A `receiver` can be given to see the pieces as they arrive."""
    reading = receiver or AnswerReceiver()
    request = origin.send(method, path, headers, body, reading)
    try:
        await reading.done
    except (asyncio.CancelledError, NoAnswer):
        request.cancel()
        raise
    whole = reading.pieces[0] if len(reading.pieces) == 1 else b"".join(reading.pieces)
    return Answer(reading.status, reading.headers, whole, request.sent_at, reading.ended_at)
