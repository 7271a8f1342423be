"""Numbers as text, with a suitable number of digits. An absent value is a dash."""

import math
from collections.abc import Callable

ABSENT = "–"  # noqa: RUF001
ACCURACY, MEAN_SCORE = "accuracy", "mean score"
"""The measures of headline scores (`headlines.measure`)."""
Show = Callable[[float | None], str]


def span(show: Show, low: float | None, high: float | None) -> str:
    """Format an interval, its ends by `show`, without a sign for percent; or a dash."""
    return (
        ABSENT if low is None or high is None else f"{show(low)} to {show(high)}".replace(" %", "")
    )


def headline(measure: str) -> Show:
    return score if measure == MEAN_SCORE else share


def number(value: float | None, digits: int = 1) -> str:
    """Format `value` with thousands separated, or a dash."""
    return ABSENT if value is None else f"{value:,.{digits}f}"


def count(value: int) -> str:
    return f"{value:,}"


def seconds(value: float | None) -> str:
    """Seconds to three digits below 0.1, two below 10, one below 100, else integer; or a dash."""
    if value is None:
        return ABSENT
    size = abs(value)
    if size < 0.0005:
        return "0"
    return number(value, 3 if size < 0.1 else 2 if size < 10 else 1 if size < 100 else 0)


def usd(value: float | None) -> str:
    """Format USD to cents, or to two significant digits below one; or a dash."""
    if value is None:
        return ABSENT
    if value == 0 or abs(value) >= 1:
        return number(value, 2)
    return f"{value:.{min(8, 1 - math.floor(math.log10(abs(value))))}f}"


def share(value: float | None) -> str:
    """Format a share of 0 to 1 as a percentage with one digit, or a dash."""
    return ABSENT if value is None else f"{value * 100:.1f} %"


def score(value: float | None) -> str:
    """Format a mean score in its own unit, to three digits after the point, or a dash."""
    return number(value, 3)


def at_once(concurrency: int) -> str:
    """Format a load; 0 is an unknown one."""
    return f"{concurrency} at once" if concurrency else "load unknown"


def p_value(value: float | None) -> str:
    """Format a p-value to two digits, or as tiny; or a dash."""
    if value is None:
        return ABSENT
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def rate(value: float | None) -> str:
    """Format a rate to three digits or the integer, or a dash."""
    return number(value, 1 if value is not None and value < 100 else 0)
