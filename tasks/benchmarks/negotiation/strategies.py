"""The strategies of a party, and the moves that each allows.

In: a party, the other's standing offer, a strategy. Out: the moves. A strategy is a range of
demands, as shares of the way from the party's limit to the best public price, since the other's
limit is not known. Whoever makes the moves can only choose within it, so what is won depends on the
strategy.
"""

from collections.abc import Sequence

from tutti.tasks.benchmarks.negotiation.scenario import Party

STRATEGIES: dict[str, tuple[float, float]] = {
    "hard": (0.78, 0.92),
    "firm": (0.62, 0.70),
    "fair": (0.34, 0.44),
    "soft": (0.18, 0.28),
    "close": (0.0, 0.0),
}
"""Lowest and highest demand of each. `close` takes any standing offer that is no loss."""
MOST_PRICES = 4
"""Prices among which the moves of one strategy are chosen."""


def prices(party: Party, strategy: str) -> list[int]:
    """The prices of a strategy, the highest demand first."""
    lowest, highest = STRATEGIES[strategy]
    steps = [highest - (highest - lowest) * n / (MOST_PRICES - 1) for n in range(MOST_PRICES)]
    return list(dict.fromkeys(party.price(step) for step in steps))


def moves(party: Party, strategy: str, standing: int) -> list[str]:
    """The legal moves under a strategy: offers that are better for the party than the standing
    one, and ``accept`` where the standing one is as good as the lowest demand."""
    offered = [p for p in prices(party, strategy) if party.gain(p) > party.gain(standing)]
    lowest = party.price(STRATEGIES[strategy][0])
    takes = party.gain(standing) >= party.gain(lowest)
    return [*(["accept"] if takes else []), *(f"offer {price}" for price in offered)]


def all_moves(party: Party, standing: int) -> list[str]:
    """The moves under a strategy in other words: every one that some strategy allows."""
    every = [move for strategy in STRATEGIES for move in moves(party, strategy, standing)]
    return list(dict.fromkeys(every))


def named(text: str) -> str | None:
    """The first known strategy that a text names; None if it names none."""
    words = [word.strip(".,:;!?*`'\"()").lower() for word in text.split()]
    return next((word for word in words if word in STRATEGIES), None)


def described(party: Party) -> str:
    """Each strategy with its prices: ``hard 14-25, firm 31-36, …, close``."""
    return ", ".join(f"{name} {_range(prices(party, name))}".rstrip() for name in STRATEGIES)


def _range(some: Sequence[int]) -> str:
    return f"{min(some)}-{max(some)}" if len(some) > 1 else ""
