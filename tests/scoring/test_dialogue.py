"""Tests of the dialogue scorer: both parts count, and tau2's rule decides on communicated texts."""

from typing import Any

import pytest

from tutti.tasks.scoring import SCORERS, ScorerFailed, ScoringResources, Submission

TARGET = {"state": {"db": "a1"}, "communicate": ["21", "$1,250.50"]}


async def parts(said: list[str], state: Any, target: Any = TARGET) -> tuple[float, Any]:
    """Return the headline and the detail of an attempt with these messages."""
    messages = [{"role": "assistant", "content": text} for text in said]
    messages.append({"role": "user", "content": "21 and $1250.50"})  # it is not the agent's
    attempted = Submission(None, said[-1] if said else "", messages, state)
    score = await SCORERS["dialogue"].score(target, attempted, ScoringResources())
    assert score.correct == (score.value == 1.0)
    return score.value, dict(score.detail)


@pytest.mark.parametrize(
    ("said", "state", "value", "db", "communicate", "not_said"),
    [
        (["It is 21 days.", "You pay $1250.50"], {"db": "a1"}, 1.0, 1.0, 1.0, []),
        (["21 days, $1,250.50."], {"db": "a1"}, 1.0, 1.0, 1.0, []),
        (["21 days, $1,250.50."], {"db": "b2"}, 0.0, 0.0, 1.0, []),
        (["21 days."], {"db": "a1"}, 0.0, 1.0, 0.0, ["$1,250.50"]),
        (["2", "1 $1,250", ".50"], {"db": "a1"}, 0.0, 1.0, 0.0, ["21", "$1,250.50"]),
        ([], {"db": "b2"}, 0.0, 0.0, 0.0, ["21", "$1,250.50"]),
    ],
)
async def test_both_parts_count(
    said: list[str], state: Any, value: float, db: float, communicate: float, not_said: list[str]
) -> None:
    """A text must be in one message of the agent; neither part compensates for the other."""
    detail = {"db": db, "communicate": communicate, "not_said": not_said}
    assert await parts(said, state) == (value, detail)


async def test_case_does_not_count() -> None:
    """Both sides are lower-cased; a message with calls only has no text."""
    target = {"state": {"db": "a1"}, "communicate": ["Harbours"]}
    assert (await parts(["you have HARBOURS"], {"db": "a1"}, target))[0] == 1.0
    call = Submission(None, "", [{"role": "assistant", "content": None}], {"db": "a1"})
    score = await SCORERS["dialogue"].score(target, call, ScoringResources())
    assert score.detail["not_said"] == ["Harbours"]


async def test_no_state_is_no_score() -> None:
    """An attempt without a final state or known messages is not wrong but not scored."""
    for attempted in (Submission(None, "21"), Submission(None, "21", None, {"db": "a1"})):
        with pytest.raises(ScorerFailed):
            await SCORERS["dialogue"].score(TARGET, attempted, ScoringResources())
