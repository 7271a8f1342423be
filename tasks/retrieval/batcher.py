"""Micro-batching with turns: requests of one or more items in, their results out.

One thread works on a batch while the event loop collects the next. When the last batch had several
requests, the batcher waits for as many again, but no longer than the configured wait nor than the
last batch took. A batch takes one item of the oldest request, so that each is finished some time,
and then always the next item of the request that would have the least weight so far with it.
"""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WAIT_S = 0.002
LIMIT = 256


@dataclass(eq=False)
class _QueuedRequest(Generic[Item, Result]):
    items: Sequence[Item]
    done: "asyncio.Future[list[Result]]"
    results: list[Result] = field(default_factory=list)
    taken: int = 0
    weight: int = 0  # of the items that were taken


@dataclass
class Batcher(Generic[Item, Result]):
    """Runs `work` on lists of items in one thread; use as an async context manager."""

    work: Callable[[Sequence[Item]], Sequence[Result]]  # in the thread; one result per item
    wait_s: float = WAIT_S
    limit: int = LIMIT  # largest number of items in a batch
    weigh: Callable[[Item], int] = lambda item: 1
    most_weight: int = LIMIT  # largest weight of a batch of several items
    begin: Callable[[], object] = lambda: None  # called once in the thread before the first batch
    batches: int = 0
    items: int = 0
    _waiting: "OrderedDict[int, _QueuedRequest[Item, Result]]" = field(default_factory=OrderedDict)
    """Requests with items that were not taken, by their numbers, the oldest first."""
    _lightest: list[tuple[int, int]] = field(default_factory=list)
    """A heap of (weight with its next item, number); numbers that wait no more are passed over."""
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _wanted: int = 1
    _worked_s: float = 0.0

    async def __aenter__(self) -> "Batcher[Item, Result]":
        self._arrived, self._enough = asyncio.Event(), asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "batcher", self.begin)
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for request in self._waiting.values():
            request.done.cancel()
        self._thread.shutdown()

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """Queue a request and wait for its results. Raises what `work` raised for a batch of it."""
        assert items, "a request has at least one item"
        done: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._waiting[number] = _QueuedRequest(items, done)
        heappush(self._lightest, (self.weigh(items[0]), number))
        self._arrived.set()
        if len(self._waiting) >= self._wanted:
            self._enough.set()
        try:
            return await done
        finally:
            self._waiting.pop(number, None)  # a caller that was cancelled

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            if len(self._waiting) < self._wanted:
                await self._wait_for_more()
            if batch := self._take():
                await self._work_on(batch)
            if not self._waiting:
                self._arrived.clear()

    async def _wait_for_more(self) -> None:
        """Wait until there are as many requests as last time, at most as long as the last batch."""
        self._enough.clear()
        wait_s = min(self.wait_s, self._worked_s)
        bell = asyncio.get_running_loop().call_later(wait_s, self._enough.set)
        await self._enough.wait()
        bell.cancel()

    def _take(self) -> list[tuple[_QueuedRequest[Item, Result], Item]]:
        """Return the next batch: one item of the oldest request, then always of the lightest."""
        batch: list[tuple[_QueuedRequest[Item, Result], Item]] = []
        weight = 0
        if len(self._lightest) > 2 * len(self._waiting) + LIMIT:
            self._lightest = sorted(each for each in self._lightest if each[1] in self._waiting)
        while self._waiting and len(batch) < self.limit:
            number = next(iter(self._waiting))
            if batch:
                while self._lightest[0][1] not in self._waiting:
                    heappop(self._lightest)
                number = self._lightest[0][1]
            request = self._waiting[number]
            item = request.items[request.taken]
            own = self.weigh(item)
            if batch and weight + own > self.most_weight:
                break
            if batch:
                heappop(self._lightest)
            weight += own
            request.weight += own
            request.taken += 1
            batch.append((request, item))
            if request.taken == len(request.items):
                del self._waiting[number]
            elif len(batch) > 1:  # of the oldest, the heap has its earlier, lighter weight still
                next_weight = request.weight + self.weigh(request.items[request.taken])
                heappush(self._lightest, (next_weight, number))
        return batch

    async def _work_on(self, batch: list[tuple[_QueuedRequest[Item, Result], Item]]) -> None:
        requests = list(dict.fromkeys(request for request, _ in batch))
        self._wanted = len(requests)
        self.batches, self.items = self.batches + 1, self.items + len(batch)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            items = [item for _, item in batch]
            results = await loop.run_in_executor(self._thread, self.work, items)
        except Exception as error:
            for request in requests:
                if not request.done.done():
                    request.done.set_exception(error)
            return
        finally:
            self._worked_s = loop.time() - began
        for (request, _), result in zip(batch, results, strict=True):
            request.results.append(result)
        for request in requests:
            if len(request.results) == len(request.items) and not request.done.done():
                request.done.set_result(request.results)
