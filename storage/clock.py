"""The time of rows: UTC, and never going back within a process.

Wall time is read once and carried on by the monotonic clock, so that a clock that is set back
during a run cannot end an attempt before it began. A process that lives for days follows the wall
clock forward again.
"""

import threading
import time
from datetime import UTC, datetime, timedelta

RESYNC_S = 60.0  # how far the wall clock may run ahead before it is followed


class Clock:
    """Wall time that only moves forward."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._anchor, self._since = datetime.now(UTC), time.monotonic()

    def now(self) -> datetime:
        """The current time in UTC, no earlier than any time given before."""
        with self._lock:
            wall, monotonic = datetime.now(UTC), time.monotonic()
            carried = self._anchor + timedelta(seconds=monotonic - self._since)
            if (wall - carried).total_seconds() > RESYNC_S:
                self._anchor, self._since = wall, monotonic
                return wall
            return carried


def aware(at: datetime) -> datetime:
    """A time of the catalog with its zone: SQLite keeps none, and all of ours are UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


_CLOCK = Clock()


def now() -> datetime:
    """The current time in UTC; never goes back within a process."""
    return _CLOCK.now()
