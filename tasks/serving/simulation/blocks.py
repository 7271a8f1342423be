"""The prefix cache of an engine, as counts of blocks in LRU order.

Programs share no text of their own, so a cached block needs no content: the blocks of one owner (a
program, or the system prompt of a group) are a run, index 0 first. vLLM frees a request's blocks
tail first and reuses the block freed longest ago, so a run shrinks from its tail and the rest is
always a prefix: a count suffices. The free queue is a list of runs, not of blocks, so a request of
a thousand blocks costs no more than one of ten.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class FreedBlocks:
    """Unreferenced blocks that were freed together."""

    key: Hashable
    turn: int
    full: int
    """Blocks that a prompt can match, index 0 up."""
    empty: int
    """Blocks with nothing to match; reused before the full ones."""


class BlockCache:
    """The blocks of one engine."""

    __slots__ = ("free", "queue", "runs", "total")

    def __init__(self, total: int) -> None:
        self.total = self.free = total
        self.queue: OrderedDict[FreedBlocks, None] = OrderedDict()
        """Runs in order of the time they were freed, oldest first."""
        self.runs: dict[Hashable, FreedBlocks] = {}
        """The run of each owner that has one that can be matched."""
        self.queue[FreedBlocks(None, 0, 0, total)] = None

    def cached(self, key: Hashable) -> int:
        """How many of its blocks the owner could match now."""
        run = self.runs.get(key)
        return 0 if run is None else run.full

    def match(self, key: Hashable, most: int) -> int:
        """Reference the owner's first blocks, at most `most`: they leave the queue.

        The rest of the run can never be matched again and stays until it is reused.
        """
        run = self.runs.pop(key, None)
        if run is None:
            return 0
        hit = min(run.full, most)
        run.full -= hit
        self.free -= hit
        if run.full + run.empty == 0:
            del self.queue[run]
        return hit

    def allocate(self, count: int) -> None:
        """Take `count` blocks, those freed longest ago first. There must be as many free."""
        assert count <= self.free, f"{count} blocks asked for, {self.free} free"
        self.free -= count
        queue = self.queue
        while count:
            run = next(iter(queue))
            size = run.full + run.empty
            if size <= count:
                count -= size
                del queue[run]
                if self.runs.get(run.key) is run:
                    del self.runs[run.key]
            else:
                empty = min(count, run.empty)
                run.empty -= empty
                run.full -= count - empty
                count = 0

    def give(self, key: Hashable, turn: int, full: int, empty: int) -> None:
        """Return a request's blocks: `full` can be matched from now on, `empty` cannot."""
        if full + empty == 0:
            return
        run = FreedBlocks(key, turn, full, empty)
        self.queue[run] = None
        self.free += full + empty
        if full:
            self.runs[key] = run
        else:
            self.runs.pop(key, None)
