"""Tests of normalised texts: numbers by value, dates in ISO format, whole words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.synthesis.gating.wording import leaves, spaced, words_of


@pytest.mark.parametrize("form", ["1200", "1,200", "1200.00", "$1,200.", "01200"])
def test_forms_of_a_number_are_one(form: str) -> None:
    assert spaced(f"It costs {form} now") == " it costs 1200 now "


@pytest.mark.parametrize(
    "form", ["May 5, 2024", "5 May 2024", "2024-05-05", "May 5th 2024", "2024-05-05T10:30"]
)
def test_forms_of_a_date_are_one(form: str) -> None:
    assert "2024-05-05" in words_of(f"on {form}.")


def test_a_day_that_is_not_there_stays_as_it_is_written() -> None:
    assert words_of("February 31, 2024") == ["february", "31", "2024"]


def test_words_are_whole_and_ids_are_one_word() -> None:
    assert words_of("Loan L1-2, json.loads; 10:30 (seven).") == [
        "loan",
        "l1-2",
        "json.loads",
        "10:30",
        "seven",
    ]
    assert " 20 " not in spaced("in 2024, 120 of 1,200 and L20")


@given(st.floats(min_value=0, max_value=1e9).map(lambda value: round(value, 2)))
def test_a_number_with_separators_or_zeros_is_the_same(value: float) -> None:
    assert words_of(f"{value:,.2f}") == words_of(f"{value:.4f}") == words_of(f"{value:.2f}")


@given(st.text(max_size=40))
def test_no_word_has_a_space(text: str) -> None:
    assert spaced(text).split() == words_of(text)


def test_leaves_are_the_values_within() -> None:
    assert list(leaves({"a": [1, {"b": "x"}], "c": None})) == [1, "x", None]
