"""What a miss costs: from calls, from the idle engine, and from both."""

from math import sqrt
from random import Random

import pytest

from tutti.tasks.serving.scheduling.forecast import (
    ENOUGH_CALLS,
    MissPrice,
    Quantiles,
    seconds_to_keep,
)

TOKEN_S = 6e-6


def seen(price: MissPrice, calls: int, noise_s: float, token_s: float = TOKEN_S) -> MissPrice:
    """`price` after calls whose time is mostly that of what ran beside them."""
    draw = Random(3)
    for _ in range(calls):
        fresh, produced = draw.randint(20, 150), draw.randint(4, 17)
        busy = max(draw.gauss(0.15, noise_s), 0.02)
        price.add(fresh, produced, busy + fresh * token_s + produced * 0.003)
    return price


def test_nothing_is_known_before_enough_calls() -> None:
    """And what an idle engine showed is, from the start."""
    price = seen(MissPrice(), ENOUGH_CALLS - 1, 0.05)
    assert price.at_most(2.0) is None
    price.measured = TOKEN_S
    assert price.at_most(2.0) == TOKEN_S


def test_quiet_calls_show_the_price() -> None:
    """Beside tokens produced, which take time too."""
    known = seen(MissPrice(), 2000, 0.0002).slope()
    assert known is not None
    assert abs(known[0] - TOKEN_S) < 3 * known[1] < TOKEN_S


def test_noise_hides_what_an_idle_engine_shows() -> None:
    """Six hundred calls of a small model cannot tell its price, and in doubt it is high."""
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
    """Gaps of a tenth of a second: a cache that fills again in twice that is not kept for them, for
    keeping wastes more of it than the idle prefixes take."""
    assert (seconds_to_keep(GAPS, 0, refill_s) > 0) == kept


@pytest.mark.parametrize(("tokens", "seconds"), [(100, 1.0), (1, 10.0)])
def test_the_standard_error_by_hand(tokens: int, seconds: float) -> None:
    """24 differences d of `tokens`, each with a mean squared residual of `seconds` squared before
    any slope is known: 1 / sqrt(24 d^2 / (2 seconds^2))."""
    price = MissPrice()
    for number in range(ENOUGH_CALLS + 1):
        price.add(number % 2 * tokens, 0, number % 2 * seconds)
    error = sqrt(2 * seconds**2 / 24) / tokens
    assert price.slope() == pytest.approx((seconds / tokens, error), rel=0.01)


def test_calls_of_one_prompt_length_show_no_price_and_no_noise() -> None:
    """Answers of other lengths that take the same time are no contradiction."""
    price = MissPrice()
    for number in range(2 * ENOUGH_CALLS):
        price.add(100, number % 5, 1.0)
    assert price.slope() is None and price._noise == 0.0
    price.add(200, 0, 1.0)
    assert price._noise == 0.0, "nothing was expected of the first prompt of another length"
