"""What is learnt of a run's programs: the last values, each answer at first, then one of many."""

import pytest

from tutti.tasks.serving.scheduling.forecast import FIRST_OUTPUT, SPARE, Forecast, Quantiles


def test_the_first_answers_are_believed_at_once() -> None:
    """Before any has come a call is taken to produce a fixed number; always at most its own."""
    forecast = Forecast()
    assert [forecast.output(most) for most in (10, 10_000)] == [10, FIRST_OUTPUT]
    forecast.call_ended(50, None)
    assert [forecast.output(most) for most in (10, 10_000)] == [10, 50]
    forecast.call_ended(90, None)
    assert forecast.output(10_000) == 90


def test_later_answers_are_sampled() -> None:
    """Of those after the first `SPARE`, only each `SPARE`-th counts."""
    forecast = Forecast()
    for _ in range(SPARE):
        forecast.call_ended(50, None)
    for _ in range(SPARE - 1):
        forecast.call_ended(900, None)
    for _ in range(3):
        for _ in range(SPARE):
            forecast.call_ended(70, None)
    assert forecast.output(10_000) == 70


def test_the_last_values_are_kept_in_order() -> None:
    """However many are given: a gateway runs for weeks."""
    quantiles = Quantiles(300)
    for number in range(1000):
        quantiles.add(float(-number))
    assert quantiles.sorted == [float(-number) for number in range(999, 699, -1)]
    assert (len(quantiles), quantiles.at(0.0), quantiles.at(1.0)) == (300, -999.0, -700.0)


def test_a_profile_begins_with_what_is_held_now() -> None:
    """And grows by what a call adds, as long as all programs are taken to go on."""
    assert Forecast().profile(100, 10.0, 0)[:4] == [100.0, 110.0, 120.0, 130.0]


def test_before_any_program_has_ended_only_calls_beyond_the_assumed_may_be_the_last() -> None:
    """Eight are assumed; a program that has made as many ends with each further call by an eighth.
    One that has made six is sure to make two more."""
    assert Forecast().survival(8)[:3] == pytest.approx((1.0, 7 / 8, (7 / 8) ** 2))
    assert Forecast().survival(6)[:5] == pytest.approx((1.0, 1.0, 1.0, 7 / 8, (7 / 8) ** 2))


def test_growth_follows_what_calls_add_by_a_thirty_second() -> None:
    """The first says it whole; what shrinks or is the first call's is left out."""
    forecast = Forecast()
    assert forecast.growth(100) == 50.0, "half of the context, before any is known"
    forecast.call_ended(1, 32)
    assert forecast.growth(100) == 32.0
    for growth in (64, None, -1):
        forecast.call_ended(1, growth)
    assert forecast.growth(100) == 33.0


def test_a_forecast_is_made_anew_when_programs_end() -> None:
    """Eight of two calls: then none is expected to make a third."""
    forecast = Forecast()
    assert forecast.survival(0)[3] > 0
    for _ in range(8):
        forecast.program_ended(2)
    assert forecast.survival(0)[:4] == (1.0, 1.0, 1.0, 0.0)
