"""Metering: metrics of engines and GPUs, and the prices of model calls."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.metering.prices import Usd as Usd
    from tutti.tasks.serving.metering.prices import find_price as find_price
    from tutti.tasks.serving.metering.prices import read_price_book as read_price_book

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
