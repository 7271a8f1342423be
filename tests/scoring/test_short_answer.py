"""Tests of short answers: a number is compared as a number, anything else as a short text, and
other text in the message is ignored."""

import pytest

from tutti.tasks.scoring import SCORERS, ScoringResources, Submission


async def correct(expected: str, said: str) -> bool:
    """Return whether a message is correct."""
    score = await SCORERS["short_answer"].score(
        {"answer": expected}, Submission(said, said), ScoringResources()
    )
    return bool(score.correct)


@pytest.mark.parametrize(
    ("expected", "said", "right"),
    [
        ("Ada Long", "It is kept by her.\nAnswer: Ada Long", True),
        ("Ada Long", "Answer: **ada  long**.", True),
        ("Ada Long", "**Answer:** Ada Long", True),
        ("Ada Long", "Answer: Ada Long or Bo Reed", False),
        ("Ada Long", "Ada Long", True),
        ("Ada Long", "Ada Long keeps it.\nAnswer: I do not know", False),
        ("feed pump", "Answer: the feed pump", True),
        ("--size", "Answer: `--size`", True),
        ("--size", "Answer: size", False),
        ("1,200", "Answer: 1200 characters", True),
        ("1,200", "Answer: 1,200.0", True),
        ("35", "Of 12 and 35 I take\nAnswer: 12", False),
        ("35", "Answer: 35 or 36", False),
        ("35", "\\boxed{35}", True),
        ("35", "", False),
        ("3.12", "Answer: Python 3.12", True),
    ],
)
async def test_what_is_right(expected: str, said: str, right: bool) -> None:
    assert await correct(expected, said) == right


async def test_the_last_answer_counts_and_any_of_several_is_right() -> None:
    said = "Answer: 3\nno,\nAnswer: 4"
    assert not await correct("3", said) and await correct("4", said)
    found = await SCORERS["short_answer"].score(
        {"answer": ["one", "two"]}, Submission("Answer: Two", "Answer: Two"), ScoringResources()
    )
    assert found.correct and found.answer == "Two"
