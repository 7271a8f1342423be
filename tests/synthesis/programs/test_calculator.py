"""Tests that the office's calculator computes exactly as Python's fractions and refuses everything
else."""

import random
from fractions import Fraction

from tests.synthesis.programs.trial import open_toolkit, trial
from tutti.tasks.synthesis.domains import Act, Action, Result
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.programs.arithmetic.templates import money


async def called(actions: list[Action]) -> list[Result]:
    """Return the results of calls in an office."""
    one = trial(PROGRAMS["arithmetic"], 1, 1)
    async with open_toolkit(one.domain) as toolkit:
        await toolkit.begin({"p": one.tasks[0]})
        return await toolkit.act([Act("p", action) for action in actions])


def calculation(expression: str) -> Action:
    return Action(name="calculate", arguments={"expression": expression})


def expression(rng: random.Random, depth: int) -> tuple[str, Fraction]:
    """Return a random expression and its value, which is positive."""
    if depth == 0:
        text = f"{rng.randint(1, 999)}.{rng.randint(0, 99):02d}"
        return text, Fraction(text) + 0
    (left, one), (right, two) = expression(rng, depth - 1), expression(rng, depth - 1)
    kind = rng.randrange(5)
    if kind == 0:
        return f"({left} + {right})", one + two
    if kind == 1:
        return f"({left} * {right})", one * two
    if kind == 2:
        return f"({left} / {right})", one / two
    if kind == 3:
        return f"average({left}, {right})", (one + two) / 2
    return f"percent({left}, {right})", one * two / 100


async def test_expressions_have_the_value_of_exact_fractions() -> None:
    rng = random.Random(1)
    cases = [expression(rng, rng.randint(0, 3)) for _ in range(300)]
    results = await called([calculation(f"round({text}, 2)") for text, _ in cases])
    for (text, value), result in zip(cases, results, strict=True):
        assert result.status == "ok", text
        assert result.value["value"] == money(value), text


async def test_halves_are_rounded_up_and_decimals_are_exact() -> None:
    texts = ["round(2.675, 2)", "round(0.005, 2)", "round(-0.005, 2)", "0.1 + 0.2", "1 / 3", "7"]
    results = await called([calculation(text) for text in texts])
    values = [result.value["value"] for result in results]
    assert values == ["2.68", "0.01", "-0.01", "0.3", "0.333333333333", "7"]


async def test_what_is_no_arithmetic_is_refused() -> None:
    wrong = ["1 / 0", "9 ** 9", "__import__('os')", "open('x')", "[1]", "'a' * 9", "(1", "1e999"]
    wrong += ["True + 1", "1j", "round(1)", "average()", "1 < 2", "9" * 700, "abs(1)"]
    results = await called([calculation(text) for text in wrong])
    assert [each.status for each in results] == ["refused"] * len(wrong)


async def test_conversions_are_exact_and_kept_within_a_quantity() -> None:
    cases: list[tuple[float, str, str]] = [
        (3, "lb", "kg"),
        (7, "oz", "kg"),
        (135, "minutes", "hours"),
        (2.5, "miles", "km"),
        (1, "kg", "minutes"),
        (1, "stone", "kg"),
        (1e300, "kg", "g"),
    ]
    results = await called(
        [
            Action(name="convert", arguments={"value": value, "source": source, "target": target})
            for value, source, target in cases
        ]
    )
    values = [each.value["value"] for each in results[:4]]
    assert values == ["1.36077711", "0.198446661875", "2.25", "4.02336"]
    assert [each.status for each in results[4:]] == ["refused"] * 3


async def test_readings_of_nobody_are_refused() -> None:
    """An empty list would look like a customer without readings."""
    (found,) = await called([Action(name="readings_of", arguments={"customer_id": "nobody"})])
    assert found.status == "refused" and "nobody" in found.value
