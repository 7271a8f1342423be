"""Input taken a little in each turn of the event loop, so that no peer occupies it.

One turn may bring megabytes of a connection, as thousands of tiny chunks or pipelined requests.
"""

import asyncio

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

    def data_received(self, data: bytes) -> None:
        if self._waiting:  # read before it was paused
            self._waiting += data
        elif (taken := self.take(data)) < len(data):
            self._go_on_later(data[taken:])

    def hold(self, held: bool) -> None:
        """Take nothing more, or go on."""
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
        """Take the next turn's share."""
        if self._is_held or not self._waiting:
            return
        data, self._waiting = self._waiting, b""
        if (taken := self.take(data)) < len(data):
            self._go_on_later(data[taken:])
        else:
            self.hold(self._is_held)
