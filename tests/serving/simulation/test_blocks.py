"""Tests that counted blocks behave like vLLM's: least recently freed first, and a run from its
tail."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.serving.simulation.engine import BlockCache


def test_the_run_freed_first_loses_its_tail() -> None:
    cache = BlockCache(6)
    cache.allocate(6)
    cache.give("a", 0, full=3, empty=0)
    cache.give("b", 0, full=2, empty=1)
    cache.allocate(2)
    assert (cache.cached("a"), cache.cached("b"), cache.free) == (1, 2, 4)
    cache.allocate(2)  # a's last one, then b's empty one
    assert (cache.cached("a"), cache.cached("b"), cache.free) == (0, 2, 2)


def test_what_was_never_used_goes_before_what_is_cached() -> None:
    cache = BlockCache(4)
    cache.allocate(2)
    cache.give("a", 0, full=2, empty=0)
    cache.allocate(2)
    assert cache.cached("a") == 2


def test_a_match_is_referenced_and_the_rest_of_the_run_is_lost() -> None:
    """The rest stays in place until it is reused, and cannot be matched."""
    cache = BlockCache(4)
    cache.allocate(4)
    cache.give("a", 0, full=4, empty=0)
    assert cache.match("a", 3) == 3
    assert (cache.free, cache.cached("a")) == (1, 0)
    cache.allocate(1)
    assert cache.free == 0


uses = st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.booleans())
"""Whose call, of how many blocks, and whether it continues the one before."""


@given(st.lists(uses, max_size=40))
def test_counted_blocks_are_what_a_queue_of_single_blocks_gives(
    history: list[tuple[str, int, bool]],
) -> None:
    cache, queue = BlockCache(12), Queue(12)
    for key, blocks, keeps in history:
        hit = cache.match(key, blocks if keeps else 0)
        assert hit == queue.match(key, blocks if keeps else 0)
        cache.allocate(blocks - hit)
        queue.allocate(blocks - hit)
        assert cache.free == len(queue.blocks)
        empty = blocks // 4
        cache.give(key, 0, blocks - empty, empty)
        queue.give(key, blocks - empty, empty)
        assert [cache.cached(k) for k in "abc"] == [queue.cached(k) for k in "abc"]


class Queue:
    """Reference implementation with single blocks."""

    def __init__(self, total: int) -> None:
        self.blocks: OrderedDict[object, tuple[str, int] | None] = OrderedDict(
            (object(), None) for _ in range(total)
        )

    def cached(self, key: str) -> int:
        held = {content for content in self.blocks.values() if content and content[0] == key}
        count = 0
        while (key, count) in held:
            count += 1
        return count

    def match(self, key: str, most: int) -> int:
        hit = min(self.cached(key), most)
        for block, content in list(self.blocks.items()):
            if content and content[0] == key:
                if content[1] < hit:
                    del self.blocks[block]
                else:
                    self.blocks[block] = None  # its content will be another's
        return hit

    def allocate(self, count: int) -> None:
        for _ in range(count):
            self.blocks.popitem(last=False)

    def give(self, key: str, full: int, empty: int) -> None:
        for _ in range(empty):
            self.blocks[object()] = None
        for index in reversed(range(full)):
            self.blocks[object()] = (key, index)
