"""How long to serve models: for a number of minutes, until a signal, or until an engine dies.

With kept engines the minutes count from their last use, by calls or by another run; those whose
entries say ``sleep: true`` sleep while they are not used.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from tutti.storage import Catalog
from tutti.tasks.serving.engine import Engine, ExternalEndpoint
from tutti.tasks.serving.engines import IdleSleep, is_used
from tutti.tasks.serving.services import GatewayClient

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


class EngineUse:
    """The use of a keeper's engines."""

    def __init__(
        self,
        catalog: Catalog,
        gateway: GatewayClient,
        engines: Sequence[Engine | ExternalEndpoint],
    ) -> None:
        self._catalog, self._gateway = catalog, gateway
        started = [each for each in engines if isinstance(each, Engine)]
        self._urls = [each.address.url for each in started]
        # vLLM alone has the calls for it
        can_sleep = [each for each in started if each.settings.sleep]
        self._sleep = IdleSleep(
            [each.address.url for each in can_sleep if each.settings.server == "vllm"]
        )
        self._calls = -1

    def is_busy(self) -> bool:
        """Whether a run uses one now, or a call ran since the last question; by that they sleep and
        wake. Not for use in an event loop. Raises GatewayFailed, StoreError, EngineFailed."""
        busy = self._is_busy()
        self._sleep.follow(busy)
        return busy

    def _is_busy(self) -> bool:
        state = self._gateway.health()
        calls, self._calls = self._calls, state["recorded"] + state["unrecorded"]
        if state["held"] or state["running"] or calls != self._calls:
            return True
        return any(is_used(self._catalog, url) for url in self._urls)
