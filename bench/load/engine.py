"""The mock engine of the load bench: ``python -m bench.load.engine PORT``.

Raw asyncio protocols on uvloop, in a process of its own. A chat completion is answered as a stream,
or whole where none was asked for, 200.0 ms after its request was read. ``/times`` returns the pairs
of times (read, written) since it was last requested. It also answers the other requests of load
generators.
"""

import asyncio
import ctypes
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import cast

import orjson
import uvloop

from bench.load.wire import DELAY_S, STREAM, USAGE

HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
MONOTONIC, NONBLOCK, ABSOLUTE = 1, 0o4000, 1  # Linux's CLOCK_MONOTONIC, TFD_NONBLOCK, _ABSTIME
MODELS = orjson.dumps({"object": "list", "data": [{"id": "mock", "object": "model"}]})
MESSAGE = {"role": "assistant", "content": "word word."}
COMPLETION = orjson.dumps(
    {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": "mock",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
        "usage": USAGE,
    }
)
STREAMS = re.compile(rb'"stream": ?true')


def framed(body: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole answer."""
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


WHOLE = framed(COMPLETION)


class Alarm:
    """Calls back at a time of the monotonic clock, with microsecond precision, by a kernel timer.

    An event loop's timers have a resolution of a millisecond, half a percent of what is measured.
    (Python has such a timer from 3.13 on, as `os.timerfd_create`.)
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        """`ring` is called in the running loop."""
        self._kernel = ctypes.CDLL(None, use_errno=True)
        self._file: int = self._kernel.timerfd_create(MONOTONIC, NONBLOCK)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._ring = ring
        asyncio.get_running_loop().add_reader(self._file, self._rung)

    def set(self, at: float) -> None:
        """Ring at `at` (seconds), replacing any earlier setting."""
        once = (ctypes.c_long * 4)(0, 0, *divmod(int(at * 1e9) + 1, 10**9))
        if self._kernel.timerfd_settime(self._file, ABSOLUTE, once, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def close(self) -> None:
        """Ring no more."""
        asyncio.get_running_loop().remove_reader(self._file)
        os.close(self._file)

    def _rung(self) -> None:
        os.read(self._file, 8)
        self._ring()


class Clock:
    """Pending answers in order of their due times: all have the same delay."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []
        self._due: deque[tuple[float, Wire, bytes]] = deque()
        self._alarm = Alarm(self._write)

    def answer(self, wire: "Wire", answer: bytes) -> None:
        """Write `answer` when it is due."""
        read = time.monotonic()
        self._due.append((read, wire, answer))
        if len(self._due) == 1:
            self._alarm.set(read + DELAY_S)

    def close(self) -> None:
        """Drop the pending answers."""
        self._alarm.close()

    def _write(self) -> None:
        while self._due:
            read, wire, answer = self._due[0]
            if time.monotonic() < read + DELAY_S:
                self._alarm.set(read + DELAY_S)
                return
            self._due.popleft()
            wire.write(answer)
            self.times.append((read, time.monotonic()))


class Wire(asyncio.Protocol):
    """One connection with one request at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._buffer = clock, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # uvloop's transports are not a subclass
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """A piece of a request."""
        self._buffer += data
        head, end, rest = self._buffer.partition(HEAD_END)
        found = LENGTH.search(head)
        length = int(found[1]) if found else 0
        if not end or len(rest) < length:
            return
        self._buffer = rest[length:]
        path = head.split(b" ", 2)[1]
        if path == b"/v1/chat/completions":
            self._clock.answer(self, STREAM if STREAMS.search(rest) else WHOLE)
        elif path == b"/times":
            self.write(framed(orjson.dumps(self._clock.times)))
            self._clock.times.clear()
        elif path in (b"/v1/models", b"/health"):
            self.write(framed(MODELS))
        else:
            self.write(framed(b"{}", b"404 Not Found"))

    def write(self, data: bytes) -> None:
        """Send, unless the client has disconnected."""
        if not self._transport.is_closing():
            self._transport.write(data)


async def main(port: int) -> None:
    """Serve forever."""
    clock = Clock()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Wire(clock), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
