"""The timestamps of rows: UTC, and never decreasing within a process.

The monotonic clock advances the wall clock, which is read once: a clock that is set back cannot end
an attempt before its start. A long-lived process follows the wall clock forward.
"""

import threading
import time
from datetime import UTC, datetime, timedelta

RESYNC_S = 60.0  # how far the wall clock may run ahead before it is followed
LOOK_S = 1.0  # interval of checks; a gateway has thousands of rows a second


class Clock:
    """Wall time that only moves forward."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._anchor = datetime.now(UTC), time.monotonic()
        self._look_at = 0.0

    def now(self) -> datetime:
        """The current time in UTC, never earlier than a previous result."""
        return self.at(time.monotonic())

    def at(self, monotonic_s: float) -> datetime:
        """The time in UTC at a reading of the monotonic clock, in seconds."""
        if monotonic_s >= self._look_at:
            self._look(monotonic_s)
        wall, since = self._anchor
        return wall + timedelta(0, monotonic_s - since)

    def _look(self, monotonic_s: float) -> None:
        """Follow the wall clock if it is far ahead."""
        with self._lock:
            carried, since = self._anchor
            wall, read_at = datetime.now(UTC), time.monotonic()
            if (wall - carried).total_seconds() - (read_at - since) > RESYNC_S:
                self._anchor = wall, read_at
            self._look_at = read_at + LOOK_S


def aware(at: datetime) -> datetime:
    """Return a time from the catalog with its zone: SQLite stores none, and all times are UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


_CLOCK = Clock()


def now() -> datetime:
    """The current time in UTC; never decreases within a process."""
    return _CLOCK.now()


def at(monotonic_s: float) -> datetime:
    """The time in UTC at a reading of `time.monotonic` in this process."""
    return _CLOCK.at(monotonic_s)
