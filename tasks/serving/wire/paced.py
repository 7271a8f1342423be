"""Input processed in small amounts per turn of the event loop, and writes batched at its end.

One turn may bring megabytes of a connection; no peer occupies the loop. A write costs most if the
reader is asleep, because the kernel wakes it before the call returns: if the writes of a busy turn
are batched, few of them find a sleeping reader. The first write of a turn is immediate.
"""

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

TURN_BYTES = 64 * 1024


class PacedProtocol(asyncio.Protocol):
    """Passes a connection's input to `take`, which leaves the rest for later turns."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting = b""
        """Input that has come and was not taken yet; meanwhile nothing is read."""
        self._is_held = False

    def take(self, data: bytes) -> int:
        """Take input; returns how many bytes, at least one unless it is held."""
        raise NotImplementedError

    def flush(self) -> None:
        """Write the output announced by `Outbox.add`, if the connection is still open."""
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        if self._waiting:  # read before it was paused
            self._waiting += data
        elif (taken := self.take(data)) < len(data):
            self._go_on_later(data[taken:])

    def hold(self, held: bool) -> None:
        """Pause or resume taking input."""
        self._is_held = held
        if self._transport is None or self._transport.is_closing():
            return
        if held:
            self._transport.pause_reading()
        elif self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._transport.resume_reading()

    def _go_on_later(self, rest: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._waiting = rest
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._is_held or not self._waiting:
            return
        data, self._waiting = self._waiting, b""
        if (taken := self.take(data)) < len(data):
            self._go_on_later(data[taken:])
        else:
            self.hold(self._is_held)


class Outbox:
    """The connections of one event loop that have something to send."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._due: deque[PacedProtocol] = deque()
        self._sent_one = False
        """Whether one was flushed immediately in this turn."""

    def add(self, sender: PacedProtocol) -> None:
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
    loop = asyncio.get_running_loop()
    found = _OUTBOXES.get(loop)
    if found is None:
        found = _OUTBOXES[loop] = Outbox(loop)
    return found
