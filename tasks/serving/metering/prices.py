"""The price book: what models cost, since when, and who says so (`deployments/prices.yaml`).

In: the file. Out: the `Prices` of a model on a day. A price is USD per million tokens; the book is
checked as a whole when read, and an unknown model is an error, never free of charge.
"""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from tutti.tasks.config import read_document
from tutti.tasks.project import DEPLOYMENTS
from tutti.tasks.serving.errors import PriceError
from tutti.tasks.serving.registry import Prices

PRICE_BOOK = DEPLOYMENTS / "prices.yaml"
DAY_S = 86_400
LEAST_USD, MOST_USD = 0.001, 1000.0
"""Of a million tokens. Outside lies no price known to us; a price for one token falls below."""


def _plausible(price: float) -> float:
    if price and not LEAST_USD <= price <= MOST_USD:
        raise ValueError(f"USD per million tokens are 0, or {LEAST_USD} to {MOST_USD:.0f}")
    return price


Usd = Annotated[float, AfterValidator(_plausible)]


class DatedPrices(BaseModel):
    """What a model costs from a day on, in USD per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    prompt: Usd
    """Prompt tokens that are computed."""
    cached: Usd | None = None
    """Prompt tokens found in a prefix cache; left out where there is no discount."""
    completion: Usd
    """Tokens generated."""
    source: str = Field(min_length=1)
    """Who says so."""
    since: date = Field(alias="from")
    """The first day (UTC) of the price."""

    @model_validator(mode="after")
    def _ordered(self) -> "DatedPrices":
        # Every provider prices them so; the reverse is a slip between columns.
        if not (self.cached or 0.0) <= self.prompt <= self.completion:
            raise ValueError("cached costs at most what prompt does, and that what completion does")
        return self

    @property
    def prices(self) -> Prices:
        """The prices as the gateway charges them."""
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


class PriceBook(BaseModel):
    """All prices known on a day."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    as_of: date
    """When the book was last gone through."""
    currency: Literal["USD"]
    models: dict[str, History]
    """By the registry's name or the served name; earliest price first."""


def read_price_book(path: Path = PRICE_BOOK) -> PriceBook:
    """The book in `path`. Raises PriceError with file, line, field and value."""
    try:
        return read_document(path, PriceError).check(PriceBook)
    except FileNotFoundError:
        raise PriceError(f"{path}: no such file") from None


def find_price(book: PriceBook, model: str, at: datetime) -> Prices | None:
    """What `model` costs at `at`, a time with a zone; None where the book does not say."""
    assert at.tzinfo is not None, f"{at} has no zone, so its day is unknown"
    day = at.astimezone(UTC).date()
    valid = [entry for entry in book.models.get(model, []) if entry.since <= day]
    return valid[-1].prices if valid else None


def price_of(book: PriceBook, model: str, at: datetime) -> Prices:
    """What `model` costs at `at`. Raises PriceError where the book does not say, with what it does.

    A caller for whom an unknown price is no error asks `find_price`.
    """
    prices = find_price(book, model, at)
    if prices is not None:
        return prices
    if model in book.models:
        first = book.models[model][0].since
        raise PriceError(f"{model} has no price on {at.date()}: its first is from {first}")
    raise PriceError(f"no price of {model!r}; known: {', '.join(sorted(book.models))}")


class PriceList:
    """The book's prices as of now, for who asks at every call: it is gone through once a day.

    `clock` gives seconds since 1970, as `time.time` does.
    """

    def __init__(self, book: PriceBook | None, clock: Callable[[], float] = time.time) -> None:
        self._book, self._clock = book, clock
        self._today: dict[str, Prices] = {}
        self._until = 0.0

    def of(self, model: str) -> Prices | None:
        """What `model` costs now; None where the book does not say."""
        now = self._clock()
        if not self._until - DAY_S <= now < self._until:
            self._turn_to(now)
        return self._today.get(model)

    def _turn_to(self, now: float) -> None:
        at = datetime.fromtimestamp(now, UTC)
        self._until = (now // DAY_S + 1) * DAY_S  # midnight UTC, as the book's days begin
        if self._book is not None:
            found = {model: find_price(self._book, model, at) for model in self._book.models}
            self._today = {model: price for model, price in found.items() if price is not None}
