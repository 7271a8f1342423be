"""Tests of Continuum: pins by both rules, the order of waiting calls, and the ends of pins."""

from math import log

import pytest

from tests.serving.scheduling.world import World, running
from tutti.tasks.serving.scheduling import Call, Continuum, Usage, make_policy
from tutti.tasks.serving.scheduling.continuum import ToolGaps


def world(*capacities: int | None, rule: str = "fixed") -> World:
    return World(Continuum(rule=rule), *capacities)


def pinned(place: World) -> dict[str, float]:
    assert isinstance(place.policy, Continuum)
    return {name: pin.until for name, pin in place.policy.pins.items()}


def test_a_tool_never_seen_is_pinned_for_two_seconds() -> None:
    place = world(1000)
    place.step("a", 600)
    assert pinned(place) == {"a": 2.0}
    assert place.policy.booked_tokens(place.engines[0]) == 600
    assert place.policy.wake_at(0.0) == 2.0
    held = place.arrive("b", 500)
    assert not any(running(held))
    assert "1 programs are pinned" in place.policy.reason(held).text
    assert place.tick(1.9) == []
    assert place.tick(0.1) == [held]
    assert pinned(place) == {}


def test_pins_are_by_the_mean_time_of_the_tool() -> None:
    place = world(10_000)
    for name, seconds in (("slow", 10.0), ("fast", 1.0)):
        for _ in range(4):
            place.now += seconds
            place.step(name, 100)
            place.program(name).tool = name
    place.tick(0.5)
    assert list(pinned(place)) == ["fast"]


def test_the_call_of_a_pinned_program_needs_only_what_is_new() -> None:
    place = world(1000)
    place.arrive("old", 10)
    place.step("a", 600)
    first = place.arrive("old", 500)
    again = place.arrive("a", 900)
    assert running(first, again) == [False, True]
    assert pinned(place) == {}
    assert place.finish(again) == []  # it is pinned again, with 900
    assert place.tick(2.0) == [first]


def test_programs_wait_in_the_order_of_their_own_arrival() -> None:
    """A later call of an early program goes ahead; a large first one is not overtaken."""
    place = world(1000)
    for number, name in enumerate("abc"):
        place.now = float(number)
        place.step(name, 10)
    place.tick(10)
    blocker = place.arrive("blocker", 1000)
    order = [place.arrive("c", 100), place.arrive("b", 950), place.arrive("a", 100)]
    assert place.fail(blocker) == [order[2]]
    assert place.finish(order[2]) == [order[1]]
    assert place.fail(order[1]) == [order[0]]


def test_an_expired_pin_holds_while_its_call_waits() -> None:
    place = world(1000)
    other = place.arrive("other", 300)
    place.step("a", 600)
    again = place.arrive("a", 900)
    third = place.arrive("third", 50)
    assert running(again, third) == [False, False]
    place.tick(10)
    assert list(pinned(place)) == ["a"]
    assert place.fail(other) == [again, third]


@pytest.mark.parametrize("rule", ["fixed", "ttl"])
def test_pins_that_wait_for_each_other_do_not_block(rule: str) -> None:
    place = world(1000, rule=rule)
    assert isinstance(place.policy, Continuum)
    place.policy._evicted_s, place.policy._evicted = 10.0, 1  # keeping is worth something
    place.step("a", 500)
    place.now = 0.5
    place.step("b", 450)
    assert sorted(pinned(place)) == ["a", "b"]
    late, early = place.arrive("b", 700), place.arrive("a", 600)
    if rule == "fixed":
        assert running(late, early) == [False, False]
        assert place.policy.wake_at(place.now) == 2.0
        place.now = 2.5
        place.tick()
    assert running(late, early) in ([False, True], [True, False])
    assert pinned(place) == {}


def test_a_program_larger_than_the_engine_runs_alone() -> None:
    place = world(1000)
    place.step("a", 400)
    huge = place.arrive("huge", 5000)
    assert place.tick(1) == []
    assert place.tick(1) == [huge]


def test_running_calls_that_outgrow_their_booking_take_pins() -> None:
    place = world(1000)
    place.step("a", 300)
    place.now = 0.1
    place.step("b", 200)
    call = place.arrive("c", 400, 50)
    place.scheduler.progress(call, 150, 0.2)
    assert list(pinned(place)) == ["a"]  # 400 + 150 + 300 fit
    place.scheduler.progress(call, 300, 0.3)
    assert list(pinned(place)) == ["a"]  # 400 + 300 + 300 just fit
    place.scheduler.progress(call, 700, 0.3)
    assert pinned(place) == {}


def test_no_pin_after_failures_for_parallel_calls_or_without_room() -> None:
    """Only the last call of a program pins it, and only free tokens are pinned."""
    place = world(1000)
    place.fail(place.arrive("a", 100))
    one, two = place.arrive("b", 100), place.arrive("b", 200)
    place.finish(one)
    assert pinned(place) == {}
    place.finish(two, 1100)
    assert pinned(place) == {}


def test_release_draining_and_leaving_unpin() -> None:
    place = world(1000, 1000)
    for name in "abc":
        place.step(name, 400)
    assert len(pinned(place)) == 3
    place.scheduler.release("a", 0.1)
    assert sorted(pinned(place)) == ["b", "c"]
    for name in "bc":
        engine = place.program(name).engine
        assert engine is not None
        place.scheduler.change_engine(engine, 0.2, accepting=False)
    assert pinned(place) == {}
    assert sum(map(place.policy.booked_tokens, place.engines)) == 0


def test_a_pinned_program_waits_for_its_engine_only() -> None:
    place = world(1000, 500)
    place.step("a", 600)
    blocker = place.arrive("x", 350)
    assert blocker.engine is place.engines[1]
    blocker2 = place.arrive("y", 300)
    assert blocker2.engine is place.engines[0]
    again, small = place.arrive("a", 800), place.arrive("z", 100)
    assert running(again, small) == [False, True]
    assert small.engine is place.engines[1]


def test_the_ttl_of_a_tool_seen_often() -> None:
    gaps = ToolGaps()
    for number in range(100):
        gaps.add("tool", 1.0 if number < 60 else 9.0)
    assert gaps.best_s("tool", 5.0) == 1.0  # 0.6 * 5 - 1 = 2 against 1.0 * 5 - 9 < 0
    assert gaps.best_s("tool", 50.0) == 9.0  # 41 against 29
    assert gaps.best_s("tool", 1.5) == 0.0  # nothing gains
    assert gaps.best_s("unseen", 5.0) == pytest.approx(log(5.0))
    assert gaps.best_s("unseen", 0.9) == 0.0


def test_durations_and_names_are_bounded() -> None:
    """An agent chooses the names and durations of its tools."""
    gaps = ToolGaps()
    for number in range(3000):
        gaps.add(f"tool {number}", 5.0)
        gaps.add("one", float(number))
    assert len(gaps._tools) <= 1025
    assert gaps.fixed_s("tool 2999") == 2.0  # never seen, by its name
    assert gaps._tools["one"].sorted == [float(number) for number in range(2488, 3000)]


def test_the_gain_is_measured() -> None:
    """The gain consists of waits of programs that returned unpinned and of seconds to prefill."""
    place = world(1000, rule="ttl")
    call = place.arrive("a", 1000)
    place.scheduler.first_token(call, 2.0)
    place.now = 4.0
    place.scheduler.finish(call, Usage(1000, 0), 4.0)
    assert pinned(place) == {"a": pytest.approx(4.0 + log(2.0))}  # 1000 tokens cost 2 s
    held = _evict_and_return(place)
    place.finish(held, 500)
    # 1 s for 500 tokens, and a wait of 10 s
    assert pinned(place)["a"] - place.now == pytest.approx(log(11.0))


def _evict_and_return(place: World) -> Call:
    place.tick(5.0)
    assert pinned(place) == {}
    blocker = place.arrive("x", 900)
    held = place.arrive("a", 500)
    place.now += 10
    place.fail(blocker)
    assert running(held) == [True]
    return held


def test_unknown_rules() -> None:
    with pytest.raises(ValueError, match="fixed, ttl"):
        make_policy("continuum", {"rule": "best"})


def test_prefilling_is_measured_by_the_tokens_that_were_not_cached() -> None:
    """Half of 1,000 tokens are cached, so a context of 1,000 costs 4 s and not 2."""
    place = world(1000, rule="ttl")
    call = place.arrive("a", 1000)
    place.scheduler.first_token(call, 2.0)
    place.scheduler.finish(call, Usage(1000, 0, cached=500), 4.0)
    assert pinned(place) == {"a": pytest.approx(4.0 + log(4.0))}


def test_a_change_of_an_engine_ends_the_pins_that_no_longer_fit() -> None:
    place = world(1000)
    (engine,) = place.engines
    place.step("a", 600)
    place.scheduler.change_engine(engine, 0.0, capacity_tokens=700)
    assert list(pinned(place)) == ["a"]
    place.scheduler.change_engine(engine, 0.0, capacity_tokens=500)
    assert pinned(place) == {}
    place.step("b", 400)
    assert list(pinned(place)) == ["b"]
    place.scheduler.change_engine(engine, 0.0, accepting=False)
    assert pinned(place) == {}
