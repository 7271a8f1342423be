"""Tests of exact match."""

import pytest

from tutti.tasks.agents.models.prompts import boxed, last_boxed
from tutti.tasks.scoring import score_exact


@pytest.mark.parametrize(
    ("answer", "expected", "correct"),
    [
        ("128", "128", True),
        (" 128 ", "128", True),
        ('"utf-8"', "'utf-8'", True),
        ("1.0", "1", False),
        ("", "None", False),
        (None, "None", False),
    ],
)
def test_score(answer: str | None, expected: str, correct: bool) -> None:
    score = score_exact(answer, expected)
    assert score.correct is correct and score.value == float(correct)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{a}", "a"),
        (r"so \boxed{1} no, \boxed{ {'a': 1} }", "{'a': 1}"),
        (r"\boxed{\{}", r"\{"),
        (r"\boxed{unfinished", None),
        ("no box", None),
    ],
)
def test_last_boxed(text: str, answer: str | None) -> None:
    assert last_boxed(text) == answer


def test_boxed_and_back() -> None:
    for answer in ("{}", "x", "(1, {'a': 2})"):
        assert last_boxed(boxed(answer)) == answer
