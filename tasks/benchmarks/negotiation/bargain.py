"""The rules of one negotiation: moves in, state and score out.

In: a scenario, the moves of both parties in turn. Out: the deal, if there is one, and the score. A
negotiation follows from its moves alone, so recorded moves replay to the same score.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti.tasks.benchmarks.negotiation.counterpart import ACCEPT, LEAVE, Answer
from tutti.tasks.benchmarks.negotiation.scenario import Scenario

MOST_ILLEGAL = 3
"""Illegal moves of a party that end the negotiation without a deal."""
_OFFER = re.compile(r"\boffer:?\s+\$?(\d{1,4})\b", re.IGNORECASE)
_WORD = re.compile(rf"\b({ACCEPT}|{LEAVE})\b", re.IGNORECASE)


@dataclass
class Bargain:
    """One negotiation under way. The counterpart has made its opening offer."""

    scenario: Scenario
    moves: list[tuple[str, str]] = field(default_factory=list)
    """(``own`` or ``other``, move), legal ones only, in order."""
    illegal: dict[str, int] = field(default_factory=lambda: {"own": 0, "other": 0})
    """Rejected moves by party."""
    standing: dict[str, int] = field(default_factory=dict)
    """Each party's last offer."""
    offers: list[int] = field(default_factory=list)
    """The measured party's offers, one a round."""
    deal: int | None = None
    ended: str | None = None
    """Why it is over: ``deal``, ``left``, ``rounds`` or ``illegal``."""

    def __post_init__(self) -> None:
        self.standing["other"] = self.scenario.opening

    @property
    def round(self) -> int:
        """The current round, from 1."""
        return min(len(self.offers) + 1, self.scenario.rounds)

    def play(self, who: str, text: str, allowed: Sequence[str] | None = None) -> Answer:
        """Carry out a party's move. Raises ValueError for an illegal one, which is counted, as is
        one that is not `allowed`."""
        try:
            made = self._legal(read_move(text), allowed)
        except ValueError:
            self.illegal[who] += 1
            if self.illegal[who] >= MOST_ILLEGAL:
                self.ended = "illegal"
            raise
        self.moves.append((who, made.move))
        if made.move == ACCEPT:
            self.deal, self.ended = self.standing["other" if who == "own" else "own"], "deal"
        elif made.move == LEAVE:
            self.ended = "left"
        else:
            assert made.price is not None, made
            self.standing[who] = made.price
            if who == "own":
                self.offers.append(made.price)
            elif len(self.offers) >= self.scenario.rounds:
                self.ended = "rounds"
        return made

    def _legal(self, made: Answer, allowed: Sequence[str] | None) -> Answer:
        low, high = self.scenario.low, self.scenario.high
        if made.price is not None and not low <= made.price <= high:
            raise ValueError(f"{made.price} is outside {low} to {high}")
        if allowed is not None and made.move not in allowed:
            raise ValueError(f"the strategy does not allow {made.move!r}")
        return made

    @property
    def share(self) -> float:
        """The score: the measured party's share of the surplus."""
        return self.scenario.share(self.deal)

    @property
    def state(self) -> dict[str, Any]:
        """The outcome with the moves that led to it, for the scorer."""
        return {
            "reward": self.share,
            "deal": self.deal,
            "ended": self.ended or "unfinished",
            "moves": [f"{who}: {move}" for who, move in self.moves],
            "illegal": self.illegal["own"],
        }


def read_move(text: str) -> Answer:
    """The move that a text states: its last one. Raises ValueError, whose message is for its
    author."""
    offers, words = list(_OFFER.finditer(text)), list(_WORD.finditer(text))
    if not offers and not words:
        raise ValueError("write `offer PRICE`, `accept` or `leave`")
    last = max([*offers, *words], key=lambda found: found.start())
    if last.re is _OFFER:
        return Answer(f"offer {int(last[1])}", int(last[1]))
    return Answer(last[1].lower())


def replay(scenario: Scenario, moves: Sequence[str]) -> Bargain:
    """The negotiation of recorded moves, written ``own: offer 40``. Raises ValueError if one is not
    legal."""
    made = Bargain(scenario)
    for each in moves:
        who, _, move = each.partition(": ")
        if made.ended is not None or who not in made.illegal:
            raise ValueError(f"{each!r}: not a move of this negotiation")
        made.play(who, move)
    return made
