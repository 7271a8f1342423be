"""How long to serve models: for a number of minutes, until a signal, or until an engine dies."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from tutti.tasks.serving.engine import Engine
from tutti.tasks.serving.external_endpoint import ExternalEndpoint

SHOW_S = 1.0


async def serve_for(
    engines: Sequence[Engine | ExternalEndpoint],
    minutes: float,
    stopped: asyncio.Event,
    show: Callable[[float, float], None],
    is_busy: Callable[[], bool] | None = None,
) -> None:
    """Wait until `minutes` have passed (0: no limit) or `stopped` is set.

    With `is_busy`, asked each second on a thread, until `minutes` have passed since it last was
    true. `show` is called with the minutes and the limit. Raises EngineFailed when an engine dies.
    """
    waiting = [asyncio.create_task(engine.watch()) for engine in engines]
    waiting.append(asyncio.create_task(_wait(minutes, stopped, show, is_busy)))
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    for each in done:
        each.result()


async def _wait(
    minutes: float,
    stopped: asyncio.Event,
    show: Callable[[float, float], None],
    is_busy: Callable[[], bool] | None,
) -> None:
    started = time.monotonic()
    while not stopped.is_set():
        if is_busy is not None and await asyncio.to_thread(is_busy):
            started = time.monotonic()
        served = (time.monotonic() - started) / 60
        left_s = (minutes - served) * 60
        if minutes:
            show(min(served, minutes), minutes)
            if left_s <= 0:
                return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), min(SHOW_S, left_s) if minutes else SHOW_S)


@contextlib.contextmanager
def stop_on_signals(listen: bool = True) -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set during the block; without `listen`, or outside the main
    thread, nothing sets it."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    in_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if listen and in_main else ()
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
