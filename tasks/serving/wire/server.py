"""An HTTP/1.1 server: one request at a time on a connection.

`screen` gets a request's head before its body is read; it raises `RequestRefused`, or its return
value becomes the exchange's `permission`. `Server.sweep` closes connections that are too slow.
"""

import asyncio
import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tutti.tasks.serving.wire.connection import Connection, ServerLimits
from tutti.tasks.serving.wire.exchange import LARGE_BYTES, Exchange


def trim() -> None:
    """Return free memory to the system if the C library supports it; takes milliseconds."""
    if (function := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # musl has none
        function(0)


TRIM_BYTES = 64 * 2**20
SWEEP_S = 1.0
HOST = "127.0.0.1"

Handler = Callable[[Exchange], None]
Screen = Callable[[bytes, bytes, Mapping[bytes, bytes]], Any]
"""Called with method, target and the decisive headers (`heads.DECISIVE`)."""


def let_all_in(method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> None:
    """A screen that accepts every request."""


def call_permission(exchange: Exchange) -> None:
    """Call the handler that the screen gave the request (`RouteScreen`)."""
    exchange.permission(exchange)


@contextlib.contextmanager
def stop_on_signals(listen: bool = True) -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set during the block; without `listen`, or outside the main
    thread, nothing sets it."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    in_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if listen and in_main else ()
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def serve(server: "Server", port: int) -> None:
    """Serve on loopback until SIGTERM or SIGINT. Raises OSError if it cannot listen."""
    with stop_on_signals() as stopping:
        await server.listen(HOST, port)
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), SWEEP_S)
            server.sweep()
        await server.close(SWEEP_S)


class Server:
    """Listens and passes every request to `handler`."""

    def __init__(self, handler: Handler, limits: ServerLimits, screen: Screen = let_all_in) -> None:
        self.handler, self.limits, self.screen = handler, limits, screen
        self.connections: set[Connection] = set()
        self.buffered = 0
        self.closing = False
        self.port = 0
        self._server: asyncio.Server | None = None
        self._freed = 0

    async def listen(self, host: str, port: int) -> int:
        """Start listening; returns the port. Raises OSError if the address is not available."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=4096, reuse_address=True
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def release(self, size: int) -> None:
        self.buffered -= size
        if size >= LARGE_BYTES:
            self._freed += size

    def sweep(self) -> None:
        """Close connections that are too slow, and return freed memory to the system."""
        now = time.monotonic()
        for connection in list(self.connections):
            connection.sweep(now)
        if self._freed >= TRIM_BYTES:
            self._freed = 0
            trim()

    async def close(self, grace_s: float) -> None:
        """Stop accepting, wait at most `grace_s` for running answers, then close."""
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
