"""Counterparts that are programs: what each asks for in which round, and when it accepts.

In: a scenario, the measured party's offers so far. Out: the counterpart's answer. No randomness.

The time-dependent kinds are those of Faratin, Sierra and Jennings 1998 ("Negotiation decision
functions for autonomous agents"): after t of T rounds it has conceded the share (t / T)^(1/e) of
the way from its opening to its limit. `conceder` (e > 1) concedes early, `boulware` (e < 1) late.
`tit_for_tat` concedes as much as the other did in its last move, and a little at least. `impatient`
is linear, but leaves at the second offer beyond its limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tutti.tasks.benchmarks.negotiation.scenario import Scenario

EXPONENTS = {"conceder": 3.0, "linear": 1.0, "boulware": 0.25, "impatient": 1.0}
"""e of the time-dependent kinds."""
LEAST_CONCESSION = 0.05  # of tit_for_tat, a round, as a share of its whole way
PATIENCE = 2  # offers beyond its limit at which `impatient` leaves
KNOWN_KINDS = (*EXPONENTS, "tit_for_tat")
ACCEPT, LEAVE = "accept", "leave"


@dataclass(frozen=True)
class Answer:
    """What a party does: an offer, or one of the two words."""

    move: str
    price: int | None = None
    """Of an offer."""


def answer(scenario: Scenario, offers: Sequence[int]) -> Answer:
    """The counterpart's answer to the last of the measured party's `offers`, of which there is one
    a round.

    It accepts what is at least as good as what it would ask for next, and in the last round
    whatever is within its limit; otherwise it leaves then.
    """
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
    """The price that the counterpart asks for after these offers."""
    if scenario.kind == "tit_for_tat":
        conceded = _reciprocated(scenario, offers)
    else:
        conceded = (len(offers) / scenario.rounds) ** (1 / EXPONENTS[scenario.kind])
    other = scenario.other
    # Down to whole prices in its own favour: it never concedes more than the formula says.
    kept = int(min(1.0, conceded) * other.gain(scenario.opening))
    return scenario.opening - other.direction * kept


def _reciprocated(scenario: Scenario, offers: Sequence[int]) -> float:
    """The share of its way that tit for tat has conceded."""
    way = max(1, scenario.other.gain(scenario.opening))
    total = LEAST_CONCESSION
    for before, after in pairwise(offers):
        given = scenario.other.direction * (after - before)
        total += max(LEAST_CONCESSION, given / way)
    return total
