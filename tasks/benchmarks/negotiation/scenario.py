"""Scenarios of a negotiation: two private limits, a public range of prices, a number of rounds.

In: the numbers of a row. Out: a `Scenario`: each party's gain at each price, and the score.
"""

from dataclasses import dataclass, replace
from typing import Literal

Side = Literal["buyer", "seller"]
SIDES: tuple[Side, Side] = ("buyer", "seller")
Kind = Literal["conceder", "linear", "boulware", "impatient", "tit_for_tat"]


@dataclass(frozen=True)
class Party:
    """One side of a negotiation, with its private knowledge."""

    side: Side
    limit: int
    """The buyer's highest price, or the seller's lowest."""
    best: int

    @property
    def direction(self) -> int:
        """1 if a higher price is better for it, else -1."""
        return 1 if self.side == "seller" else -1

    def gain(self, price: int) -> int:
        """Return how much better than its limit a price is; negative beyond the limit."""
        return self.direction * (price - self.limit)

    def price(self, demand: float) -> int:
        """Return the price at a share of the way from its limit (0) to its best price (1), rounded
        by the distance from the limit, so that both sides round alike."""
        return self.limit + self.direction * int(demand * abs(self.best - self.limit) + 0.5)


@dataclass(frozen=True)
class Scenario:
    """One negotiation. The measured party plays `side`."""

    id: str
    side: Side
    limit: int
    other_limit: int
    low: int
    high: int
    """The public range: no price is outside it."""
    opening: int
    rounds: int
    """How often each party may move; without a deal by then there is none."""
    kind: Kind
    """How the counterpart concedes, if a program plays it."""

    @property
    def own(self) -> Party:
        """The measured party."""
        return _party(self.side, self.limit, self)

    @property
    def other(self) -> Party:
        """The counterpart."""
        side: Side = "seller" if self.side == "buyer" else "buyer"
        return _party(side, self.other_limit, self)

    @property
    def surplus(self) -> int:
        """The distance of the limits, which both can win together."""
        return self.own.gain(self.other_limit)

    def share(self, price: int | None) -> float:
        """Return the score: the measured party's share of the surplus, 0 to 1; 0 without a deal. A
        price beyond the own limit is a loss and scores 0, one beyond the other's scores 1."""
        if price is None:
            return 0.0
        return min(1.0, max(0.0, self.own.gain(price) / self.surplus))

    def mirrored(self) -> "Scenario":
        """The scenario with sides exchanged and prices reflected: each move has an equal one."""
        total = self.low + self.high
        return replace(
            self,
            side=self.other.side,
            limit=total - self.limit,
            other_limit=total - self.other_limit,
            opening=total - self.opening,
        )

    def reason_invalid(self) -> str | None:
        """Return the field that is wrong and why; None for a valid scenario."""
        if not 0 < self.low < self.high:
            return f"high: {self.high} is not above low ({self.low}), or low is not above 0"
        for name in ("limit", "other_limit", "opening"):
            if not self.low <= getattr(self, name) <= self.high:
                return f"{name}: {getattr(self, name)} is outside {self.low} to {self.high}"
        if self.surplus <= 0:
            return f"other_limit: {self.other_limit} leaves no price that suits both"
        if self.other.gain(self.opening) < 0:
            return f"opening: {self.opening} is beyond the counterpart's own limit"
        if self.rounds < 1:
            return f"rounds: {self.rounds} is not at least 1"
        return None


def _party(side: Side, limit: int, scenario: Scenario) -> Party:
    return Party(side, limit, scenario.high if side == "seller" else scenario.low)
