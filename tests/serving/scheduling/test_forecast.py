"""Tests of what is learnt from a run's programs, and of how long an idle prefix is kept."""

from math import sqrt
from random import Random

import pytest

from tutti.tasks.serving.scheduling.forecast import (
    ENOUGH_CALLS,
    FIRST_OUTPUT,
    SPARE,
    Forecast,
    MissPrice,
    Quantiles,
    seconds_to_keep,
)


def test_the_first_answers_are_believed_at_once() -> None:
    """Before any response a call is predicted to produce a fixed number, at most its own limit."""
    forecast = Forecast()
    assert [forecast.output(most) for most in (10, 10_000)] == [10, FIRST_OUTPUT]
    forecast.call_ended(50, None)
    assert [forecast.output(most) for most in (10, 10_000)] == [10, 50]
    forecast.call_ended(90, None)
    assert forecast.output(10_000) == 90


def test_later_answers_are_sampled() -> None:
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
    quantiles = Quantiles(300)
    for number in range(1000):
        quantiles.add(float(-number))
    assert quantiles.sorted == [float(-number) for number in range(999, 699, -1)]
    assert (len(quantiles), quantiles.at(0.0), quantiles.at(1.0)) == (300, -999.0, -700.0)


def test_a_profile_begins_with_what_is_held_now() -> None:
    """The profile grows by what a call adds as long as all programs are expected to continue."""
    assert Forecast().profile(100, 10.0, 0)[:4] == [100.0, 110.0, 120.0, 130.0]


def test_before_any_program_has_ended_only_calls_beyond_the_assumed_may_be_the_last() -> None:
    """Eight calls are assumed; a program that has made eight ends with each further call with
    probability 1/8. One that has made six certainly makes two more."""
    assert Forecast().survival(8)[:3] == pytest.approx((1.0, 7 / 8, (7 / 8) ** 2))
    assert Forecast().survival(6)[:5] == pytest.approx((1.0, 1.0, 1.0, 7 / 8, (7 / 8) ** 2))


def test_growth_follows_what_calls_add_by_a_thirty_second() -> None:
    """The first call sets it; calls that shrink the context and first calls of programs are left
    out."""
    forecast = Forecast()
    assert forecast.growth(100) == 50.0, "half of the context, before any is known"
    forecast.call_ended(1, 32)
    assert forecast.growth(100) == 32.0
    for growth in (64, None, -1):
        forecast.call_ended(1, growth)
    assert forecast.growth(100) == 33.0


def test_a_forecast_is_made_anew_when_programs_end() -> None:
    forecast = Forecast()
    assert forecast.survival(0)[3] > 0
    for _ in range(8):
        forecast.program_ended(2)
    assert forecast.survival(0)[:4] == (1.0, 1.0, 1.0, 0.0)


TOKEN_S = 6e-6


def seen(price: MissPrice, calls: int, noise_s: float, token_s: float = TOKEN_S) -> MissPrice:
    """Return `price` after calls whose time is mostly that of concurrent calls."""
    draw = Random(3)
    for _ in range(calls):
        fresh, produced = draw.randint(20, 150), draw.randint(4, 17)
        busy = max(draw.gauss(0.15, noise_s), 0.02)
        price.add(fresh, produced, busy + fresh * token_s + produced * 0.003)
    return price


def test_nothing_is_known_before_enough_calls() -> None:
    price = seen(MissPrice(), ENOUGH_CALLS - 1, 0.05)
    assert price.at_most(2.0) is None
    price.measured = TOKEN_S
    assert price.at_most(2.0) == TOKEN_S


def test_quiet_calls_show_the_price() -> None:
    known = seen(MissPrice(), 2000, 0.0002).slope()
    assert known is not None
    assert abs(known[0] - TOKEN_S) < 3 * known[1] < TOKEN_S


def test_noise_hides_what_an_idle_engine_shows() -> None:
    """Six hundred calls of a small model cannot determine its price, and in doubt it is high."""
    tokens, worth_s = 100, 0.07 * 0.019
    price = seen(MissPrice(), 600, 0.05)
    in_doubt = price.at_most(1.0)
    assert in_doubt is not None and in_doubt * tokens > worth_s
    price.measured = TOKEN_S
    assert TOKEN_S * tokens < worth_s and price.at_most(1.0) == TOKEN_S


GAPS = Quantiles(64)
for each in range(64):
    GAPS.add(0.05 + each / 640)


@pytest.mark.parametrize(
    ("refill_s", "kept"), [(0.01, False), (0.2, False), (0.3, True), (10.0, True)]
)
def test_a_prefix_is_kept_where_that_clearly_pays(refill_s: float, kept: bool) -> None:
    """For gaps of a tenth of a second, a cache that refills in twice that time is not held, because
    holding wastes more of it than the idle prefixes take."""
    assert (seconds_to_keep(GAPS, 0, refill_s) > 0) == kept


@pytest.mark.parametrize(("tokens", "seconds"), [(100, 1.0), (1, 10.0)])
def test_the_standard_error_by_hand(tokens: int, seconds: float) -> None:
    """There are 24 differences d of `tokens`, each with a mean squared residual of `seconds`
    squared before any slope is known: 1 / sqrt(24 d^2 / (2 seconds^2))."""
    price = MissPrice()
    for number in range(ENOUGH_CALLS + 1):
        price.add(number % 2 * tokens, 0, number % 2 * seconds)
    error = sqrt(2 * seconds**2 / 24) / tokens
    assert price.slope() == pytest.approx((seconds / tokens, error), rel=0.01)


def test_calls_of_one_prompt_length_show_no_price_and_no_noise() -> None:
    """Responses of different lengths that take the same time are no contradiction."""
    price = MissPrice()
    for number in range(2 * ENOUGH_CALLS):
        price.add(100, number % 5, 1.0)
    assert price.slope() is None and price._noise == 0.0
    price.add(200, 0, 1.0)
    assert price._noise == 0.0, "nothing was expected of the first prompt of another length"
