"""The gateway's own latency: decision times, and delays of its event loop."""

import asyncio
import gc
import time
from collections import deque

BEAT_S = 0.02
KEPT = 1024
COLLECT_S, COLLECT_AT_LAST_S = 60.0, 3600.0


class Pulse:
    """Times of the last decisions, and the longest stall of the loop since it was last read."""

    def __init__(self) -> None:
        self._decisions: deque[float] = deque(maxlen=KEPT)
        self.decision_max_s = 0.0
        self.stall_max_s = 0.0
        self._collected = time.monotonic()

    def decided(self, seconds: float) -> None:
        """Record the time of a decision."""
        self._decisions.append(seconds)
        self.decision_max_s = max(self.decision_max_s, seconds)

    def decision_s(self, *shares: float) -> list[float]:
        """The times below which those shares of the last decisions lie; 0 before the first."""
        ordered = sorted(self._decisions) or [0.0]
        return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in shares]

    async def beat(self) -> None:
        """Measure how late the loop is, for ever, and look through what is new for garbage that
        holds itself: a beat's worth takes a millisecond when it is much."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(BEAT_S)
            self.stall_max_s = max(self.stall_max_s, time.monotonic() - before - BEAT_S)
            gc.collect(0)

    def collect_all(self, now: float, busy: bool) -> None:
        """Look for all garbage that holds itself, now and then, rather while nobody waits: it takes
        tens of milliseconds."""
        if now - self._collected > (COLLECT_AT_LAST_S if busy else COLLECT_S):
            gc.collect()
            self._collected = now

    def now(self) -> float:
        """The clock that calls are timed by."""
        return time.monotonic()

    def reset(self) -> None:
        """Forget all measured times."""
        self._decisions.clear()
        self.decision_max_s = self.stall_max_s = 0.0
