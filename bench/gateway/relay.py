"""The floor under every router: ``python -m bench.gateway.relay ENGINE_PORT [ENGINE_PORT …] PORT``.

A raw asyncio relay on uvloop: each connection of a client is joined to one of an engine, the
engines in turn, and bytes are copied as they come. It parses nothing, knows no programs, records
nothing. It is the lower bound of the cost of a router in Python.
"""

import asyncio
import itertools
import sys
from collections.abc import Iterator
from typing import cast

import uvloop


class Side(asyncio.Protocol):
    """One of the two connections; what comes goes out at the other."""

    transport: asyncio.Transport

    def __init__(self, other: "Side | None" = None) -> None:
        self.other = other
        self.early: list[bytes] = []
        """Bytes that came before the other side was connected."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the bytes that waited for this side."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass
        if self.other is not None:
            self.other.other = self
            self.transport.writelines(self.other.early)

    def data_received(self, data: bytes) -> None:
        """Over to the other side."""
        if self.other is None:
            self.early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close both sides."""
        if self.other is not None:
            self.other.transport.close()


class Client(Side):
    """The client's side, which opens the engine's."""

    def __init__(self, ports: Iterator[int]) -> None:
        super().__init__()
        self.ports = ports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join it to the next engine."""
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        joining = loop.create_connection(lambda: Side(self), "127.0.0.1", next(self.ports))
        self.joining = loop.create_task(joining)


async def serve(port: int, engines: list[int]) -> None:
    """Listen for ever."""
    ports = itertools.cycle(engines)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(ports), "127.0.0.1", port, backlog=8192)
    await server.serve_forever()


if __name__ == "__main__":
    *engine_ports, own_port = map(int, sys.argv[1:])
    uvloop.run(serve(own_port, engine_ports))
