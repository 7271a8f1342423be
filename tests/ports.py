"""Ports for the processes of a test that no other test uses meanwhile."""

import contextlib
import random
import socket


def free_ports(number: int = 1) -> int:
    """Return the first of `number` consecutive free loopback ports. They are below the ephemeral
    range, so no other process gets them before the test binds them."""
    while True:
        first = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as taken:
            for port in range(first, first + number):
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
