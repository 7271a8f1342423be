"""Waits of an attempt: what they cover, in any order, counted once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import WaitedTime

WAITS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)))


@given(WAITS)
def test_overlapping_waits_count_once(waits: list[tuple[int, int]]) -> None:
    """Each returns what it adds to those before it; one that ends before it starts is none."""
    waited, covered = WaitedTime(), set[int]()
    for start, end in waits:
        new = set(range(start, end)) - covered
        covered |= new
        assert waited.add(start, end) == len(new)
        assert waited.seconds == pytest.approx(len(covered))
