"""Tests of numbers: parsing, and that all gold answers of GSM8K are correct and no changed one
is."""

import asyncio
import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.scoring import ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.rules.short_answer import Numeric, numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("016", "16"),
        ("1/2", "0.5"),
        (r"\frac{1}{2}", "0.5"),
        (r"\dfrac12", "0.5"),
        ("3 1/2 cups", "3.5"),
        ("50%", "50"),
        (r"50\%", "50"),
        ("$1,234.50", "1234.5"),
        (r"\$1{,}234", "1234"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("\u22127", "-7"),
        ("1\u00a0000", "1000"),
        ("1e3", "1000"),
        (".5", "0.5"),
        ("18.", "18"),
        ("18 dollars", "18"),
        ("16-3", "3"),
        ("2 + 2 = 4", "4"),
        ("version 1.2.3", "1.2"),
        ("x2 is 7", "7"),
        ("no more...12", "12"),
    ],
)
def test_reads_the_last_number(text: str, expected: str) -> None:
    assert numbers(text)[-1] == Fraction(expected)


@pytest.mark.parametrize("text", ["", "none", "x2", "1e999999999", "9" * 5000, "1/0"])
def test_what_is_no_number(text: str) -> None:
    """The texts include numbers whose arithmetic would not terminate."""
    assert numbers(text) == []


async def score(answer: str | None, expected: str, text: str = "", **more: object) -> bool:
    target = {"answer": expected, **more}
    return (await Numeric().score(target, Submission(answer, text), ScoringResources())).correct


async def test_where_the_number_is_looked_for() -> None:
    text = r"Step 1 gives 3. \boxed{5} #### 7 (in step 2? no)"
    assert await score("9", "9", text)
    assert await score(None, "7", "3 and \\boxed{5}\n#### 7")
    assert await score(None, "5", r"3, so \boxed{5}, in 2 steps")
    assert await score(None, "2", "3, in 2 steps")
    assert not await score(None, "5", "")
    assert not await score("no idea", "5", r"\boxed{5}")


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("#### 18\n\nCheck: 3 * 6 is that.", "18"),
        ("Add 1 ####\n18\n(of 20)", "18"),
        (r"So \boxed{18} for 3 apples.", "18"),
        (r"\boxed{17} in step 1, now #### 18", "18"),
        ("Step 2 gives 18.", "18"),
        ("#### none\nor 18", None),
        (r"\boxed{none} of 18", None),
        ("I cannot tell.", None),
    ],
)
async def test_a_whole_message_as_the_answer(said: str, number: str | None) -> None:
    """A marked answer counts, otherwise the last number."""
    found = await Numeric().score({"answer": "18"}, Submission(said, said), ScoringResources())
    assert (found.answer, found.found_answer) == (number, number is not None)
    assert found.correct == (number == "18")


BLANKS = ("{:,}", r"{:,}|\,", "{:,}| ", "{:,}|\u00a0", "{:,}|\u202f", "{:,}|{{,}}")
WORDED = ("{}", "#### {}", r"So \boxed{{{}}} in all.", "#### ${}", "#### {} apples", "{}.")


@settings(deadline=None)
@given(st.integers(-(10**12), 10**12), st.sampled_from(BLANKS), st.sampled_from(WORDED))
def test_a_number_in_every_form_is_read_as_itself(number: int, blank: str, words: str) -> None:
    form, _, apart = blank.partition("|")
    written = form.format(number)
    written = written.replace(",", apart.format()) if apart else written
    text = words.format(written)
    target = {"answer": str(number)}
    for said in (Submission(None, text), Submission(text, text)):
        found = asyncio.run(Numeric().score(target, said, ScoringResources()))
        assert (found.correct, found.answer) == (True, str(number)), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 000 000", ["1000000"]),
        ("-$1 250.50 in all", ["-1250.5"]),
        ("1 000 of 2 000", ["1", "0", "2", "0"]),  # not read across blanks
        ("Room 5 200", ["5", "200"]),
        ("12 34", ["12", "34"]),
    ],
)
def test_blanks_between_thousands(text: str, expected: list[str]) -> None:
    assert numbers(text) == [Fraction(each) for each in expected]


@pytest.mark.parametrize(
    ("gold", "given_text", "correct"),
    [
        ("5 cm", "5 m", False),
        ("5 cm", "#### 5 centimetres.", True),
        ("5 cm", "5", True),
        ("5", "5 cm", True),
        ("5 apples", "5 m", True),  # apples are no unit
        ("5 h", r"\boxed{5\,\mathrm{min}}", False),
    ],
)
async def test_units_of_both_are_the_same(gold: str, given_text: str, correct: bool) -> None:
    assert await score(given_text, gold) is correct


async def test_tolerance_is_asked_for() -> None:
    assert not await score("3.1", "3.14")
    assert await score("3.1", "3.14", tolerance=0.05)


@pytest.mark.parametrize(
    ("given_number", "tolerance", "correct"),
    [
        ("3.19", 0.05, True),  # as far as the tolerance, above and below
        ("3.09", 0.05, True),
        ("3.1900001", 0.05, False),
        ("3.0899999", 0.05, False),
        ("3.14", 0, True),
        ("3.1400000000000000001", 0, False),  # floats would not see it
        ("3.1399999999999999999", 0, False),
        ("3.1405", 0.0005, True),
        ("3.1406", 0.0005, False),
        ("4.14", 1, True),
        ("4.1401", 1, False),
    ],
)
async def test_tolerance_ends_where_it_says(
    given_number: str, tolerance: float, correct: bool
) -> None:
    """A difference equal to the tolerance is correct, any larger one is wrong, and 0 means
    exact."""
    assert await score(given_number, "3.14", tolerance=tolerance) is correct


@pytest.mark.parametrize("gold", ["", "many", "1 or 2"])
async def test_gold_without_one_number_is_an_error(gold: str) -> None:
    with pytest.raises(ScorerFailed):
        await score("1", gold)


@settings(deadline=None)
@given(st.integers(-(10**12), 10**12))
def test_any_integer_however_written(number: int) -> None:
    for text in (str(number), f"{number:,}", f"= {number}.00", f"${number:,}.", f"{number} m"):
        assert numbers(text) == [number]


@settings(deadline=None)
@given(st.fractions(max_denominator=10**6))
def test_any_fraction(number: Fraction) -> None:
    assert numbers(f"{number.numerator}/{number.denominator}") == [number]


def perturbed(gold: str) -> list[str]:
    """Return twenty answers near `gold`, none equal to it."""
    value = int(gold.replace(",", ""))
    plus = [value + step for step in (1, -1, 2, 10, -10, 100, 1000)]
    changed = [*plus, value + 0.5, value - 0.01, value * 10 or 7, f"{value}1", f"-{value + 1}"]
    other = [f"{value}/{7 if value else 0}", f"{value or 3}e2", f"{value}.{1}", f"{value},001"]
    words = ["", "no answer", f"x{value}", f"{value} - 3 is {value - 3}"]
    return [str(answer) for answer in (*changed, *other, *words)]


async def test_gold_of_gsm8k_is_right_and_changed_is_wrong(data: Path) -> None:
    """All 1,319 gold solutions score 100 %, and 20 changes of each answer 0 %."""
    lines = (data / "gsm8k" / "test.jsonl").read_text().splitlines()
    right = wrong = tried = 0
    for line in lines:
        solution = json.loads(line)["answer"]
        gold = solution.split("####")[1].strip()
        right += await score(None, gold, solution) and await score(gold, gold)
        answers = perturbed(gold)
        assert len(answers) == 20
        for answer in answers:
            tried += 1
            wrong += await score(answer, gold)
    assert (len(lines), right) == (1319, 1319)
    assert (tried, wrong) == (26380, 0)
