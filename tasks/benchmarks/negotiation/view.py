"""A party's view of a negotiation: the strategies and their moves, and its texts.

A strategy is a range of demands, as shares of the way from the party's limit to the best public
price. The other party's limit is in none of the texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.tasks.agents.orchestrator import MoveTask
from tutti.tasks.benchmarks.negotiation.bargain import ACCEPT, LEAVE, Bargain
from tutti.tasks.benchmarks.negotiation.scenario import Party, Scenario

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
    """Return the prices of a strategy, the highest demand first."""
    lowest, highest = STRATEGIES[strategy]
    steps = [highest - (highest - lowest) * n / (MOST_PRICES - 1) for n in range(MOST_PRICES)]
    return list(dict.fromkeys(party.price(step) for step in steps))


def moves(party: Party, strategy: str, standing: int) -> list[str]:
    """Return the legal moves under a strategy: offers that are better for the party than the
    standing one, and ``accept`` if the standing one is as good as the lowest demand."""
    offered = [p for p in prices(party, strategy) if party.gain(p) > party.gain(standing)]
    lowest = party.price(STRATEGIES[strategy][0])
    takes = party.gain(standing) >= party.gain(lowest)
    return [*(["accept"] if takes else []), *(f"offer {price}" for price in offered)]


def all_moves(party: Party, standing: int) -> list[str]:
    """Return the moves under a strategy that is not a known one: all that some strategy allows."""
    every = [move for strategy in STRATEGIES for move in moves(party, strategy, standing)]
    return list(dict.fromkeys(every))


def named(text: str) -> str | None:
    """Return the first known strategy that a text names; None if it names none."""
    words = [word.strip(".,:;!?*`'\"()").lower() for word in text.split()]
    return next((word for word in words if word in STRATEGIES), None)


def described(party: Party) -> str:
    """Return each strategy with its prices: ``hard 14-25, firm 31-36, …, close``."""
    return ", ".join(f"{name} {_range(prices(party, name))}".rstrip() for name in STRATEGIES)


def _range(some: Sequence[int]) -> str:
    return f"{min(some)}-{max(some)}" if len(some) > 1 else ""


ALONE = "Each round write `offer PRICE`, `accept` or `leave`."
OTHER = {"own": "other", "other": "own"}


def facts(party: Party, scenario: Scenario) -> str:
    """Return what a party knows at the start: its part, its limit, the public prices."""
    part = f"Pay at most {party.limit}" if party.side == "buyer" else f"Take at least {party.limit}"
    verb = "buy" if party.side == "buyer" else "sell"
    return f"You {verb}. {part}. Prices are {scenario.low} to {scenario.high}."


@dataclass(frozen=True)
class View:
    """A negotiation as one party (``own`` or ``other``) sees it."""

    bargain: Bargain
    who: str

    @property
    def party(self) -> Party:
        """The viewing party."""
        scenario = self.bargain.scenario
        return scenario.own if self.who == "own" else scenario.other

    @property
    def standing(self) -> int:
        """The other's last offer."""
        return self.bargain.standing[OTHER[self.who]]

    @property
    def facts(self) -> str:
        """What the party knows at the start."""
        return facts(self.party, self.bargain.scenario)

    @property
    def strategies(self) -> str:
        """The strategies with their prices, for a strategist."""
        return f"Strategies: {described(self.party)}."

    @property
    def status(self) -> str:
        """The other's offer and the round: ``They ask 78. Round 1 of 5.``"""
        made = self.bargain
        which = f"Round {made.round} of {made.scenario.rounds}"
        if made.round == made.scenario.rounds:
            which = "Last round"
        return f"{self._said(OTHER[self.who], f'offer {self.standing}')} {which}."

    @property
    def last_moves(self) -> str:
        """The last move of each: ``You bid 35. They ask 70. Round 2 of 5.`` At the end, the
        outcome."""
        made = self.bargain
        if made.ended is None:
            own = next((move for who, move in reversed(made.moves) if who == self.who), None)
            return f"{self._said(self.who, own)} {self.status}" if own else self.status
        was_own = bool(made.moves) and made.moves[-1][0] == self.who
        new = made.moves[-1:] if was_own else made.moves[-2:]
        words = [self._said(who, move) for who, move in new]
        result = "No deal." if made.deal is None else f"Deal at {made.deal}."
        return " ".join([*words, result])

    def task(self, strategy: str) -> MoveTask:
        """Return the actor's task under a strategy, with the permitted moves. A strategy other than
        the known ones allows every move."""
        known = named(strategy)
        allowed = moves(self.party, known, self.standing) if known else self._any_moves()
        said = " ".join(self._said(who, move) for who, move in self.bargain.moves)
        asked = [
            f"{said} {self.status}".strip() if self.bargain.ended is None else said,
            f"Strategy: {strategy}",
            f"Moves: {', '.join(allowed)}",
        ]
        messages = [
            {"role": "system", "content": f"{self.facts} Write one of the moves."},
            {"role": "user", "content": "\n".join(asked)},
        ]
        return MoveTask(messages, allowed)

    def _any_moves(self) -> list[str]:
        return [*all_moves(self.party, self.standing), LEAVE]

    def _said(self, who: str, move: str) -> str:
        mine = who == self.who
        name = "You" if mine else "They"
        if move in (ACCEPT, LEAVE):
            return f"{name} {move}."
        buys = (self.party.side == "buyer") == mine
        return f"{name} {'bid' if buys else 'ask'} {move.removeprefix('offer ')}."
