"""Tests of `cap`: slots, their order, and their release."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tests.serving.scheduling.world import LATE, World, running
from tutti.tasks.serving.scheduling import CLIENT_GONE, Call, CapPolicy

PROGRAMS = st.sampled_from("abcdefgh")
EVENTS = st.lists(st.tuples(st.sampled_from(["arrive", "release"]), PROGRAMS), max_size=60)


def end(place: World, name: str) -> None:
    program = place.ledger.programs.get(name)
    if program is None:
        return
    for call in [*program.waiting.values(), *program.running.values()]:
        if call.engine is None:
            place.scheduler.withdraw(call, place.now, LATE)
        else:
            place.fail(call)
    place.scheduler.release(name, place.now)


@given(st.integers(1, 4), EVENTS)
def test_the_limit_and_the_order_of_arrival_are_kept(
    limit: int, events: list[tuple[str, str]]
) -> None:
    """After every event the number of programs is within the limit, no slot is free while one
    waits, and service is first come first served, checked against a list that is the queue by
    definition."""
    place, inside, queue = World(CapPolicy(limit), None), list[str](), list[str]()
    for event, name in events:
        if event == "arrive":
            call = place.arrive(name)
            if name not in inside + queue:
                queue.append(name)
        else:
            end(place, name)
            inside, queue = ([n for n in names if n != name] for names in (inside, queue))
        free = limit - len(inside)
        inside, queue = inside + queue[:free], queue[free:]
        assert isinstance(place.policy, CapPolicy)
        assert place.policy.inside == set(inside)
        assert list(place.policy._queue) == queue
        programs = place.ledger.programs.items()
        assert {name for name, program in programs if program.waiting} == set(queue)
        if event == "arrive":
            assert running(call) == [name in inside]


@given(st.integers(1, 5), st.lists(PROGRAMS, unique=True, max_size=8))
def test_everyone_who_waits_is_admitted_in_the_end(limit: int, names: list[str]) -> None:
    """Releasing the admitted programs, oldest first, admits every program exactly once, in
    order."""
    place = World(CapPolicy(limit), None)
    calls = [place.arrive(name) for name in names]
    assert list(_drain(place, calls)) == names
    assert isinstance(place.policy, CapPolicy)
    assert not place.policy.inside
    assert not place.policy._queue


def _drain(place: World, calls: list[Call]) -> Iterator[str]:
    for call in calls:
        assert running(call) == [True]
        yield call.program.program_id
        end(place, call.program.program_id)


def test_a_program_keeps_its_place_between_calls() -> None:
    """The program's prefix stays in the engine's cache only if no other program takes its slot."""
    place = World(CapPolicy(1), None)
    place.step("a", 100)
    held = place.arrive("b")
    again = place.arrive("a")
    assert running(held, again) == [False, True]
    assert "1 of 1 places taken, 1 wait" in place.policy.reason(held).text


def test_giving_up_a_wait_gives_up_the_turn() -> None:
    """A client that disconnected must not get a slot later; one that calls again keeps its turn."""
    place = World(CapPolicy(1), None)
    first, gone, stays, third = (place.arrive(name) for name in "abbc")
    place.scheduler.withdraw(gone, 1.0, CLIENT_GONE)
    place.finish(first)
    assert place.scheduler.release("a", 1.0) == [stays]
    assert running(third) == [False]
    end(place, "b")
    assert running(third) == [True]


def test_all_calls_of_a_program_that_gets_a_place_go() -> None:
    place = World(CapPolicy(1), None)
    first, one, two = place.arrive("a"), place.arrive("b"), place.arrive("b")
    place.finish(first)
    assert place.scheduler.release("a", 1.0) == [one, two]


def test_a_program_that_never_got_to_call_loses_its_place() -> None:
    place = World(CapPolicy(1), 1000)
    place.scheduler.change_engine(place.engines[0], 0.0, accepting=False)
    gone, held = place.arrive("a"), place.arrive("b")
    place.scheduler.withdraw(gone, 1.0, CLIENT_GONE)
    assert place.scheduler.change_engine(place.engines[0], 2.0, accepting=True) == [held]
