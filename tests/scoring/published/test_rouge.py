"""Tests of ROUGE-L as the package ``rouge`` 1.0.1 computes it; expected values are that
package's."""

import pytest

from tutti.tasks.scoring import SCORERS, ScoringResources, Submission
from tutti.tasks.scoring.published.texts import rouge_l


@pytest.mark.parametrize(
    ("answer", "reference", "f"),
    [
        ("the cat sat", "the cat sat", 0.999999995),
        ("the cat sat on the mat", "the cat lay on the mat", 0.799999995),
        ("A b. c d.", "c d. A b.", 0.999999995),  # any sentence may be aligned with any
        ("The cat", "the cat", 0.499999995),  # case counts
        ("x", "y", 0.0),
        ("", "y", 0.0),
        (". .", "a", 0.0),
    ],
)
def test_values_of_the_package(answer: str, reference: str, f: float) -> None:
    assert rouge_l(answer, reference) == pytest.approx(f, abs=1e-9)


async def test_score() -> None:
    """Scores are rounded to 4 digits, so the reference's own text scores 1."""
    target = {"response": "You have a meeting."}
    score = await SCORERS["rouge_l"].score(
        target, Submission("", "You have a meeting."), ScoringResources()
    )
    assert score.value == 1.0 and score.correct
