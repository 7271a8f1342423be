"""Instances made by several processes, taken in their order.

In: a request and a folder. Out: the folder of instance after instance, as many as the asked size
needs. Killed, the finished ones are kept, and a run that goes on takes them.
"""

import asyncio
import atexit
import itertools
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tutti.tasks.synthesis.making.instance import make_instance
from tutti.tasks.synthesis.making.request import DomainRequest

PARENT_POLL_S = 0.5
_benchmarks: Sequence[str] = ()
"""Of a worker: given once, not with each instance."""


def instance_folder(work: Path, number: int) -> Path:
    """Where an instance lies."""
    return work / f"instance-{number:04}"


async def instances(
    request: DomainRequest, work: Path, benchmarks: Sequence[str]
) -> AsyncGenerator[Path, None]:
    """The folders of instances as they are made, from 0, without end; close it when there are
    enough tasks. Raises what `make_instance` raises."""
    if request.workers == 1:
        for number in itertools.count():
            folder = instance_folder(work, number)
            # In a thread: an instance takes seconds of this process's time.
            await asyncio.to_thread(asyncio.run, make_instance(request, number, folder, benchmarks))
            yield folder
    with _pool(min(request.workers, request.databases), benchmarks) as pool:
        waiting: deque[Future[None]] = deque()
        for made in itertools.count():
            # One that nobody takes would have to be waited for: beyond those that surely are
            # needed, one by one, and more the more databases gave too few.
            needed = request.databases - made
            needed = needed if needed > 0 else 1 - needed
            for number in range(made + len(waiting), made + min(needed, request.workers + 1)):
                waiting.append(pool.submit(_make, request, number, work))
            await asyncio.wrap_future(waiting.popleft())
            yield instance_folder(work, made)


@contextmanager
def _pool(workers: int, benchmarks: Sequence[str]) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    given = (os.getpid(), benchmarks)
    pool = ProcessPoolExecutor(workers, context, _begin, given)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int, benchmarks: Sequence[str]) -> None:
    global _benchmarks
    _benchmarks = benchmarks
    # Without DuckDB's binding listing what lives at Python's end as leaks; all is written by then.
    atexit.register(os._exit, 0)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)


def _make(request: DomainRequest, number: int, work: Path) -> None:
    asyncio.run(make_instance(request, number, instance_folder(work, number), _benchmarks))
