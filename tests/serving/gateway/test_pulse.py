"""Tests that garbage of a gateway that is never idle is collected before it uses much memory."""

import gc
import time
import weakref

from tutti.tasks.serving.gateway.core import COLLECT_S, GROWN, GROWN_BLOCKS, Pulse


class Cycle:
    """Object that refers to itself, so only garbage collection frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_collected_when_memory_has_grown_though_calls_wait() -> None:
    """Garbage used to be collected once an hour: at 300 bytes per fuzzed request, that was half a
    gigabyte."""
    gc.collect()  # that of other tests
    pulse, now = Pulse(), time.monotonic()
    garbage = Cycle()
    alive = weakref.ref(garbage)
    del garbage
    pulse.collect_all(now, busy=True)
    pulse.collect_all(now + COLLECT_S + 1, busy=True)
    assert alive() is not None, "memory has not grown: calls are not stopped for it"
    blocks = [object() for _ in range(int((GROWN - 1) * pulse._blocks) + GROWN_BLOCKS + 10_000)]
    pulse.collect_all(now, busy=True)
    assert alive() is None
    del blocks
