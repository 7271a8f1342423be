"""Tests of micro-batches: large when busy, immediate for a single request, and never blocking the
loop."""

import asyncio
import threading
import time
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest

from tutti.tasks.retrieval.batcher import LIMIT, Batcher


class Doubler:
    """Slow function that doubles numbers, records its batches, and refuses batches with a negative
    number."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds
        self.batches: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        assert threading.current_thread() is not threading.main_thread()
        self.batches.append(list(items))
        time.sleep(self.seconds)
        if min(items) < 0:
            raise ValueError("negative")
        return [2 * item for item in items]


async def test_what_comes_while_busy_goes_together() -> None:
    work = Doubler()
    async with Batcher(work) as batcher:
        results = await asyncio.gather(*(batcher.submit([nth]) for nth in range(64)))
    assert results == [[2 * nth] for nth in range(64)]
    assert len(work.batches) <= 3 and sorted(chain(*work.batches)) == [*range(64)]
    assert (batcher.items, batcher.batches) == (64, len(work.batches))


async def test_one_caller_alone_never_waits_for_others() -> None:
    async with Batcher(Doubler(0.0), wait_s=1.0) as batcher:
        waits = watch_waits()
        for nth in range(10):
            assert await batcher.submit([nth]) == [2 * nth]
    assert waits == []


async def test_the_wait_is_bounded_when_callers_leave() -> None:
    """After a large batch, a single request waits for the bound once, and the next does not
    wait."""
    async with Batcher(Doubler(0.05), wait_s=0.02) as batcher:
        await asyncio.gather(*(batcher.submit([nth]) for nth in range(10)))
        await asyncio.gather(*(batcher.submit([nth]) for nth in range(10)))
        waits = watch_waits()
        assert await batcher.submit([7]) == [14]
        assert await batcher.submit([8]) == [16]
    assert waits == [0.02]


async def test_waiting_never_takes_longer_than_the_work() -> None:
    """There are ten requests, then one, with a wait of a minute and almost no work."""
    async with Batcher(Doubler(0.0), wait_s=60.0) as batcher:
        await asyncio.gather(*(batcher.submit([nth]) for nth in range(10)))
        began = time.monotonic()
        await asyncio.gather(*(batcher.submit([nth]) for nth in range(10)))
        worked_s, waits = time.monotonic() - began, watch_waits()
        assert await batcher.submit([7]) == [14]
    (wait_s,) = waits
    assert wait_s < worked_s


def watch_waits() -> list[float]:
    """Return the list of waits in seconds that start on this loop from now on."""
    loop, waits = asyncio.get_running_loop(), list[float]()
    call_later = loop.call_later

    def watch(delay_s: float, *given: Any, **named: Any) -> asyncio.TimerHandle:
        waits.append(delay_s)
        return call_later(delay_s, *given, **named)

    loop.call_later = watch  # type: ignore
    return waits


async def test_the_loop_runs_on_while_a_batch_is_worked_on() -> None:
    """The work ends only when the loop allows it."""
    go = threading.Event()

    def work(items: Sequence[int]) -> list[bool]:
        return [go.wait(60) for _ in items]

    async with Batcher(work) as batcher:
        waiting = asyncio.create_task(batcher.submit([1]))
        for _ in range(8):
            await asyncio.sleep(0)
        assert not waiting.done()
        go.set()
        assert await waiting == [True]


async def test_an_error_reaches_its_batch_and_no_other() -> None:
    async with Batcher(Doubler(0.0)) as batcher:
        with pytest.raises(ValueError, match="negative"):
            await batcher.submit([-1])
        assert await batcher.submit([3]) == [6]


async def test_a_caller_that_goes_away_costs_nobody_anything() -> None:
    work = Doubler(0.05)
    async with Batcher(work) as batcher:
        first = asyncio.create_task(batcher.submit([1]))
        await asyncio.sleep(0.01)
        gone, stays = (asyncio.create_task(batcher.submit([nth])) for nth in (2, 3))
        await asyncio.sleep(0)
        gone.cancel()
        assert [await first, await stays] == [[2], [6]]
    assert work.batches == [[1], [3]]
    assert batcher.items == 2


async def test_no_batch_is_larger_than_its_limit() -> None:
    work = Doubler(0.0)
    async with Batcher(work, limit=4) as batcher:
        await asyncio.gather(*(batcher.submit([nth]) for nth in range(10)))
    assert max(map(len, work.batches)) <= 4


async def test_a_light_request_is_in_the_next_batch_whatever_heavy_ones_wait() -> None:
    """Heavy requests get all their results, in order, in batches of a bounded weight."""
    work = Doubler(0.005)
    async with Batcher(work, weigh=lambda item: 5 if item < 1000 else 1, most_weight=10) as batcher:
        heavy = [asyncio.create_task(batcher.submit(range(n, n + 20))) for n in (100, 200, 300)]
        await asyncio.sleep(0.02)
        begun = batcher.batches
        assert await batcher.submit([1000, 1001]) == [2000, 2002]
        (light,) = [nth for nth, batch in enumerate(work.batches) if 1000 in batch]
        assert light <= begun and {1000, 1001} <= set(work.batches[light])
        found = await asyncio.gather(*heavy)
    assert found == [[2 * item for item in range(n, n + 20)] for n in (100, 200, 300)]
    assert max(sum(5 if item < 1000 else 1 for item in batch) for batch in work.batches) <= 10


async def test_a_heavy_request_ends_however_many_light_ones_come() -> None:
    """The oldest request has an item in every batch."""
    work = Doubler(0.001)
    async with Batcher(
        work, limit=4, weigh=lambda item: 1 + 9 * (item < 9), most_weight=99
    ) as many:
        heavy = asyncio.create_task(many.submit(range(9)))
        await asyncio.sleep(0)

        async def crowd(nth: int) -> None:
            while not heavy.done():
                await many.submit([100 + nth])

        await asyncio.gather(*(crowd(nth) for nth in range(8)))
        assert await heavy == [2 * nth for nth in range(9)]
        assert len(many._lightest) < 2 * LIMIT
    first = next(nth for nth, batch in enumerate(work.batches) if 0 in batch)
    assert all(any(item < 9 for item in batch) for batch in work.batches[first : first + 5])
