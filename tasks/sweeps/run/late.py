"""Attempts that take far longer than the others of their cell: a batch does not wait for them.

In: when attempts began and how long others took. Out: those that are cut. A sweep cuts none; the
rollouts of a training do, because an update waits for the last of them.
"""

import asyncio
import time
from statistics import median

from tutti.storage.catalog import CellReason
from tutti.tasks.sweeps.plan import EndReason, Sample

SHARE = 0.9
"""Of a cell's samples that have ended before any is late."""
STOP_REASON = "late"


class LateAttempts:
    """The attempts of one cell; one is late after `factor` times the median duration."""

    def __init__(self, factor: float, total: int) -> None:
        self._factor, self._total = factor, total
        self._began: dict[asyncio.Task[None], float] = {}
        self._took: list[float] = []
        self._cut: set[asyncio.Task[None]] = set()
        self.attempt_of: dict[str, str] = {}
        """The latest attempt of each sample."""

    async def make(self, sample: Sample, work: "asyncio.Task[None]") -> bool:
        """Wait for a sample's work; False where it was cut."""
        self._began[work] = time.monotonic()
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:  # of the session, also while its work is being cut
            if work not in self._cut:
                work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise
        finally:
            self._took.append(time.monotonic() - self._began.pop(work))
        if work.cancelled() and work in self._cut:
            return False
        work.result()
        return True

    def cut(self, done: int) -> EndReason | None:
        """Cut those that are late, once `done` of the samples are enough, and say so."""
        if done < SHARE * self._total or not self._took:
            return None
        limit_s = self._factor * median(self._took)
        now = time.monotonic()
        late = [work for work, began in self._began.items() if now - began > limit_s]
        late = [work for work in late if work not in self._cut]
        if not late:
            return None
        self._cut.update(late)
        for work in late:
            work.cancel()
        text = f"attempts of more than {limit_s:.1f} s were cut, {self._factor:g} times the median"
        return EndReason(CellReason.LATE, text, self._factor)
