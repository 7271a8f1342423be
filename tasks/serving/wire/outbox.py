"""What is to be sent goes out together, at the end of the event loop's turn; but the first at once.

A write costs most where the reader is asleep: the kernel wakes it before it returns. One turn of a
busy loop hears many peers; sent together, few writes of a turn find a sleeper. In a turn that hears
one peer only, nothing waits.
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
        self._sent_one = False
        """In this turn, at once."""

    def add(self, sender: Sender) -> None:
        """Have it flushed: now, or when the loop has heard all that there is to hear."""
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
            if due:  # one has failed, which is its own; the others still go out
                self._sent_one = True
                self._call_soon(self._send)


_OUTBOXES: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def outbox() -> Outbox:
    """The running loop's."""
    loop = asyncio.get_running_loop()
    found = _OUTBOXES.get(loop)
    if found is None:
        found = _OUTBOXES[loop] = Outbox(loop)
    return found
