"""Tests that invented people can be distinguished by their statements about themselves."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.synthesis.programs.base.people import numbers, people


@given(st.integers(0, 10_000), st.integers(1, 150), st.integers(0, 5))
@settings(max_examples=settings().max_examples // 4)
def test_each_is_found_by_what_identifies_them(seed: int, count: int, namesakes: int) -> None:
    found = people(Random(seed), count, namesakes)
    assert len(found) == count
    assert len({each["email"] for each in found}) == len({each["phone"] for each in found}) == count
    assert (
        len({(each["first_name"], each["last_name"], each["birth_date"]) for each in found})
        == count
    )
    assert len({(each["first_name"], each["last_name"], each["zip"]) for each in found}) == count


@pytest.mark.parametrize(("namesakes", "least", "most"), [(0, 0, 0), (5, 70, 130)])
def test_about_so_many_in_ten_share_a_name(namesakes: int, least: int, most: int) -> None:
    found = people(Random(1), 200, namesakes)
    sharing = 200 - len({(each["first_name"], each["last_name"]) for each in found})
    assert least <= sharing <= most


def test_ids_are_distinct_and_end_with_a_message() -> None:
    drawn = numbers(Random(1))
    assert len({next(drawn) for _ in range(90_000)}) == 90_000
    with pytest.raises(ValueError, match="fewer records"):
        next(drawn)
