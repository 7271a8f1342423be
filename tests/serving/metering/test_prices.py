"""Tests that the price file is validated as a whole and that the list has the current day's
prices."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tutti.tasks.serving.errors import PriceError
from tutti.tasks.serving.metering import prices as module
from tutti.tasks.serving.metering.prices import (
    PRICE_BOOK,
    PriceBook,
    PriceList,
    find_price,
    read_price_book,
)
from tutti.tasks.serving.registry.models import Prices, read_registry

GOOD = """
as_of: 2026-11-21
currency: USD
models:
  once: {prompt: 1, completion: 4, source: a page, from: 2026-01-01}
  twice:
    - {prompt: 1.0, cached: 0.1, completion: 2.0, source: a page, from: 2026-06-01}
    - {prompt: 2.0, cached: 0.2, completion: 4.0, source: a page, from: 2026-01-01}
"""


def book_at(folder: Path, text: str) -> Path:
    path = folder / "prices.yaml"
    path.write_text(text)
    return path


def test_the_price_is_the_one_valid_that_day(tmp_path: Path) -> None:
    book = read_price_book(book_at(tmp_path, GOOD))
    june = datetime(2026, 6, 1, tzinfo=UTC)
    assert find_price(book, "twice", june) == Prices(prompt=1.0, cached=0.1, completion=2.0)
    before = june - timedelta(microseconds=1)
    assert find_price(book, "twice", before) == Prices(prompt=2.0, cached=0.2, completion=4.0)
    evening = datetime(2026, 5, 31, 20, tzinfo=timezone(timedelta(hours=-4)))
    assert find_price(book, "twice", evening) == Prices(prompt=1.0, cached=0.1, completion=2.0)


def test_without_a_discount_cached_tokens_cost_what_others_do(tmp_path: Path) -> None:
    book = read_price_book(book_at(tmp_path, GOOD))
    prices = find_price(book, "once", datetime(2026, 2, 1, tzinfo=UTC))
    assert prices == Prices(prompt=1.0, cached=1.0, completion=4.0)


def test_what_the_book_does_not_list_has_no_price(tmp_path: Path) -> None:
    """An unknown model and a day before the first price have no price, which does not mean free."""
    book = read_price_book(book_at(tmp_path, GOOD))
    assert find_price(book, "other", datetime(2026, 11, 21, tzinfo=UTC)) is None
    assert find_price(book, "once", datetime(2025, 12, 31, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("old", "new", "field", "told"),
    [
        ("prompt: 1,", "prompt: -1,", "models.once.0.prompt", "-1"),
        ("prompt: 1,", "prompt: cheap,", "models.once.0.prompt", "cheap"),
        ("prompt: 1,", "prompt: .nan,", "models.once.0.prompt", "nan"),
        ("prompt: 1,", "prompt: 0.00000125,", "models.once.0.prompt", "1.25e-06"),
        ("completion: 4,", "completion: 4000,", "models.once.0.completion", "4000"),
        ("prompt: 1,", "prompt: 5,", "models.once.0", "must be ordered"),
        ("cached: 0.1", "cached: 1.1", "models.twice.0", "must be ordered"),
        ("prompt: 1,", "", "models.once.0.prompt", "required"),
        ("prompt: 1,", "prompt: 1, input: 2,", "models.once.0.input", "2"),
        ("source: a page", "note: a page", "models.once.0.source", "required"),
        ("2026-06-01", "2026-01-01", "models.twice", "two prices from one day"),
        ("2026-06-01", "soon", "models.twice.0.from", "soon"),
        ("2026-06-01", "2026-06-01 10:00:00", "models.twice.0.from", "10"),
        ("as_of: 2026-11-21", "as_of: today", "as_of", "today"),
        ("currency: USD", "currency: EUR", "currency", "EUR"),
        ("once: {", "once: []\n  twice2: {", "models.once", "at least 1"),
        ("  twice:", "  once:", "line 6", "once is given twice"),
        (GOOD, "", "as_of", "required"),
        (GOOD, "a: [", "not YAML", "line"),
        (GOOD, "? [a]\n: b", "not YAML", "line"),
    ],
)
def test_an_error_names_file_field_and_value(
    tmp_path: Path, old: str, new: str, field: str, told: str
) -> None:
    assert old in GOOD
    path = book_at(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(PriceError) as raised:
        read_price_book(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ") and field in message and told in message
    assert "\n" not in message


def test_a_book_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match=r"nowhere\.yaml: no such file"):
        read_price_book(tmp_path / "nowhere.yaml")


def test_the_book_of_this_project_has_the_registrys_models() -> None:
    book = read_price_book()
    known = read_registry(PRICE_BOOK.with_name("models.yaml"))
    now = datetime(2026, 11, 21, tzinfo=UTC)
    assert {name: find_price(book, name, now) for name in known} == {
        name: model.prices for name, model in known.items()
    }
    sources = [entry.source for name, h in book.models.items() if name not in known for entry in h]
    assert sources and all(source.startswith("example: ") for source in sources)


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
    """The cases are an unknown model, one with a future first price, and no price file."""
    prices = PriceList(BOOK, lambda: at(2026, 6, 1))
    assert (prices.of("nope"), prices.of("later"), prices.of("")) == (None, None, None)
    assert PriceList(None).of("m") is None


def test_the_book_is_gone_through_once_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose the requested names, which cost neither a search nor memory."""
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
