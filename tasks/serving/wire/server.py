"""An HTTP/1.1 server: one request at a time on a connection.

`screen` sees a request's head before its body is read. It raises `RequestRefused` to refuse the
request; what it returns becomes the exchange's `permission`. `Server.sweep` runs every second and
closes what is too slow: a head or body that does not arrive in time, an idle connection, a client
that does not read its answer.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from tutti.tasks.serving.wire import memory
from tutti.tasks.serving.wire.connection import Connection, ServerLimits
from tutti.tasks.serving.wire.exchange import Exchange

LARGE_BYTES = 2**20
TRIM_BYTES = 64 * 2**20

Handler = Callable[[Exchange], None]
Screen = Callable[[bytes, bytes, Mapping[bytes, bytes]], Any]
"""Of method, target and the headers that are decided by (`heads.DECISIVE`)."""


def let_all_in(method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> None:
    """A screen that refuses nothing."""


class Server:
    """Listens; every request goes to `handler`."""

    def __init__(self, handler: Handler, limits: ServerLimits, screen: Screen = let_all_in) -> None:
        self.handler, self.limits, self.screen = handler, limits, screen
        self.connections: set[Connection] = set()
        self.buffered = 0
        """Bytes of all bodies that are arriving, waiting or being answered."""
        self.closing = False
        self.port = 0
        self._server: asyncio.Server | None = None
        self._freed = 0

    async def listen(self, host: str, port: int) -> int:
        """Start; returns the port. Raises OSError where it cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=4096, reuse_address=True
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def release(self, size: int) -> None:
        """So many bytes of bodies are not needed any more."""
        self.buffered -= size
        if size >= LARGE_BYTES:
            self._freed += size

    def sweep(self) -> None:
        """End connections that are too slow, and give freed memory back to the system."""
        now = time.monotonic()
        for connection in list(self.connections):
            connection.sweep(now)
        if self._freed >= TRIM_BYTES:
            self._freed = 0
            memory.trim()

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
