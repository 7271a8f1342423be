"""Costs in USD of which parts may be unknown. Unknown is never free.

In: costs of parts, None where one is unknown. Out: the sum, which is unknown with any of its parts;
as text it is at least what is known.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Cost:
    """A sum in USD of which parts may be unknown."""

    known_usd: float = 0.0
    """The sum of the parts that are known; a lower bound."""
    unknown: int = 0
    """Number of parts whose cost is unknown."""

    @classmethod
    def of(cls, parts: Iterable[float | None]) -> "Cost":
        """The sum of `parts`."""
        total = cls()
        for usd in parts:
            total.add(usd)
        return total

    def add(self, usd: float | None) -> None:
        """Add a part; None where its cost is unknown."""
        if usd is None:
            self.unknown += 1
        else:
            self.known_usd += usd

    def include(self, other: "Cost") -> None:
        """Add the parts of another sum."""
        self.known_usd += other.known_usd
        self.unknown += other.unknown

    @property
    def usd(self) -> float | None:
        """The sum; None where a part is unknown."""
        return None if self.unknown else self.known_usd

    def __format__(self, spec: str) -> str:
        """The sum in the format of a float: ``at least 0.25`` where a part is unknown."""
        return f"{'at least ' if self.unknown else ''}{self.known_usd:{spec}}"
