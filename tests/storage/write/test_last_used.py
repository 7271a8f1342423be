"""Tests of a cache of values by name: the most recently used are kept, as many as fit the bound."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import LastUsed


@dataclass
class Block:
    """Value of a given size."""

    size: int


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12)), max_size=40))
def test_the_last_values_within_the_bound_are_known(puts: list[tuple[str, int]]) -> None:
    """The cache has the longest run of last uses that fits, for any earlier values and their
    growth."""
    last_used, sizes = LastUsed[Block](20), dict[str, int]()
    for name, size in puts:
        last_used.put(name, Block(size))
        sizes.pop(name, None)
        sizes[name] = size
        while sum(sizes.values()) > 20:
            del sizes[next(iter(sizes))]
    known = {name: found.size for name in "abcdef" if (found := last_used.get(name))}
    assert known == sizes


def test_what_is_forgotten_takes_no_room() -> None:
    """A program that has ended makes room for others; an unknown one is no error."""
    last_used = LastUsed[Block](10)
    last_used.put("a", Block(6))
    last_used.forget("a")
    last_used.forget("unknown")
    last_used.put("b", Block(4))
    last_used.put("c", Block(6))
    assert [name for name in "abc" if last_used.get(name)] == ["b", "c"]


def test_a_value_that_has_grown_counts_as_it_is_now() -> None:
    """The value is put before it grows, and put again after its use."""
    last_used, growing = LastUsed[Block](10), Block(2)
    last_used.put("growing", growing)
    last_used.put("other", Block(4))
    growing.size = 7
    last_used.put("growing", growing)
    assert last_used.get("other") is None and last_used.get("growing") is growing
    growing.size = 11
    last_used.put("growing", growing)
    assert last_used.get("growing") is None
