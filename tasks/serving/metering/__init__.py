"""Metering: metrics of engines and GPUs, and the prices of model calls."""

from typing import TYPE_CHECKING

from tutti.face import lazy
from tutti.tasks.serving.metering.gpu import GpuSampler
from tutti.tasks.serving.metering.metrics import (
    EngineSample,
    MetricsPage,
    MetricsSampler,
    capacity_of_sglang,
    engine_sample,
    parse_metrics,
    read_page,
)
from tutti.tasks.serving.metering.prices import (
    PRICE_BOOK,
    DatedPrices,
    PriceBook,
    PriceList,
    find_price,
    price_of,
    read_price_book,
)

__all__ = [
    "PRICE_BOOK",
    "DatedPrices",
    "EngineSample",
    "GpuSampler",
    "MetricsPage",
    "MetricsSampler",
    "PriceBook",
    "PriceList",
    "capacity_of_sglang",
    "engine_sample",
    "find_price",
    "parse_metrics",
    "price_of",
    "read_page",
    "read_price_book",
]

if TYPE_CHECKING:
    from tutti.tasks.serving.metering.prices import Usd as Usd

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
