"""The rules of one negotiation, and counterparts that are programs, without randomness.

The time-dependent kinds are those of Faratin, Sierra and Jennings 1998: after t of T rounds the
counterpart has conceded the share (t / T)^(1/e) of the way from its opening to its limit.
`tit_for_tat` concedes as much as the other party did; `impatient` leaves early.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tutti.tasks.benchmarks.negotiation.scenario import Scenario

EXPONENTS = {"conceder": 3.0, "linear": 1.0, "boulware": 0.25, "impatient": 1.0}
"""e of the time-dependent kinds."""
LEAST_CONCESSION = 0.05  # of tit_for_tat, a round, as a share of its whole way
PATIENCE = 2  # offers beyond its limit at which `impatient` leaves
ACCEPT, LEAVE = "accept", "leave"


@dataclass(frozen=True)
class Answer:
    """A party's move: an offer, or one of the two words."""

    move: str
    price: int | None = None


def answer(scenario: Scenario, offers: Sequence[int]) -> Answer:
    """Return the counterpart's answer to the last of the measured party's `offers`, one per round.
    It accepts an offer at least as good as its own next one, and in the last round any offer within
    its limit; otherwise it leaves then."""
    other, offered = scenario.other, offers[-1]
    if scenario.kind == "impatient":
        beyond = sum(other.gain(price) < 0 for price in offers)
        if beyond >= PATIENCE:
            return Answer(LEAVE)
    if len(offers) >= scenario.rounds:
        return Answer(ACCEPT if other.gain(offered) >= 0 else LEAVE)
    asked = demand(scenario, offers)
    if other.gain(offered) >= other.gain(asked):
        return Answer(ACCEPT)
    return Answer(f"offer {asked}", asked)


def demand(scenario: Scenario, offers: Sequence[int]) -> int:
    """Return the price that the counterpart asks for after these offers."""
    if scenario.kind == "tit_for_tat":
        conceded = _reciprocated(scenario, offers)
    else:
        conceded = (len(offers) / scenario.rounds) ** (1 / EXPONENTS[scenario.kind])
    other = scenario.other
    # Down to whole prices in its own favour: it never concedes more than the formula says.
    kept = int(min(1.0, conceded) * other.gain(scenario.opening))
    return scenario.opening - other.direction * kept


def _reciprocated(scenario: Scenario, offers: Sequence[int]) -> float:
    way = max(1, scenario.other.gain(scenario.opening))
    total = LEAST_CONCESSION
    for before, after in pairwise(offers):
        given = scenario.other.direction * (after - before)
        total += max(LEAST_CONCESSION, given / way)
    return total


MOST_ILLEGAL = 3
"""Illegal moves of a party that end the negotiation without a deal."""
_OFFER = re.compile(r"\boffer:?\s+\$?(\d{1,4})\b", re.IGNORECASE)
_WORD = re.compile(rf"\b({ACCEPT}|{LEAVE})\b", re.IGNORECASE)


@dataclass
class Bargain:
    """A negotiation in progress. The counterpart has made its opening offer."""

    scenario: Scenario
    moves: list[tuple[str, str]] = field(default_factory=list)
    """(``own`` or ``other``, move), legal ones only, in order."""
    illegal: dict[str, int] = field(default_factory=lambda: {"own": 0, "other": 0})
    standing: dict[str, int] = field(default_factory=dict)
    offers: list[int] = field(default_factory=list)
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
        """Run a party's move. Raises ValueError for a move that is illegal or not `allowed`, and
        counts it."""
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
        """Return the outcome and its moves, for the scorer."""
        return {
            "reward": self.share,
            "deal": self.deal,
            "ended": self.ended or "unfinished",
            "moves": [f"{who}: {move}" for who, move in self.moves],
            "illegal": self.illegal["own"],
        }


def read_move(text: str) -> Answer:
    """Return the move that a text states: its last one. Raises ValueError, whose message is for its
    author."""
    offers, words = list(_OFFER.finditer(text)), list(_WORD.finditer(text))
    if not offers and not words:
        raise ValueError("write `offer PRICE`, `accept` or `leave`")
    last = max([*offers, *words], key=lambda found: found.start())
    if last.re is _OFFER:
        return Answer(f"offer {int(last[1])}", int(last[1]))
    return Answer(last[1].lower())
