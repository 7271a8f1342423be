"""Short answers: SQuAD's folding, without what it gets wrong."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tutti.tasks.scoring import Attempted, Means
from tutti.tasks.scoring.short_answer import ShortAnswer, fold, word_f1


@pytest.mark.parametrize(
    ("answer", "aliases", "correct"),
    [
        ("The Eiffel Tower.", ["eiffel tower"], True),
        ("  PARIS ", ["Lyon", "Paris"], True),
        ("1,000", ["1000"], True),
        ("3.5", ["35"], False),  # SQuAD's own folding says they are the same
        ("-5", ["5"], False),
        ("A", [""], False),
        ("A", ["a"], True),
        ("the", ["an"], False),
        ("U.S.", ["US"], True),
        ("\uff11\uff12", ["12"], True),
        ("", ["x"], False),
        (None, ["x"], False),
        ("Paris, France", ["Paris"], False),
    ],
)
async def test_score(answer: str | None, aliases: list[str], correct: bool) -> None:
    score = await ShortAnswer().score({"answer": aliases}, Attempted(answer), Means())
    assert score.correct is correct


@settings(deadline=None)
@example("B:.0")
@given(st.text(max_size=60))
def test_folding_is_done_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert word_f1(text, text) == (1.0 if fold(text) else 0.0)


def test_f1() -> None:
    assert word_f1("Paris, France", "Paris") == pytest.approx(2 / 3)
