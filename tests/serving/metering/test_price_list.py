"""The price list follows the book from day to day, and goes through it once a day."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tutti.tasks.serving.metering import prices as module
from tutti.tasks.serving.metering.prices import PriceBook, PriceList, find_price

DAY = {"prompt": 1.0, "completion": 2.0, "source": "me"}
BOOK = PriceBook.model_validate(
    {
        "as_of": datetime(2026, 3, 1).date(),
        "currency": "USD",
        "models": {
            "m": [
                DAY | {"from": datetime(2026, 1, 1).date()},
                DAY | {"from": datetime(2026, 2, 1).date(), "prompt": 0.5},
            ],
            "later": DAY | {"from": datetime(2027, 1, 1).date()},
        },
    }
)


def at(*words: int) -> float:
    return datetime(*words, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


def test_a_price_is_that_of_the_moment() -> None:
    """It changes at midnight UTC, and goes back when the clock does."""
    now = [0.0]
    prices = PriceList(BOOK, lambda: now[0])
    for moment, prompt in [
        (at(2026, 1, 31, 23, 59, 59), 1.0),
        (at(2026, 2, 1), 0.5),
        (at(2026, 5, 7, 12), 0.5),
        (at(2026, 1, 15), 1.0),
    ]:
        now[0] = moment
        found = prices.of("m")
        assert found is not None and found.prompt == prompt
    now[0] = at(2025, 12, 31)
    assert prices.of("m") is None


def test_what_the_book_does_not_say_is_none() -> None:
    """An unknown model, one whose first price is to come, and no book at all."""
    prices = PriceList(BOOK, lambda: at(2026, 6, 1))
    assert (prices.of("nope"), prices.of("later"), prices.of("")) == (None, None, None)
    assert PriceList(None).of("m") is None


def test_the_book_is_gone_through_once_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose the names that are asked for: they neither cost a search nor any memory."""
    searches: list[str] = []
    real = find_price

    def counted(*given: Any) -> Any:
        searches.append(given[1])
        return real(*given)

    monkeypatch.setattr(module, "find_price", counted)
    prices = PriceList(BOOK, lambda: at(2026, 6, 1, 8))
    for number in range(100):
        prices.of("m")
        prices.of(f"made up {number}")
    assert searches == ["m", "later"]
