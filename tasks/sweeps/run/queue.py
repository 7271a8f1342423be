"""Gives out a cell's samples: in order, when they are due, until the cell ends.

In: samples, and when each is due. Out: one sample at a time to the sessions that ask. It is paused
and goes on; it is closed for now (the run is over, the cell is not) or for good (the cell is).
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tutti.tasks.sweeps.plan import EndReason, Sample

LOOK_S = 0.5  # who waits for a sample to be due looks that often whether it is paused


@dataclass(frozen=True)
class DueSample:
    sample: Sample
    at: datetime | None
    """When it was meant to start; None in a closed loop."""


class SampleQueue:
    """A queue of samples that ends when it is empty or closed."""

    def __init__(self, samples: Sequence[Sample], due_s: Sequence[float] | None = None) -> None:
        """`due_s`: seconds from now at which each is due, ascending; None: on demand."""
        self._samples = list(reversed(samples))
        self._due_s = None if due_s is None else list(reversed(due_s))
        self._turn = asyncio.Lock()
        self._open = asyncio.Event()
        self._open.set()
        self._over = asyncio.Event()  # there is nothing more to give out
        loop = asyncio.get_running_loop()
        self._began, self._began_at = loop.time(), datetime.now(UTC)
        self._paused_since: float | None = None
        self.closed = False
        self.reason: EndReason | None = None

    def close(self, reason: EndReason) -> None:
        """Close the queue; the first reason stays."""
        if not self.closed:
            self.closed, self.reason = True, reason
            self._over.set()
            self._open.set()

    @property
    def is_empty(self) -> bool:
        return self._over.is_set()

    def pause(self) -> None:
        """Return no samples until `resume`; due times are postponed by the pause."""
        if self._paused_since is None and not self.closed:
            self._paused_since = asyncio.get_running_loop().time()
            self._open.clear()

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._paused_since is not None:
            paused_s = asyncio.get_running_loop().time() - self._paused_since
            self._began += paused_s
            self._began_at += timedelta(seconds=paused_s)
            self._paused_since = None
            self._open.set()

    async def take(self) -> DueSample | None:
        """Return the next sample once it is due; None when there are no more. Callers wait in
        order."""
        async with self._turn:
            while True:
                await self._open.wait()
                if self.closed or not self._samples:
                    return None
                now = asyncio.get_running_loop().time()
                wait_s = 0.0 if self._due_s is None else self._began + self._due_s[-1] - now
                if wait_s <= 0:
                    break
                await self.until(min(wait_s, LOOK_S))
            sample = self._samples.pop()
            if not self._samples:
                self._over.set()
            at = None
            if self._due_s is not None:
                at = self._began_at + timedelta(seconds=self._due_s.pop())
            return DueSample(sample, at)

    async def until(self, seconds: float) -> None:
        """Wait `seconds`, or less if the queue ends before."""
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), seconds)
