"""Ports for what a test starts, that no other test takes meanwhile."""

import contextlib
import random
import socket


def free_ports(number: int = 1) -> int:
    """The first of `number` free loopback ports in a row. They are below those that the system
    gives to whoever asks for any, so nobody else gets them before the test binds them."""
    while True:
        first = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as taken:
            for port in range(first, first + number):
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
