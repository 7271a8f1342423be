"""Tests of numbers as text: only significant digits, and a dash for an unknown value."""

import pytest

from tutti.tasks.reporting.measures.numbers import (
    ABSENT,
    number,
    p_value,
    rate,
    seconds,
    share,
    usd,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.0123, "0.012"), (0.123, "0.12"), (12.34, "12.3"), (1234.5, "1,234")],
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.00"), (12.345, "12.35"), (0.0123, "0.012"), (0.00045, "0.00045")]
)
def test_usd(value: float, text: str) -> None:
    assert usd(value) == text


def test_p_values_and_rates() -> None:
    assert (p_value(3e-9), p_value(0.0312), p_value(1.0)) == ("<0.0001", "0.031", "1")
    assert (rate(12.34), rate(1234.5)) == ("12.3", "1,234")


@pytest.mark.parametrize("show", [number, seconds, usd, share, rate, p_value])
def test_unknown_is_a_dash_and_never_zero(show: object) -> None:
    assert callable(show) and show(None) == ABSENT
