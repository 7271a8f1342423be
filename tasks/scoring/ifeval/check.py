"""The type of a check of one instruction."""

from collections.abc import Callable, Mapping
from typing import Any

Options = Mapping[str, Any]
"""An instruction's options, as the data name them."""

Check = Callable[[str, Options], bool]
"""Takes a non-empty response and the options; returns whether the instruction was followed."""


def holds(count: int, relation: str, limit: int) -> bool:
    """Whether `count` is "at least" or "less than" `limit`. ValueError for another relation."""
    if relation == "at least":
        return count >= limit
    if relation == "less than":
        return count < limit
    raise ValueError(f"unknown relation {relation!r}")
