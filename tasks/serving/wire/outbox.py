"""What is to be sent goes out together, at the end of the event loop's turn.

A write at once costs most where the reader is asleep: the kernel wakes it before it returns. One
turn of a busy loop hears many peers; sent together, only the first write of a turn finds a sleeper.
"""

import asyncio
from collections import deque
from typing import Protocol
from weakref import WeakKeyDictionary


class Sender(Protocol):
    """A connection with bytes to go out."""

    def flush(self) -> None:
        """Write them now, if the connection still takes any."""


class Outbox:
    """The connections of one loop that have something to send."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._due: deque[Sender] = deque()

    def add(self, sender: Sender) -> None:
        """Have it flushed when the loop has heard all that there is to hear."""
        if not self._due:
            self._call_soon(self._send)
        self._due.append(sender)

    def _send(self) -> None:
        due = self._due
        try:
            while due:
                due[0].flush()
                due.popleft()
        finally:
            if due:  # one has failed, which is its own; the others still go out
                due.popleft()
                if due:
                    self._call_soon(self._send)


_OUTBOXES: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def outbox() -> Outbox:
    """The running loop's."""
    loop = asyncio.get_running_loop()
    found = _OUTBOXES.get(loop)
    if found is None:
        found = _OUTBOXES[loop] = Outbox(loop)
    return found
