"""The gateway's own latency: decision times, and delays of its event loop."""

import asyncio
import gc
import itertools
import sys
import time
from collections import deque

BEAT_S, YOUNG_BEATS = 0.02, 50
KEPT = 1024
COLLECT_S, COLLECT_AT_LAST_S = 60.0, 3600.0
GROWN, GROWN_BLOCKS = 1.25, 100_000
"""All garbage is collected when the interpreter's blocks have grown by that share and number: some
10 MB."""


class Pulse:
    """Times of the last decisions, and the longest delay of the event loop since it was last
    read."""

    def __init__(self) -> None:
        self._decisions: deque[float] = deque(maxlen=KEPT)
        self.decision_max_s = 0.0
        self.stall_max_s = 0.0
        self._collected, self._blocks = time.monotonic(), sys.getallocatedblocks()

    def decided(self, seconds: float) -> None:
        self._decisions.append(seconds)
        self.decision_max_s = max(self.decision_max_s, seconds)

    def decision_s(self, *shares: float) -> list[float]:
        """Quantiles of the last decision times, at those shares; 0 before the first."""
        ordered = sorted(self._decisions) or [0.0]
        return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in shares]

    async def beat(self) -> None:
        """Measure the loop's delay forever, and collect new cyclic garbage: one beat's takes a
        millisecond when there is much of it, that of what lived for some beats a few."""
        for beat in itertools.count():
            before = time.monotonic()
            await asyncio.sleep(BEAT_S)
            self.stall_max_s = max(self.stall_max_s, time.monotonic() - before - BEAT_S)
            gc.collect(int(beat % YOUNG_BEATS == 0))

    def collect_all(self, now: float, busy: bool) -> None:
        """Collect all cyclic garbage from time to time, preferably while no call waits: it takes up
        to tens of milliseconds; sooner when memory has grown."""
        grown = sys.getallocatedblocks() > GROWN * self._blocks + GROWN_BLOCKS
        if grown or now - self._collected > (COLLECT_AT_LAST_S if busy else COLLECT_S):
            gc.collect()
            self._collected, self._blocks = now, sys.getallocatedblocks()

    def reset(self) -> None:
        self._decisions.clear()
        self.decision_max_s = self.stall_max_s = 0.0
