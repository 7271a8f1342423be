"""The working clock of an attempt.

Working time is the time since an attempt began, without what it waited for: its partner, and its
endpoints. A call waits for its endpoint while the gateway holds it, in each try that fails and in
the pause before the next one, so of a call only the try that was answered is work. Models report
their waits to the attempt that runs (`note_wait`), however deep in it they are called.
"""

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

from tutti.storage import WaitedTime

_RUNNING: ContextVar["WorkingClock | None"] = ContextVar("working_clock", default=None)


class WorkingClock:
    """The clock of one attempt; it runs from its creation."""

    def __init__(self) -> None:
        self.began, self.partner_s = time.monotonic(), 0.0
        self._held = WaitedTime()

    def read(self) -> tuple[float, float, float]:
        """Seconds since it began, those of waiting for endpoints, and those of the partner."""
        return time.monotonic() - self.began, self._held.seconds, self.partner_s

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Take the waits that the block reports."""
        token = _RUNNING.set(self)
        try:
            yield
        finally:
            _RUNNING.reset(token)

    @contextlib.contextmanager
    def partner(self) -> Iterator[None]:
        """Count the block as the partner's time, with the partner's own waits."""
        began, token = time.monotonic(), _RUNNING.set(None)
        try:
            yield
        finally:
            _RUNNING.reset(token)
            self.partner_s += time.monotonic() - began

    def wait(self, start: float, end: float) -> None:
        """Take a wait for an endpoint, in seconds of the monotonic clock."""
        self._held.add(start, end)


def note_wait(start: float, end: float) -> None:
    """Report a wait for an endpoint to the attempt that runs, if one does."""
    if (clock := _RUNNING.get()) is not None:
        clock.wait(start, end)
