"""The price book: prices of models by date, with their source (`deployments/prices.yaml`).

In: the file. Out: the `Prices` of a model on a day. Prices are USD per million tokens. The whole
book is validated when it is read; an unknown model is an error and never free of charge.
"""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    model_validator,
)

from tutti.tasks.platform import DEPLOYMENTS, Strict, read_document
from tutti.tasks.serving.errors import PriceError
from tutti.tasks.serving.registry.models import Prices

PRICE_BOOK = DEPLOYMENTS / "prices.yaml"
DAY_S = 86_400
LEAST_USD, MOST_USD = 0.001, 1000.0
"""Bounds of a price per million tokens: no known price lies outside; a price given per token is
below the lower one."""


def _plausible(price: float) -> float:
    if price and not LEAST_USD <= price <= MOST_USD:
        raise ValueError(f"USD per million tokens are 0, or {LEAST_USD} to {MOST_USD:.0f}")
    return price


Usd = Annotated[float, AfterValidator(_plausible)]


class DatedPrices(Strict, strict=True):
    """Prices of a model from a day on, in USD per million tokens."""

    prompt: Usd
    """Prompt tokens that are computed (cache misses)."""
    cached: Usd | None = None
    """Prompt tokens found in a prefix cache; unset if there is no discount."""
    completion: Usd
    source: str = Field(min_length=1)
    since: date = Field(alias="from")
    """The first day (UTC) of the price."""

    @model_validator(mode="after")
    def _ordered(self) -> "DatedPrices":
        # All providers price in this order; the reverse is a mix-up of columns.
        if not (self.cached or 0.0) <= self.prompt <= self.completion:
            raise ValueError("must be ordered: cached <= prompt <= completion")
        return self

    @property
    def prices(self) -> Prices:
        """The prices in the form that the gateway charges."""
        cached = self.prompt if self.cached is None else self.cached
        return Prices(prompt=self.prompt, cached=cached, completion=self.completion)


def _several(entry: Any) -> Any:
    return [entry] if isinstance(entry, dict) else entry


def _by_day(entries: list[DatedPrices]) -> list[DatedPrices]:
    days = [entry.since for entry in entries]
    if len(set(days)) < len(days):
        raise ValueError("two prices from one day on")
    return sorted(entries, key=lambda entry: entry.since)


History = Annotated[
    list[DatedPrices], Field(min_length=1), BeforeValidator(_several), AfterValidator(_by_day)
]


class PriceBook(Strict, strict=True):
    """Prices of all models."""

    as_of: date
    currency: Literal["USD"]
    models: dict[str, History]
    """By the registry's name or the served name; earliest price first."""


def read_price_book(path: Path = PRICE_BOOK) -> PriceBook:
    """Read the book at `path`. Raises PriceError with file, line, field and value."""
    try:
        return read_document(path, PriceError).check(PriceBook)
    except FileNotFoundError:
        raise PriceError(f"{path}: no such file") from None


def read_prices(path: Path | None) -> PriceBook | None:
    """Read the price book at `path`, or this project's if it has one. Raises PriceError."""
    if path is None and not PRICE_BOOK.is_file():
        return None
    return read_price_book(path or PRICE_BOOK)


def find_price(book: PriceBook, model: str, at: datetime) -> Prices | None:
    """The prices of `model` at `at` (with a time zone); None if the book has none."""
    assert at.tzinfo is not None, f"{at} has no time zone; give one, so that its day is known"
    day = at.astimezone(UTC).date()
    valid = [entry for entry in book.models.get(model, []) if entry.since <= day]
    return valid[-1].prices if valid else None


class PriceList:
    """The book's current prices, for lookups at every call; the book is searched once per day.
    `clock` returns Unix time, like `time.time`."""

    def __init__(self, book: PriceBook | None, clock: Callable[[], float] = time.time) -> None:
        self._book, self._clock = book, clock
        self._today: dict[str, Prices | None] = {}
        self._day = -1.0

    def of(self, model: str) -> Prices | None:
        """The current prices of `model`; None if the book has none."""
        day = self._clock() // DAY_S  # the days of the book begin at midnight UTC
        if day != self._day and self._book is not None:
            at = datetime.fromtimestamp(day * DAY_S, UTC)
            self._today = {name: find_price(self._book, name, at) for name in self._book.models}
            self._day = day
        return self._today.get(model)
