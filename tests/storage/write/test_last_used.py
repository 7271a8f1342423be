"""Of values by name those used last are kept, as many as fit in the bound."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import LastUsed


@dataclass
class Block:
    """A value of some bytes."""

    size: int


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12)), max_size=40))
def test_the_last_values_within_the_bound_are_known(puts: list[tuple[str, int]]) -> None:
    """The longest run of last uses that fits, whatever was put before and however it grew."""
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
    """A program that has ended makes room for others; one that is unknown is no error."""
    last_used = LastUsed[Block](10)
    last_used.put("a", Block(6))
    last_used.forget("a")
    last_used.forget("unknown")
    last_used.put("b", Block(4))
    last_used.put("c", Block(6))
    assert [name for name in "abc" if last_used.get(name)] == ["b", "c"]


def test_a_value_that_has_grown_counts_as_it_is_now() -> None:
    """It was put before it grew, and is put again after its use."""
    last_used, growing = LastUsed[Block](10), Block(2)
    last_used.put("growing", growing)
    last_used.put("other", Block(4))
    growing.size = 7
    last_used.put("growing", growing)
    assert last_used.get("other") is None and last_used.get("growing") is growing
    growing.size = 11
    last_used.put("growing", growing)
    assert last_used.get("growing") is None
