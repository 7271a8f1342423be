"""Event loop whose clock stands still while anything can run, and then advances to the next timer.

A sleep of an hour takes no time, and no sleep is longer than specified. For code of one thread:
while a timer is due, work of another thread or process is not waited for.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Selector(selectors.DefaultSelector):
    """Selector that advances the clock where the loop would sleep."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not timeout:
            return super().select(timeout)
        self.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop with the time of its selector."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the seconds of virtual time."""
        return self._clock.now


def run_in_virtual_time(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
