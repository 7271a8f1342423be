"""One request and its answer, as a server's handler sees them; refusals of requests."""

from collections.abc import Callable
from typing import Any, Protocol

from tutti.tasks.serving.wire.messages import ByName, Headers, head, status_line

LAST_CHUNK = b"0\r\n\r\n"
LARGE_BYTES = 2**20
"""A longer body is parsed in turns of the event loop, and its memory is given back."""


class RequestRefused(Exception):
    """Raised to refuse a request by its head; holds the answer to send."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        super().__init__(status, body)
        self.status, self.headers, self.body = status, headers, body


class ParserStopped(Exception):
    """Raised to stop a parser. It is not the refusal itself, because a raised exception holds its
    frames, which hold the connection, which holds the exception."""


class ExchangeTransport(Protocol):
    """What an exchange needs from its connection."""

    exchange: "Exchange | None"

    @property
    def takes_chunks(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def done(self, exchange: "Exchange") -> None: ...

    def abort(self) -> None: ...


class Exchange:
    """One request and its answer. The handler answers by `respond`, or `start`, `send`, `end`."""

    __slots__ = (
        "_chunked", "_line", "body", "headers", "keep_alive", "method", "on_gone",
        "on_writable", "parsed", "permission", "refused", "started", "target",
    )  # fmt: skip

    def __init__(
        self, line: ExchangeTransport, method: bytes, target: bytes, headers: Headers, body: bytes
    ) -> None:
        self._line = line
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.keep_alive = True
        self.started = self._chunked = False
        self.permission: Any = None
        """The value that the server's `screen` returned for the head."""
        self.parsed: Any = None
        """The body, if the handler has parsed it in earlier turns of the event loop."""
        self.refused: RequestRefused | None = None
        self.on_gone: Callable[[], None] | None = None
        """Called if the client disconnects before the answer has ended."""
        self.on_writable: Callable[[bool], None] | None = None
        """Called with False if the client reads too slowly, and with True when it has caught up."""

    @property
    def gone(self) -> bool:
        """Whether the client has disconnected."""
        return self._line.exchange is not self

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        if self.gone:
            return
        assert not self.started, "the answer has begun"
        first = head(status_line(status), headers)
        if not self.keep_alive:
            first += b"Connection: close\r\n"
        sent = b"" if self.method == b"HEAD" else body
        self._line.write(b"%bContent-Length: %d\r\n\r\n%b" % (first, len(body), sent))
        self._line.done(self)

    def start(self, status: int, headers: Headers) -> None:
        if self.gone:
            return
        self.started, self._chunked = True, self._line.takes_chunks
        self.keep_alive = self.keep_alive and self._chunked
        first = head(status_line(status), headers)
        if not self.keep_alive:
            first += b"Connection: close\r\n"
        if self._chunked:
            first += b"Transfer-Encoding: chunked\r\n"
        self._line.write(first + b"\r\n")

    def send(self, data: bytes) -> None:
        if data and self._line.exchange is self:
            framed = b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data
            self._line.write(framed)

    def end(self) -> None:
        """End an answer that `start` began."""
        if not self.gone:
            if self._chunked:
                self._line.write(LAST_CHUNK)
            self._line.done(self)

    def abort(self) -> None:
        """Close the connection: the only way to mark an unfinished answer as failed."""
        if not self.gone:
            self._line.abort()


DECISIVE = frozenset(
    b"host origin content-type content-length transfer-encoding expect authorization "
    b"x-api-key".split()
)
"""Headers that the server's decisions depend on: each may be given only once."""

DECISIVE_NAMES = ByName[bytes | None](lambda lower: lower if lower in DECISIVE else None)


def plain_refusal(status: int) -> RequestRefused:
    """A refusal with the text of its status."""
    words = status_line(status).split(b" ", 2)[2].strip().lower()
    body = b'{"error": {"message": "%b", "type": "gateway_error", "code": %d}}' % (words, status)
    return RequestRefused(status, [(b"Content-Type", b"application/json")], body)
