"""Batches writes: the first write of an event loop's turn is immediate, the rest follow at its end.

A write costs most if the reader is asleep, because the kernel wakes it before the call returns. One
turn of a busy loop serves many peers; if writes are batched, few of them find a sleeping reader. In
a turn that serves only one peer, nothing is delayed.
"""

import asyncio
from collections import deque
from typing import Protocol
from weakref import WeakKeyDictionary


class Sender(Protocol):
    """A connection with bytes to send."""

    def flush(self) -> None:
        """Write them now, if the connection is still open."""


class Outbox:
    """The connections of one event loop that have something to send."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._due: deque[Sender] = deque()
        self._sent_one = False
        """Whether one was flushed immediately in this turn."""

    def add(self, sender: Sender) -> None:
        """Flush the connection now, or at the end of the loop's turn."""
        if self._sent_one:
            self._due.append(sender)
            return
        self._sent_one = True
        self._call_soon(self._send)
        sender.flush()

    def _send(self) -> None:
        due, self._sent_one = self._due, False
        try:
            while due:
                due.popleft().flush()
        finally:
            if due:  # one connection failed; the others are still flushed
                self._sent_one = True
                self._call_soon(self._send)


_OUTBOXES: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def outbox() -> Outbox:
    """The running loop's outbox."""
    loop = asyncio.get_running_loop()
    found = _OUTBOXES.get(loop)
    if found is None:
        found = _OUTBOXES[loop] = Outbox(loop)
    return found
