"""What an attempt costs, where the price of a model may be unknown. Unknown is never free."""

from dataclasses import dataclass


@dataclass
class Cost:
    """A sum in USD of which parts may be unknown."""

    known_usd: float = 0.0
    """The sum of the parts that are known; a lower bound."""
    is_complete: bool = True
    """Whether every part is known."""

    def add(self, usd: float | None) -> None:
        """Add a part; None where its price is unknown."""
        if usd is None:
            self.is_complete = False
        else:
            self.known_usd += usd

    @property
    def usd(self) -> float | None:
        """The sum; None where a part is unknown."""
        return self.known_usd if self.is_complete else None
