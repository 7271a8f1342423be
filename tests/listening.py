"""One of tutti's HTTP services in a thread, for tests whose client blocks."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

from tutti.tasks.serving.wire import Server

START_S = 120.0


@contextmanager
def listening(service: AbstractAsyncContextManager[Server]) -> Iterator[int]:
    """Run a service for the block and yield its port."""
    ready, ports = threading.Event(), list[int]()
    loop, stopping = asyncio.new_event_loop(), asyncio.Event()

    async def work() -> None:
        async with service as server:
            ports.append(await server.listen("127.0.0.1", 0))
            ready.set()
            await stopping.wait()
            await server.close(1.0)

    thread = threading.Thread(target=loop.run_until_complete, args=[work()])
    thread.start()
    try:
        assert ready.wait(START_S), "the service did not start"
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        loop.close()
