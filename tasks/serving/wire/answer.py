"""Send a request and read its whole answer.

In: a request to an origin. Out: its answer, with the times of sending and end on the monotonic
clock. Cancelling the wait closes the connection, so that the server stops working too.
"""

import asyncio
import time
from dataclasses import dataclass

from tutti.tasks.serving.wire.client import Origin
from tutti.tasks.serving.wire.messages import Headers, find

MAX_BYTES = 64 * 2**20
"""Largest answer that is accepted."""


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


class AnswerReceiver:
    """Collects an answer; `done` is resolved at its end."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status = 0
        self.headers: Headers = []
        self.pieces: list[bytes] = []
        self.size = 0
        self.ended_at = 0.0

    def on_head(self, status: int, headers: Headers) -> None:
        """The head arrived."""
        self.status, self.headers = status, headers

    def on_data(self, data: bytes) -> None:
        """A piece of the body arrived."""
        self.keep(data)

    def keep(self, data: bytes) -> None:
        """Append a piece, within the size limit."""
        self.size += len(data)
        if self.size > MAX_BYTES:
            self.pieces.clear()
            self.on_failure(f"the answer is larger than {MAX_BYTES} bytes")
            return
        self.pieces.append(data)

    def on_end(self) -> None:
        """The answer is complete."""
        self.ended_at = time.monotonic()
        if not self.done.done():
            self.done.set_result(None)

    def on_failure(self, reason: str) -> None:
        """The answer failed."""
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
    """Send a request and wait for its answer. Raises NoAnswer.

    Cancelling it closes the connection. A `receiver` can be given to see the pieces as they arrive.
    """
    reading = receiver or AnswerReceiver()
    request = origin.send(method, path, headers, body, reading)
    try:
        await reading.done
    except (asyncio.CancelledError, NoAnswer):
        request.cancel()
        raise
    whole = reading.pieces[0] if len(reading.pieces) == 1 else b"".join(reading.pieces)
    return Answer(reading.status, reading.headers, whole, request.sent_at, reading.ended_at)
