"""Measures stalls of a gateway's event loop: ``python -m bench.gateway.poll PORT``.

Requests ``/health`` every 20 ms on one connection, from the line ``ready`` that it prints until its
standard input closes, then prints ``[[when it was due, milliseconds until the answer], …]``.
"""

import json
import select
import socket
import sys
from time import perf_counter

from bench.gateway.wire import get, length_of

EVERY_S = 0.020


def ask(connection: socket.socket, request: bytes) -> None:
    """Send one request and read its whole answer."""
    connection.sendall(request)
    got = b""
    while True:
        got += connection.recv(65536)
        whole = length_of(got)
        if whole is not None and len(got) >= whole:
            return


def poll(port: int) -> list[tuple[float, float]]:
    """Poll until standard input closes."""
    seen: list[tuple[float, float]] = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask(connection, get("/health"))
        print("ready", flush=True)
        due = perf_counter()
        while not select.select([0], [], [], max(0.0, due - perf_counter()))[0]:
            began = perf_counter()
            ask(connection, get("/health"))
            # Measured from sending: this process's own delay is not the gateway's.
            seen.append((due, (perf_counter() - began) * 1000))
            due = max(due + EVERY_S, perf_counter())
    return seen


if __name__ == "__main__":
    print(json.dumps(poll(int(sys.argv[1]))))
