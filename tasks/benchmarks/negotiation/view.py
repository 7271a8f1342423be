"""What a party sees of a negotiation, in words: for its strategist, for its actor, for it alone.

In: a `Bargain` and a party. Out: texts, and the actor's task. The other's limit is in none of them.
"""

from dataclasses import dataclass

from tutti.tasks.agents.orchestrator import MoveTask
from tutti.tasks.benchmarks.negotiation.bargain import Bargain
from tutti.tasks.benchmarks.negotiation.counterpart import ACCEPT, LEAVE
from tutti.tasks.benchmarks.negotiation.scenario import Party, Scenario
from tutti.tasks.benchmarks.negotiation.strategies import all_moves, described, moves, named

ALONE = "Each round write `offer PRICE`, `accept` or `leave`."
OTHER = {"own": "other", "other": "own"}


def facts(party: Party, scenario: Scenario) -> str:
    """What a party knows at the start: its part, its limit, the public prices."""
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
        """The party that looks."""
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
        """The last move of each: ``You bid 35. They ask 70. Round 2 of 5.`` At the end, how it
        ended."""
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
        """What the actor is asked under a strategy, with the moves that it may choose from.

        A strategy in other words than the known ones allows every move.
        """
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
