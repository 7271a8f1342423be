"""Tests of rated criteria: each has its own range and is scaled before they are combined."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scoring.conftest import ToldJudge
from tutti.tasks.scoring import Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.rules.judged import Rubric

SPOKEN = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "go away"}]


async def rated(
    ranges: list[Any], says: list[str], votes: int = 1, **target: Any
) -> tuple[Score, ToldJudge]:
    """Return the score of a conversation by criteria with these ranges."""
    judge = ToldJudge(says)
    criteria = [{"text": f"c{n}", "range": bounds} for n, bounds in enumerate(ranges)]
    aim = {"question": "Was it kind?", "criteria": criteria, "whole": True, **target}
    scored = await Rubric(votes).score(
        aim, Submission(None, "", SPOKEN), ScoringResources(judge=judge)
    )
    return scored, judge


async def test_ranges_are_not_mixed() -> None:
    """The plain mean of 10, 0 and -5 is meaningless; the mean of their positions in their ranges is
    not."""
    says = ["kind.\nVerdict: 10", "Verdict: 0", "Verdict: -5"]
    score, judge = await rated([[0, 10], [-10, 0], [-5, 5]], says)
    assert score.value == pytest.approx(2 / 3) and not score.correct
    found = [(each["rating"], each["range"]) for each in score.detail["criteria"]]
    assert found == [(10, [0, 10]), (0, [-10, 0]), (-5, [-5, 5])]
    assert "user: hello\n\nassistant: go away" in judge.prompts[0]
    assert "from -10 (worst) to 0 (best)" in judge.prompts[1]


async def test_the_median_of_the_valid_votes() -> None:
    """A vote outside the range or without a number is ignored; without any valid vote there is no
    score."""
    score, _ = await rated([[0, 10]], ["Verdict: 11", "Verdict: 4", "Verdict: 6"], votes=3)
    assert score.value == 0.5 and score.detail["criteria"][0]["rating"] == 5
    with pytest.raises(ScorerFailed, match="no valid vote"):
        await rated([[0, 10]], ["Verdict: 10/10"])


@pytest.mark.parametrize("bounds", [[5, 5], [5, 0], [0.0, 10], [0], "0-10"])
async def test_ranges_that_cannot_be(bounds: Any) -> None:
    """The error is raised before anything is rated."""
    with pytest.raises(ScorerFailed, match="range is"):
        await rated([bounds], ["Verdict: 5"])


async def test_who_says_nothing_is_not_judged() -> None:
    """The partner's messages alone are no answer and cost no call."""
    aim = {"question": "q", "criteria": [{"text": "c", "range": [-10, 0]}], "whole": True}
    silent = Submission(None, "", [SPOKEN[0], {"role": "assistant", "content": ""}])
    score = await Rubric().score(aim, silent, ScoringResources(judge=ToldJudge([])))
    assert score.value == 0.0


@given(st.lists(st.tuples(st.integers(-10, 0), st.integers(1, 10)), min_size=1, max_size=4))
async def test_ends_of_ranges_are_ends_of_the_value(ranges: list[tuple[int, int]]) -> None:
    """The lowest rating of every criterion gives 0 and the highest gives 1, for any ranges."""
    bounds = [list(each) for each in ranges]
    for end, value in ((0, 0.0), (1, 1.0)):
        score, _ = await rated(bounds, [f"Verdict: {each[end]}" for each in ranges])
        assert score.value == value
