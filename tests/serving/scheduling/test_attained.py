"""Tests of least attained service: levels, their order, starvation, and room."""

import pytest

from tests.serving.scheduling.world import World, running
from tutti.tasks.serving.scheduling import Call, LeastAttainedService, make_policy


def world(*capacities: int | None, starvation_ratio: float = 5.0) -> World:
    place = World(LeastAttainedService(starvation_ratio=starvation_ratio), *capacities)
    place.now = 100.0
    return place


def serve(place: World, program: str, seconds: float) -> None:
    call = place.arrive(program, 100)
    assert running(call) == [True]
    place.now += seconds
    place.finish(call)


def hold(place: World, *names: str, tokens: int = 600) -> tuple[Call, list[Call]]:
    blocker = place.arrive("blocker", 1000)
    assert running(blocker) == [True]
    return blocker, [place.arrive(name, tokens) for name in names]


def test_levels_grow_by_a_factor() -> None:
    place = world(1000)
    assert isinstance(place.policy, LeastAttainedService)
    levels = []
    for seconds in (0.0, 1.9, 0.2, 3.8, 0.2, 7.8, 0.2, 10_000.0):
        serve(place, "a", seconds)
        levels.append(place.policy.level(place.program("a")))
    assert levels == [0, 0, 1, 1, 2, 2, 3, 7]


def test_the_least_served_program_goes_first() -> None:
    place = world(1000)
    serve(place, "long", 10.0)
    serve(place, "short", 1.0)
    blocker, (long, short, new) = hold(place, "long", "short", "new")
    assert "level 2, 3 wait" in place.policy.reason(long).text
    assert place.finish(blocker) == [short]
    assert place.finish(short) == [new]
    assert place.finish(new) == [long]


def test_the_first_is_not_overtaken_for_being_large() -> None:
    place = world(1000)
    running_call = place.arrive("a", 500)
    large, small = place.arrive("b", 900), place.arrive("c", 100)
    assert running(large, small) == [False, False]
    assert place.finish(running_call) == [large, small]


def test_who_waits_long_for_its_service_counts_as_new() -> None:
    """This happens after 5 times its 10 s of service; later calls have their normal level again."""
    place = world(1000)
    serve(place, "long", 10.0)
    blocker, (long, *_) = hold(place, "long")
    place.now += 49
    later = place.arrive("new", 600)
    place.now += 2
    assert place.finish(blocker) == [long]
    assert place.finish(long) == [later]
    assert isinstance(place.policy, LeastAttainedService)
    assert place.policy.level(place.program("long")) == 0


def test_without_enough_wait_new_programs_overtake_for_ever() -> None:
    place = world(1000, starvation_ratio=100.0)
    serve(place, "long", 10.0)
    blocker, (long, *_) = hold(place, "long")
    place.now += 51
    later = place.arrive("new", 600)
    assert place.finish(blocker) == [later]
    assert place.finish(later) == [long]


def test_waits_of_earlier_calls_count_too() -> None:
    place = world(1000, starvation_ratio=1.0)
    serve(place, "long", 10.0)
    for _ in range(2):
        blocker, (long, *_) = hold(place, "long")
        place.now += 6
        new = place.arrive("new", 600)
        first = place.finish(blocker)
        for call in (new, long, new):
            if call.engine is not None and call.ended is None:
                place.finish(call)
    assert first == [long]  # 6 s, then 12 s in all


def test_a_parallel_call_that_ends_demotes_those_that_wait() -> None:
    place = world(1000)
    one = place.arrive("a", 900)
    two = place.arrive("a", 900)
    place.now += 9
    new = place.arrive("b", 900)
    assert place.finish(one) == [new]
    assert place.finish(new) == [two]


def test_own_engine_then_most_room_then_one_that_is_idle() -> None:
    place = world(1000, 2000)
    assert place.arrive("x", 700).engine is place.engines[1]
    assert place.arrive("x", 400).engine is place.engines[1]
    own = place.arrive("a", 300)
    assert own.engine is place.engines[0]
    place.finish(own)
    assert place.arrive("a", 300).engine is place.engines[0]
    assert place.arrive("a", 800).engine is place.engines[1]
    huge = place.arrive("huge", 9000)
    assert running(huge) == [False]
    for call in list(place.engines[0].running.values()):
        place.finish(call)
    assert huge.engine is place.engines[0]


def test_capacity_is_booked_in_blocks() -> None:
    place = world()
    engine = place.engine(96, block=16)
    assert all(running(*[place.arrive(f"p{number}", 17) for number in range(3)]))
    assert place.policy.booked_tokens(engine) == 96
    assert running(place.arrive("more", 1)) == [False]


def test_options_without_sense() -> None:
    with pytest.raises(ValueError, match=r"growth .* above 1"):
        make_policy("least_attained_service", {"growth": 1.0})
