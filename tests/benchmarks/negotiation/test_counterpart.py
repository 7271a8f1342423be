"""Tests that programmed counterparts follow their formula, limit and patience."""

import pytest

from tests.benchmarks.negotiation.play import scenarios
from tutti.tasks.benchmarks.negotiation.bargain import answer, demand
from tutti.tasks.benchmarks.negotiation.scenario import Scenario

SELLS = Scenario("s", "buyer", 90, 30, 10, 95, 80, 5, "linear")


def kind(name: str) -> Scenario:
    return Scenario(**{**vars(SELLS), "kind": name})


def test_concessions_by_hand() -> None:
    """From 80 to 30 in five rounds, the linear counterpart concedes 10 a round; the others follow
    (t / 5)^(1 / e)."""
    assert [demand(SELLS, [20] * t) for t in range(6)] == [80, 70, 60, 50, 40, 30]
    # .2^(1/3) = .585, .4^(1/3) = .737
    assert [demand(kind("conceder"), [20] * t) for t in (1, 2)] == [51, 44]
    # .8^4 = .410, .4^4 = .026
    assert [demand(kind("boulware"), [20] * t) for t in (2, 4)] == [79, 60]


def test_tit_for_tat_returns_what_it_is_given() -> None:
    """The first concession is 5 % of its range of 50, then it matches our 10, and then 5 % again
    after no concession."""
    tit = kind("tit_for_tat")
    offers = [20, 30, 30]
    assert [demand(tit, offers[: n + 1]) for n in range(3)] == [78, 68, 65]


def test_the_impatient_leaves_at_the_second_insult() -> None:
    impatient = kind("impatient")
    assert answer(impatient, [20]).move == "offer 70"
    assert answer(impatient, [20, 35]).move == "offer 60"
    assert answer(impatient, [20, 21]).move == "leave"


@pytest.mark.parametrize(("offered", "move"), [(29, "leave"), (30, "accept")])
def test_the_last_round_decides_at_its_limit(offered: int, move: str) -> None:
    assert answer(SELLS, [20, 20, 20, 20, offered]).move == move


def test_none_concedes_beyond_its_limit_or_takes_a_concession_back() -> None:
    for scenario in scenarios():
        own, other = scenario.own, scenario.other
        offers = [own.price(share) for share in (0.9, 0.5, 0.7, 0.1, 0.2, 0.3)]
        asked = [demand(scenario, offers[:t]) for t in range(1, scenario.rounds)]
        gains = [other.gain(price) for price in asked]
        assert gains == sorted(gains, reverse=True) and min(gains) >= 0
