"""Tests of `adaptive`'s account of an engine: cached tokens of ended programs, and for how long."""

import pytest

from tutti.tasks.serving.scheduling import EngineState, Program
from tutti.tasks.serving.scheduling.account import LEVEL_START, LOOKS, Account, Place
from tutti.tasks.serving.scheduling.forecast import HORIZON

CAPACITY = 1000


@pytest.fixture
def account() -> Account:
    """Return an account with a program of 500 tokens, idle since 10 s, and one of 300 tokens that
    ended at 20 s."""
    account = Account(EngineState("e", CAPACITY, block_tokens=1))
    for name, tokens in (("idle", 500), ("over", 300)):
        place = Place(Program(name, 0.0), account, 0.0)
        account.enter(place)
        account.hold(place, tokens)
    idle = account.places["idle"]
    idle.program.idle_since = 10.0
    account.idle["idle"] = idle
    account.leave(account.places["over"], 20.0)
    return account


def looked_back(account: Account, now: float, idle_s: float, times: int = 40 * LOOKS) -> float:
    """Return the tokens left by ended programs after the number of samples that the average
    needs."""
    for _ in range(times):
        account.look_back(now, idle_s)
    return account.lingering_tokens


def test_tokens_of_ended_programs_lie_in_the_cache_until_idle_ones_are_used(
    account: Account,
) -> None:
    """The engine evicts the idle program's prefix first, so the room is smaller by these tokens."""
    assert account.held_tokens == 500
    assert looked_back(account, 30.0, 100.0, times=1) == pytest.approx(300 / LOOKS)
    assert looked_back(account, 30.0, 100.0) == pytest.approx(300)
    assert account.budget() == pytest.approx(LEVEL_START * CAPACITY - 300)
    assert account.room() == pytest.approx(account.budget() - 500)
    account.places["idle"].program.idle_since = 21.0  # it was used after the other had ended
    assert looked_back(account, 30.0, 100.0) == pytest.approx(0)


def test_programs_that_are_away_for_long_are_not_waited_for(account: Account) -> None:
    assert looked_back(account, 30.0, 11.0) == pytest.approx(300)
    assert looked_back(account, 30.0, 9.0) == pytest.approx(0)


def test_without_idle_programs_nothing_lingers(account: Account) -> None:
    account.idle.clear()
    assert looked_back(account, 30.0, 100.0) == pytest.approx(0)


def test_places_and_what_ended_programs_left_may_hold_more_than_there_is(account: Account) -> None:
    assert not account.over()
    account.hold(account.places["idle"], 700)
    assert not account.over()
    looked_back(account, 30.0, 100.0)
    account.hold(account.places["idle"], 701)
    assert account.over()


def test_a_place_that_is_left_takes_its_demand_along() -> None:
    account = Account(EngineState("e", CAPACITY, block_tokens=1))
    for name in ("stays", "leaves"):
        place = Place(Program(name, 0.0), account, 0.0)
        account.enter(place)
        account.book(place, [7.0] * len(HORIZON))
    account.leave(account.places["leaves"], 1.0)
    assert account.demand == [7.0] * len(HORIZON)
    account.leave(account.places["stays"], 1.0)
    assert account.demand == [0.0] * len(HORIZON)


def test_demand_is_none_without_places() -> None:
    """This holds despite rounding: 0.1 + 0.2 - 0.1 - 0.2 is not 0."""
    account = Account(EngineState("e", CAPACITY, block_tokens=1))
    for tokens in (0.1, 0.2):
        place = Place(Program(str(tokens), 0.0), account, 0.0)
        account.enter(place)
        account.book(place, [tokens] * len(HORIZON))
    for place in list(account.places.values()):
        account.leave(place, 1.0)
    assert account.demand == [0.0] * len(HORIZON)


def test_only_new_preemptions_lower_the_level(account: Account) -> None:
    account._turn = 0
    account.preempted(5.0)
    account.preempted(5.0)
    assert account.level == LEVEL_START, "of those before the first sample nobody knows"
    account.preempted(6.0)
    assert account.level < LEVEL_START
