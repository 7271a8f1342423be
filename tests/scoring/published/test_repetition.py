"""Tests of MRCR's rule: the prefix first, then the similarity of the text after it."""

from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.scoring import SCORERS, Score, ScoringResources, Submission

TARGET = {"prefix": "Xy1", "answer": "Xy1Roses are red, violets are blue."}


async def scored(text: str, target: dict[str, str] = TARGET) -> Score:
    submission = Submission(None, text)
    return await SCORERS["repetition"].score(target, submission, ScoringResources())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (TARGET["answer"], 1.0),
        ("Roses are red, violets are blue.", 0.0),
        (" Xy1Roses are red, violets are blue.", 0.0),
        ("Xy1", 0.0),
    ],
)
async def test_the_prefix_comes_first(text: str, value: float) -> None:
    """Without the prefix the score is 0, as the publisher says."""
    found = await scored(text)
    assert (found.value, found.correct) == (value, value == 1.0)


@given(st.text("ab c", max_size=40), st.text("ab c", min_size=15, max_size=40))
async def test_the_value_is_difflib_s(said: str, wanted: str) -> None:
    """The value is the ratio of response and answer, in this order, without the prefix."""
    found = await scored("P" + said, {"prefix": "P", "answer": "P" + wanted})
    assert found.value == SequenceMatcher(None, said, wanted).ratio()


async def test_a_flood_is_worth_little_and_takes_no_time() -> None:
    """The response has 2,000,000 characters and begins with the answer."""
    found = await scored(TARGET["answer"] + "a red rose. " * 170_000)
    assert 0 < found.value < 0.001
