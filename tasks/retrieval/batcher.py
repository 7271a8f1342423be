"""Micro-batching: requests that arrive during a batch form the next one.

In: items, one at a time. Out: their results. One thread works on a batch while the event loop
collects the next. When the last batch had several items, the batcher waits for as many again, but
no longer than the configured wait nor than the last batch took, since waiting would then cost more
than it saves. A single caller never waits.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WAIT_S = 0.002
LIMIT = 256


@dataclass
class _QueuedItem(Generic[Item, Result]):
    item: Item
    result: "asyncio.Future[Result]"


@dataclass
class Batcher(Generic[Item, Result]):
    """Runs `work` on lists of items in one thread; use as an async context manager."""

    work: Callable[[Sequence[Item]], Sequence[Result]]
    """Called in the thread; returns one result per item, in order."""
    wait_s: float = WAIT_S
    limit: int = LIMIT
    """Largest number of items in a batch."""
    begin: Callable[[], object] = lambda: None
    """Called once in the thread before the first batch."""
    batches: int = 0
    items: int = 0
    _queue: "list[_QueuedItem[Item, Result]]" = field(default_factory=list)
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
        for waiting in self._queue:
            waiting.result.cancel()
        self._thread.shutdown()

    async def submit(self, item: Item) -> Result:
        """Queue `item` and wait for its result. Raises what `work` raised for its batch."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append(_QueuedItem(item, future))
        self._arrived.set()
        if len(self._queue) >= self._wanted:
            self._enough.set()
        return await future

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            if len(self._queue) < self._wanted:
                await self._wait_for_more()
            batch = self._queue[: self.limit]
            del self._queue[: self.limit]
            if not self._queue:
                self._arrived.clear()
            # callers that were cancelled
            batch = [waiting for waiting in batch if not waiting.result.done()]
            if batch:
                await self._work_on(batch)

    async def _wait_for_more(self) -> None:
        """Wait until there are as many items as last time, but no longer than the last batch
        took."""
        self._enough.clear()
        wait_s = min(self.wait_s, self._worked_s)
        bell = asyncio.get_running_loop().call_later(wait_s, self._enough.set)
        await self._enough.wait()
        bell.cancel()

    async def _work_on(self, batch: "list[_QueuedItem[Item, Result]]") -> None:
        self._wanted = min(len(batch), self.limit)
        self.batches, self.items = self.batches + 1, self.items + len(batch)
        loop = asyncio.get_running_loop()
        began = loop.time()
        items = [waiting.item for waiting in batch]
        try:
            results = await loop.run_in_executor(self._thread, self.work, items)
        except Exception as error:
            for waiting in batch:
                if not waiting.result.done():
                    waiting.result.set_exception(error)
            return
        finally:
            self._worked_s = loop.time() - began
        for waiting, result in zip(batch, results, strict=True):
            if not waiting.result.done():
                waiting.result.set_result(result)
