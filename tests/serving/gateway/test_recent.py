"""Tests that a repeated call id is refused for as long as it is remembered."""

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.serving.gateway.calls import request
from tutti.tasks.serving.gateway.calls.request import RecentIds

KEPT, SLOTS = 20, 16


@given(st.lists(st.integers(0, 60), max_size=200))
def test_the_ids_of_the_last_two_halves_are_known(numbers: list[int]) -> None:
    """The reference is two sets of `KEPT` / 2, for any distribution of hashes over the slots."""
    newer, older = set[int](), set[int]()
    with mock.patch.multiple(request, IDS_KEPT=KEPT, ID_SLOTS=SLOTS):
        ids = RecentIds()
        for number in numbers:
            is_new = number not in newer | older
            assert ids.take(f"call-{number}") == is_new
            if is_new:
                if len(newer) == KEPT // 2:
                    newer, older = set(), newer
                newer.add(number)
