"""ThunderAgent's rule, with its bugs."""

import time
from typing import Any

import pytest

from tests.serving.scheduling.world import World, running
from tutti.tasks.serving.scheduling import CLIENT_GONE, ThunderAgent, make_policy
from tutti.tasks.serving.scheduling.thunderagent import ThunderAgentState


def world(*capacities: int | None, **options: Any) -> World:
    return World(ThunderAgent(**options), *capacities)


def state(place: World, program: str) -> ThunderAgentState:
    note = place.program(program).note
    assert isinstance(note, ThunderAgentState)
    return note


def paused(place: World) -> list[str]:
    return [name for name, program in place.ledger.programs.items() if not program.note.engine]


def test_new_programs_go_where_least_is_booked_while_they_fit() -> None:
    place = world(2000, 2000)
    first, second = place.arrive("a", 1000), place.arrive("b", 500)
    third, fourth = place.arrive("c", 1000), place.arrive("d", 1500)
    assert [first.engine, second.engine, third.engine] == [*place.engines, place.engines[1]]
    assert fourth.engine is None
    assert place.policy.booked_tokens(place.engines[0]) == 1100
    assert place.policy.booked_tokens(place.engines[1]) == 1700
    assert "paused with 1500 tokens" in place.policy.reason(fourth).text


def test_a_tick_resumes_what_fits_and_nothing_happens_between_ticks() -> None:
    place = world(2000)
    first, second = place.arrive("a", 1500), place.arrive("b", 1500)
    place.finish(first)
    assert place.scheduler.release("a", 1.0) == []
    assert place.tick(5) == [second]
    assert second.engine is place.engines[0]


def test_resumption_prefers_waiting_then_new_then_idle_and_small_ones() -> None:
    place = world(10_000)
    for name, tokens in (("idle", 500), ("again", 3000), ("large", 4000)):
        place.step(name, tokens)
    place.step("again", 3000)
    place.scheduler.change_engine(place.engines[0], 0.0, capacity_tokens=1)
    place.tick(5)
    assert sorted(paused(place)) == ["again", "idle", "large"]
    again, new = place.arrive("again", 3000), place.arrive("new", 400)
    large = place.arrive("large", 4000)
    place.scheduler.change_engine(place.engines[0], place.now, capacity_tokens=3700)
    assert place.tick(5) == [again, new]  # 3100 + 500; not `idle`, which is new by its steps
    assert running(again, new, large) == [True, True, False]
    assert sorted(paused(place)) == ["idle", "large"]


def test_the_chosen_are_placed_largest_first_where_most_room_is() -> None:
    place = world(3000, 2000)
    blockers = [place.arrive("x", 2900), place.arrive("y", 1900)]
    small, large = place.arrive("s", 1000), place.arrive("l", 2000)
    for call in blockers:
        place.finish(call)
        place.scheduler.release(call.program.program_id, 0.0)
    place.tick(5)
    assert [large.engine, small.engine] == place.engines


def test_room_of_no_more_than_the_buffer_is_none() -> None:
    """On e0 only the buffer is free: if it counted, two programs would be chosen that do not fit on
    e1, and the larger would go there."""
    place = world(2000, 2000)
    place.arrive("x", 1800)
    shrinks = place.arrive("y", 1900)
    small, large = place.arrive("s", 400), place.arrive("l", 500)
    place.finish(shrinks, total=900)
    assert [place.policy.booked_tokens(engine) for engine in place.engines] == [1900, 1000]
    place.tick(5)
    assert running(small, large) == [True, False]


def test_acting_programs_are_paused_smallest_first_until_the_book_fits() -> None:
    """Growth is detected at the tick; programs in a tool are paused before those that compute."""
    place = world(5000)
    for name, tokens in (("a", 1000), ("b", 500), ("c", 1200)):
        place.step(name, tokens)
    call = place.arrive("r", 1800)
    place.scheduler.progress(call, 500, 1.0)
    assert place.policy.booked_tokens(place.engines[0]) == 5400
    place.tick(5)
    assert paused(place) == ["b"]
    assert not state(place, "r").marked
    assert [event[:2] for event in place.log if event[0] == "pause"] == [("pause", "b")]


def test_over_marking() -> None:
    """With 8 tokens too many, all ten programs are marked and paused when their calls end, although
    one would suffice."""
    place = world(11_000)
    calls = [place.arrive(f"p{number}", 1000) for number in range(10)]
    assert all(running(*calls))
    place.scheduler.change_engine(place.engines[0], 0.0, capacity_tokens=10_992)
    for _ in range(2):
        place.tick(5)
        assert sum(state(place, f"p{number}").marked for number in range(10)) == 10
    for call in calls:
        place.finish(call)
    assert len(paused(place)) == 10


@pytest.mark.parametrize(("decay", "victims"), [(True, 5), (False, 0)])
def test_decay_mismatch(decay: bool, victims: int) -> None:
    """Programs admitted by decay exceed the undecayed bookings at once: 5 programs are paused for
    one of 5000."""
    place = world(10_500, decay=decay)
    for number in range(9):
        place.step(f"p{number}", 1000)
    large = place.arrive("large", 5000)
    assert large.engine is None
    place.tick(60)
    assert running(large) == [decay]
    assert len([name for name in paused(place) if name != "large"]) == victims


def test_a_program_within_the_buffer_of_capacity() -> None:
    """9,950 of 10,000 with a buffer of 100 fit on no engine, not even on an empty one."""
    place = world(10_000)
    call = place.arrive("a", 9950)
    for _ in range(100):
        place.tick(5)
    assert running(call) == [False]
    place.tick(1800 - place.now)
    assert running(call) == [True]
    assert ("resume", "a", "it has waited for too long") in place.log


def test_a_queue_blocks_arrivals() -> None:
    place = world(10_000)
    assert running(place.arrive("never", 20_000), place.arrive("small", 100)) == [False, False]


def test_parallel_calls_of_one_program() -> None:
    """The second overwrites the first; its end makes the program idle while the first runs."""
    place = world(20_000)
    place.arrive("a", 10_009)
    small = place.arrive("a", 109)
    assert place.policy.booked_tokens(place.engines[0]) == 109 + 100
    place.finish(small, 130)
    assert place.policy.booked_tokens(place.engines[0]) == 130 + 100
    assert not state(place, "a").reasoning


def test_the_order_is_by_size_when_paused() -> None:
    """A program that returns with a larger context keeps the position of its earlier size."""
    place = world(10_000)
    for _ in range(2):
        for name, tokens in (("grown", 2000), ("small", 1000)):
            place.step(name, tokens)
    place.scheduler.change_engine(place.engines[0], 0.0, capacity_tokens=1)
    place.tick(5)
    place.arrive("small", 3000)
    place.arrive("grown", 2000)
    place.scheduler.change_engine(place.engines[0], 0.0, capacity_tokens=3100)
    assert [call.program.program_id for call in place.tick(5)] == ["small"]


def test_a_failed_first_call_counts_as_a_step() -> None:
    place = world(4000)
    blocker = place.arrive("blocker", 3800)
    place.scheduler.withdraw(place.arrive("old", 3000), 1.0, CLIENT_GONE)
    place.arrive("old", 3000)
    place.arrive("fresh", 2000)
    place.finish(blocker)
    place.scheduler.release("blocker", 2.0)
    assert [call.program.program_id for call in place.tick(5)] == ["old"]


def test_a_call_without_usage() -> None:
    """The program is booked as reasoning forever: it cannot be paused, and marking has no
    effect."""
    place = world(10_000)
    call = place.arrive("a", 5000)
    assert place.fail(call) == []
    assert state(place, "a").reasoning
    assert place.policy.booked_tokens(place.engines[0]) == 5100
    place.scheduler.release("a", 1.0)
    assert place.policy.booked_tokens(place.engines[0]) == 0


def test_a_call_given_up_while_paused() -> None:
    place = world(10_000)
    blocker = place.arrive("x", 9000)
    call = place.arrive("ghost", 5000)
    place.scheduler.withdraw(call, 1.0, CLIENT_GONE)
    place.finish(blocker)
    place.scheduler.release("x", 2.0)
    assert place.tick(5) == []
    assert place.policy.booked_tokens(place.engines[0]) == 5100


def test_programs_of_an_engine_that_left_are_resumed_elsewhere() -> None:
    place = world(5000, 5000)
    call = place.arrive("a", 1000)
    engine = call.engine
    assert engine is not None
    place.scheduler.change_engine(engine, 1.0, accepting=False)
    place.finish(call)
    again = place.arrive("a", 1100)
    assert again.engine is None
    assert place.tick(5) == [again]
    assert again.engine is not engine
    assert place.policy.booked_tokens(engine) == 0


def test_a_failover_takes_the_book_along() -> None:
    place = world(5000, 5000)
    call = place.arrive("a", 1000)
    first, second = place.engines
    place.scheduler.move(call, second, 1.0)
    assert [place.policy.booked_tokens(engine) for engine in (first, second)] == [0, 1100]


def test_the_weight_of_acting_programs() -> None:
    place = world(10_000, acting_weight=0.1)
    place.step("a", 5000)
    assert place.policy.booked_tokens(place.engines[0]) == 600


def test_an_endpoint_without_capacity_holds_nobody() -> None:
    place = world(None)
    assert all(running(*[place.arrive(f"p{number}", 10**6) for number in range(5)]))
    place.tick(5)
    assert paused(place) == []


def test_ticks_off_the_beat_do_not_sweep() -> None:
    place = world(1000)
    place.tick(5)
    call = place.arrive("a", 800)
    place.finish(call)
    waiting = place.arrive("b", 800)
    place.scheduler.release("a", place.now)
    assert place.tick(1) == []
    assert place.tick(4) == [waiting]


def test_three_thousand_programs_are_swept_quickly() -> None:
    """Programs are sorted once; the original takes 2 s on its event loop. The best of three counts,
    because garbage collection may fall into one."""
    spent = []
    for _ in range(3):
        place = world(10_000_000)
        for number in range(3000):
            place.step(f"p{number}", 1000 + number % 97)
        place.scheduler.change_engine(place.engines[0], 0.0, capacity_tokens=100)
        started = time.process_time()
        place.tick(5)
        spent.append(time.process_time() - started)
        assert len(paused(place)) == 3000
    assert min(spent) < 0.05


def test_options_without_sense() -> None:
    with pytest.raises(ValueError, match="above 0"):
        make_policy("thunderagent", {"interval_s": 0})
    with pytest.raises(ValueError, match="thunderagent"):
        make_policy("thunderagent", {"no_such_bug": True})
