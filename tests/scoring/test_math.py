"""Tests of mathematics: equality, errors, and termination."""

import pytest

from tutti.tasks.scoring import Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.children.workers import WorkerLate
from tutti.tasks.scoring.rules.math import Math, words_of


async def score(answer: str | None, gold: str | list[str], text: str = "") -> Score:
    return await Math(timeout_s=30).score(
        {"answer": gold}, Submission(answer, text), ScoringResources()
    )


@pytest.mark.parametrize(
    ("gold", "answer", "correct"),
    [
        ("16", "016", True),  # decided as texts, "016" is not "16"
        ("0.5", "1/2", True),
        (r"\frac{1}{2}", "0.5", True),
        ("1000", "1,000", True),
        (r"2\sqrt{3}", r"\sqrt{12}", True),
        ("x^2+2x+1", "(x+1)^2", True),
        (r"\{1,2\}", r"\{2,1\}", True),
        ("[0,1)", "[0,1]", False),
        ("5", "x=5", True),
        ("3.14159", r"\pi", False),
        ("16", "17", False),
        ("16", "16 or 17", False),  # hedging does not pay
        ("16", "16, 17", False),
        ("16", r"17} \boxed{16", False),
        ("16", "16.001", False),
        ("16", "$16$", True),
        ("16", "16 cm", True),
        (r"\frac{1}{3}", "0.33", False),
        ("16", "sixteen", False),
        ("16", "", False),
        (r"\text{Evelyn}", "evelyn", True),
        ("listen", "silent", False),  # read as products of letters, they are equal
        ("no solution", r"\text{No solution.}", True),
        (r"\text{(C)}", "C", True),
    ],
)
async def test_equal(gold: str, answer: str, correct: bool) -> None:
    assert (await score(answer, gold)).correct is correct


@pytest.mark.parametrize(
    ("gold", "answer", "correct"),
    [
        ("1000", "1e3", True),
        ("0.015", "$1.5e-2$", True),
        ("1000", r"1\,000", True),
        ("1000000", r"1\,000\,000", True),
        ("1000000", "1 000 000", True),
        ("1234567", r"1{,}234\ 567", True),
        ("1000", "1 00", False),
        ("2e", "2e", True),  # Euler's number, not an exponent
        (r"5\text{ cm}", r"5\text{ m}", False),
        (r"5\text{ cm}", "5", True),
        (r"5\text{ cm}", "5 cm", True),
        ("5", r"5\,\mathrm{m}", True),
        (r"5\text{ cm}^2", "5 cm", False),
        (r"5\text{ cm}^2", r"5\,\mathrm{cm}^{2}", True),
    ],
)
async def test_numbers_and_units(gold: str, answer: str, correct: bool) -> None:
    assert (await score(answer, gold)).correct is correct
    assert (await score(rf"So \boxed{{{answer}}}", gold)).correct is correct


async def test_what_is_read() -> None:
    assert (await score(None, ["7", r"\frac14"], r"so \boxed{0.25}")).correct
    assert not (await score(None, "7", "it is 7, unboxed")).correct
    assert (await score("016", "16")).detail == {"equal": True, "gold": "16", "given": "16"}


LONG = "We add the next number. " * 200


@pytest.mark.parametrize(
    ("said", "correct", "read"),
    [
        (r"So \boxed{18} for 3 apples.", True, "18"),
        (LONG + r"Thus it is $\boxed{18}$.", True, "18"),  # longer than any formula
        (r"First \boxed{17}, no: \boxed{18}", True, "18"),
        (r"\boxed{17} and not 18", False, "17"),
        ("The answer is 18.", True, "18"),
        ("I cannot tell.", False, None),
        ("18, I think, or maybe 17", False, None),
        (LONG, False, None),
        ("sin x + cos x", False, "sin x + cos x"),
    ],
)
async def test_a_whole_message_as_the_answer(said: str, correct: bool, read: str | None) -> None:
    """The boxed answer counts, as benchmarks require, and prose without one is no answer."""
    found = await score(said, "18", said)
    assert (found.correct, found.answer if found.found_answer else None) == (correct, read)


@pytest.mark.parametrize(
    ("gold", "answer", "correct"),
    [
        ("5", "5.", True),
        ("5", "$5.$", True),
        ("0.5", "0.50.", True),
        ("5", "5..", False),
        ("16", "the answer is 16", True),
        ("16", "So the final answer is $16$.", True),
        ("16", "**Answer:** 16", True),
        ("16", "The answer is **16**.", True),
        ("16", "The value of $x$ is 16.", True),
        ("16", "x = 16.", True),
        ("16", "The answer is x = 16", True),
        (r"\frac{1}{2}", "the answer is 1/2", True),
        ("east", "The answer is East.", True),
        ("16", "the answer is not 16", False),
        ("16", "the answer is 16 or 17", False),
        ("16", "the answer is 17, not 16", False),
        ("16", "The answer is 16. No, 17.", False),
        ("16", "It is $16$, not $17$.", False),
    ],
)
async def test_a_sentence_that_states_one_formula(gold: str, answer: str, correct: bool) -> None:
    assert (await score(answer, gold)).correct is correct
    assert (await score(None, gold, rf"\boxed{{{answer}}}")).correct is correct


TOO_LARGE = (
    *("9^{9^{9^9}}", r"\frac{1}{9^{9^{9^9}}}", "(10^9)!", "10^9!", "2^{10^{10}}", "(1/10)^{10^9}"),
    *("9^{9^{9^{9}}} - 8^{9^{9^9}}", r"\sqrt{9^{9^9}}", r"\sin(9^{9^{9^9}})", "x^{9^{9^9}}"),
    *(r"\binom{10^9}{10^8}", r"\Gamma(10^9)", "9^{9.5^{9.5^{9}}}", r"\{9^{9^{9^9}}, 2\}"),
    *("(9^{9^{9^9}}, 2)", "x = 9^{9^{9^9}}", r"\begin{pmatrix} 9^{9^{9^9}} \\ 2\end{pmatrix}"),
)


@pytest.mark.parametrize("formula", TOO_LARGE)
async def test_too_large_is_wrong_and_no_error(formula: str) -> None:
    """The formula is not evaluated, which would end at the bound of 30 s for another reason; as the
    gold answer it is an error but equal to itself."""
    found = await score(formula, "3")
    assert not found.correct and found.detail["failed"] == "given: NumberTooLarge"
    with pytest.raises(ScorerFailed, match=r"gold answer .*: NumberTooLarge"):
        await score("3", formula)


@pytest.mark.parametrize("formula", ["9^{9^{9^9}}", "(10^9)!", r"\frac{1}{9^{9^9}}"])
async def test_the_same_formula_is_right_however_large(formula: str) -> None:
    assert (await score(formula, formula)).correct


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("2024!", r"2024 \cdot 2023!"), ("2^{2024}", r"2 \cdot 2^{2023}"), ("1", "(-1)^{10^{10}}")],
)
async def test_large_numbers_that_can_be_had(gold: str, answer: str) -> None:
    assert (await score(answer, gold)).correct


SLOW = r"\sum_{n=1}^{10^9} n^{n}"


@pytest.mark.slow
async def test_late_is_killed_and_whose_fault_it_is() -> None:
    """An answer whose own evaluation does not terminate is wrong; such a gold answer is an
    error."""
    await score("1", "1")
    scorer = Math(timeout_s=3)
    found = await scorer.score({"answer": "3"}, Submission(SLOW), ScoringResources())
    assert not found.correct and found.detail["failed"] == "given: no answer within 3 s"
    with pytest.raises(ScorerFailed, match=r"gold answer .*: no answer within 3 s"):
        await scorer.score({"answer": SLOW}, Submission("3"), ScoringResources())
    assert (await score("1", "1")).correct


class Stub:
    """Pool of workers with prepared results: for comparisons in turn, and for the gold answer."""

    def __init__(self, compared: list[dict[str, object] | None], alone: dict[str, object] | None):
        self.compared, self.alone = compared, alone

    async def ask(self, request: dict[str, str], timeout_s: float) -> dict[str, object]:
        answer = self.alone if "alone" in request else self.compared.pop(0)
        if answer is None:
            raise WorkerLate("no answer within 1 s")
        return answer


EVALUATED: dict[str, object] = {"evaluated": True}
FAILED: dict[str, object] = {"error": "TypeError: no"}
EQUAL: dict[str, object] = {"equal": True, "gold": "16", "given": "16"}


async def test_a_failure_that_the_attempt_causes_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt cannot avoid its score: the gold answer alone evaluates without a problem."""
    tried: list[list[dict[str, object] | None]] = [[FAILED], [None, FAILED], [None, None]]
    for compared in tried:
        pool = Stub(compared, EVALUATED)
        monkeypatch.setattr("tutti.tasks.scoring.rules.math.child_pool", lambda *_, pool=pool: pool)
        found = await score("16", "3")
        assert not found.correct and str(found.detail["failed"]).startswith("given: ")


async def test_a_machine_that_stands_still_makes_nothing_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A comparison that is late once is repeated; if gold answers fail too, it is an error."""
    pool = Stub([None, EQUAL], EVALUATED)
    monkeypatch.setattr("tutti.tasks.scoring.rules.math.child_pool", lambda *_: pool)
    assert (await score("16", "16.0")).correct
    for alone, why in ((None, "no answer within 1 s"), (FAILED, "TypeError: no")):
        pool = Stub([alone], alone)
        with pytest.raises(ScorerFailed, match=f"gold answer '3': {why}"):
            await score("16", "3")


async def test_a_gold_answer_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ScorerFailed, match="cannot be read"):
        await score("1", "?")


FORMULAS = (
    *("x", "xy", r"\pi", "p - q", "x-y", "5 cm", r"\sqrt{3}", "sin x", "-50", "2k+2", "6 - 5i"),
    *(r"\left( 3, \frac{\pi}{2} \right)", r"x \in [-2,7]", r"11\sqrt2", r"\$36", r"10\%"),
    *("2220_5", r"137 \frac{1}{2}", r"(-\infty, 2) \cup (3,\infty)", r"15\mbox{ cm}^2", "1,-2"),
    *("3R^2", "12,345", r"\begin{pmatrix} -1 \\ 2\end{pmatrix}", r"\frac{9 \sqrt{23}}{23}"),
    *(r"2\pi + 3", "x=5y"),
)


async def test_formulas_are_themselves_and_no_other() -> None:
    """The formulas have the shapes of gold answers of contests."""
    for place, gold in enumerate(FORMULAS):
        assert (await score(gold, gold)).correct, gold
        other = FORMULAS[place - 1]
        assert not (await score(other, gold)).correct, (other, gold)


def test_words() -> None:
    assert words_of(r"\text{east}") == "east" and words_of("no solution") == "no solution"
    assert [words_of(gold) for gold in FORMULAS] == [None] * len(FORMULAS)
