"""Tests of RULER's rule: the share of the references in the response, or any of them, ignoring
case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission


async def scored(text: str, references: list[str], match: str = "all") -> Score:
    target = {"references": references, "match": match}
    return await SCORERS["ruler"].score(target, Submission(None, text), ScoringResources())


@pytest.mark.parametrize(
    ("text", "match", "value"),
    [
        ("They are OLD-OAK and 17.", "all", 1.0),
        ("It is old-oak.", "all", 0.5),
        ("It is old-oak.", "any", 1.0),
        ("old oak", "any", 0.0),
        ("", "all", 0.0),
    ],
)
async def test_the_share_found(text: str, match: str, value: float) -> None:
    """`all` counts each reference, `any` needs one; only a full score is correct."""
    found = await scored(text, ["Old-Oak", "17"], match)
    assert (found.value, found.correct) == (value, value == 1.0)


@given(st.lists(st.text("0123456789", min_size=7, max_size=7), min_size=1, unique=True), st.data())
async def test_the_value_is_the_share_of_those_said(names: list[str], data: st.DataObject) -> None:
    """The order of the references in the text is irrelevant."""
    said = data.draw(st.lists(st.sampled_from(names), unique=True))
    found = await scored(", ".join(said), names)
    assert found.value == len(said) / len(names)
    assert set(found.detail["missing"]) == set(names) - set(said)
    assert (await scored(", ".join(said), names, "any")).value == bool(said)


@pytest.mark.parametrize("target", [{}, {"references": []}, {"references": ["a"], "match": "some"}])
async def test_a_target_that_cannot_be_scored_is_an_error(target: dict[str, object]) -> None:
    """The result is not a score of 0."""
    with pytest.raises(ScorerFailed, match="target"):
        await SCORERS["ruler"].score(target, Submission(None, "a"), ScoringResources())
