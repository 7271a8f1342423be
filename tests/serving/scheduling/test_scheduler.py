"""Tests of the ledger and the scheduler under policies that hold no call or admit one program."""

from collections.abc import Iterable

import pytest

from tests.serving.scheduling.world import LATE, World, running
from tutti.tasks.serving.scheduling import (
    CLIENT_GONE,
    POLICIES,
    Call,
    CapPolicy,
    EngineState,
    LeastAttainedService,
    Policy,
    Program,
    ReasonCode,
    Usage,
    make_policy,
)
from tutti.tasks.serving.scheduling.policy import Admission


def booked(place: World) -> list[int]:
    return [place.policy.booked_tokens(engine) for engine in place.engines]


def empty(place: World) -> bool:
    ledger = place.ledger
    calls = [*ledger.waiting, *(call for e in place.engines for call in e.running)]
    programs = [p for p in ledger.programs.values() if p.running or p.waiting]
    return not calls and not programs and not any(booked(place))


def test_parallel_calls_of_one_program_are_booked_each() -> None:
    place = World(Policy(), 20_000)
    large, small = place.arrive("a", 10_000, 9), place.arrive("a", 100, 9)
    assert booked(place) == [10_118]
    place.finish(small, 130)
    assert booked(place) == [10_009]
    assert place.program("a").context_tokens == 130
    place.finish(large, 10_009)
    assert place.program("a").context_tokens == 10_009
    assert empty(place)


def test_the_longest_of_parallel_calls_is_the_context() -> None:
    """A short side call does not shorten the prefix while a long one runs."""
    place = World(Policy(), 20_000)
    place.step("a", 500)
    one, two = place.arrive("a", 600), place.arrive("a", 50)
    assert (one.previous_tokens, two.previous_tokens) == (500, 500)
    place.finish(two, 60)
    assert place.program("a").context_tokens == 500
    place.finish(one, 700)
    assert place.program("a").context_tokens == 700


def test_the_last_usage_is_the_usage() -> None:
    """The usage at the end replaces that of the stream."""
    place = World(Policy(), 1000)
    call = place.arrive("a", 100, 50)
    place.scheduler.progress(call, 20, 0.5)
    assert booked(place) == [150]
    place.scheduler.progress(call, 80, 1.0)
    assert booked(place) == [180]
    place.scheduler.finish(call, Usage(110, 90, 64), 2.0)
    assert place.program("a").context_tokens == 200
    assert place.engines[0].allocated_tokens == 136
    assert empty(place)


def test_a_failure_without_usage_leaves_nothing() -> None:
    place = World(Policy(), 1000)
    call = place.arrive("a", 500)
    place.now = 3.0
    place.fail(call)
    program = place.program("a")
    assert (program.context_tokens, program.calls_done, program.idle_since) == (0, 0, 3.0)
    assert place.engines[0].allocated_tokens == 0
    assert empty(place)
    assert place.arrive("a", 500).first


def test_a_call_ends_once() -> None:
    place = World(Policy(), 1000)
    call = place.arrive("a", 100)
    place.finish(call)
    before = place.program("a").calls_done
    assert place.finish(call) == []
    assert place.fail(call) == []
    assert place.scheduler.withdraw(call, 1.0, LATE) == []
    assert place.program("a").calls_done == before
    assert empty(place)


def test_withdrawing_while_waiting() -> None:
    """The call's program keeps its other calls and becomes idle after the last of them."""
    place = World(CapPolicy(1), 1000)
    blocker, one, two = place.arrive("x"), place.arrive("a"), place.arrive("a")
    place.now = 2.0
    place.scheduler.withdraw(one, 2.0, CLIENT_GONE)
    program = place.program("a")
    assert (list(program.waiting), program.idle_since) == ([two.call_id], None)
    place.scheduler.withdraw(two, 3.0, LATE)
    assert (program.idle_since, program.held_s) == (3.0, 5.0)
    assert [event for event, name, _ in place.log if name == "a"] == [
        *("hold", "hold", "disconnect", "expire")
    ]
    assert place.codes[-2:] == [ReasonCode.CLIENT_GONE, ReasonCode.HELD_TOO_LONG]
    assert running(blocker, one, two) == [True, False, False]
    assert one.ended == 2.0


def test_release_ends_the_program_and_an_unknown_one_changes_nothing() -> None:
    place = World(Policy(), 1000)
    place.step("a", 100)
    assert place.scheduler.release("stranger", 1.0) == []
    assert place.scheduler.release("a", 1.0) == []
    assert place.scheduler.release("a", 1.0) == []
    assert place.ledger.programs == {}
    assert place.log == [("release", "a", "release")]


def test_releasing_a_program_with_calls_is_the_callers_mistake() -> None:
    place = World(Policy(), 1000)
    place.arrive("a")
    with pytest.raises(AssertionError, match="a still has calls"):
        place.scheduler.release("a", 1.0)


def test_idle_programs_are_over_after_the_lease() -> None:
    place = World(CapPolicy(1), 1000, lease_s=10.0)
    place.step("idle", 100)
    place.now = 5.0
    held = place.arrive("held", 100)
    place.scheduler.expire_idle(10.0)
    assert sorted(place.ledger.programs) == ["held", "idle"]
    assert place.scheduler.expire_idle(10.1) == [held]
    assert place.scheduler.expire_idle(1000.0) == []
    assert list(place.ledger.programs) == ["held"]
    assert ("expire", "idle", "idle lease ended") in place.log


def test_an_engine_that_left_takes_nothing_along() -> None:
    place = World(Policy(), 1000, 1000)
    call = place.arrive("a", 100)
    first, second = place.engines
    assert call.engine is first
    place.scheduler.remove_engine(first, 1.0)
    assert place.program("a").engine is None
    again = place.arrive("a", 100)
    assert again.engine is second
    assert again.previous_tokens == 0
    place.fail(call)
    place.finish(again)
    assert empty(place)


def test_calls_wait_while_no_engine_accepts() -> None:
    place = World(Policy(), 1000)
    place.scheduler.change_engine(place.engines[0], 0.0, accepting=False)
    calls = [place.arrive("a"), place.arrive("b")]
    assert "no engine accepts calls" in place.log[0]
    assert place.scheduler.change_engine(place.engines[0], 1.0, accepting=True) == calls
    assert place.program("a").held_s == 1.0


def test_the_most_calls_of_an_engine() -> None:
    place = World(Policy())
    engine = place.engine(None, max_calls=2)
    calls = [place.arrive(name) for name in "abc"]
    assert running(*calls) == [True, True, False]
    assert place.finish(calls[0]) == [calls[2]]
    assert len(engine.running) == 2


def test_a_restart_ages_every_prefix() -> None:
    place = World(Policy(), 1000)
    place.step("a", 300)
    place.scheduler.change_engine(place.engines[0], 1.0, restarted=True, capacity_tokens=800)
    age = place.engines[0].allocated_tokens - place.program("a").last_use_tokens
    assert age >= 800


def test_a_prompt_is_taken_to_begin_with_all_that_was_before_it() -> None:
    """The caller may report that a smaller share of it is unchanged."""
    place = World(Policy(), 1000)
    assert place.arrive("a", 100).common == 1.0
    assert place.scheduler.arrive("a", "told", 100, 0, 0.0, common=0.25)[0].common == 0.25


def test_a_prefix_may_be_cached_until_the_whole_cache_was_written_since() -> None:
    """A prefix always may be cached if the size of the cache is unknown, and never on an engine
    that left."""
    place = World(Policy(), 1000)
    place.step("a", 300)
    program, found = place.program("a"), []
    for tokens in (1, 998, 1):
        place.step("b", tokens)
        found.append(program.may_be_cached)
    assert found == [True, True, False]
    place.engines[0].capacity_tokens = None
    assert program.may_be_cached
    place.scheduler.remove_engine(place.engines[0], 0.0)
    assert not program.may_be_cached


def test_failover_moves_a_call() -> None:
    place = World(Policy(), 1000, 1000)
    call = place.arrive("a", 100)
    first, second = place.engines
    place.scheduler.move(call, second, 2.0)
    assert (list(first.running), list(second.running)) == ([], [call.call_id])
    assert booked(place) == [0, 100]
    place.now = 3.0
    place.finish(call)
    assert place.program("a").attained_s == 1.0
    assert empty(place)


def test_a_429_puts_a_call_back() -> None:
    place = World(Policy())
    engine = place.engine(1000)
    call = place.arrive("a", 100)
    engine.accepting = False
    assert place.scheduler.requeue(call, 1.0) == []
    assert place.policy.booked_tokens(engine) == 0
    assert running(call) == [False]
    assert place.scheduler.change_engine(engine, 2.0, accepting=True) == [call]
    place.finish(call)
    assert place.program("a").calls_done == 1
    assert place.scheduler.requeue(call, 3.0) == []


def test_blocks_and_needs() -> None:
    """Needs are whole blocks; produced tokens count if there are more than predicted."""
    engine = EngineState("e", 100, block_tokens=16)
    assert [engine.blocks(tokens) for tokens in (0, 1, 16, 17)] == [0, 16, 16, 32]
    call = Call("c", Program("p", 0.0), 0.0, 10, 5)
    assert call.need_tokens == 15
    call.produced = 9
    assert call.need_tokens == 19


def test_policies_are_made_by_name() -> None:
    """An unknown name or option is an error immediately, not at the first call."""
    assert isinstance(make_policy("cap", {"limit": 3}), CapPolicy)
    known = {"passthrough", "cap", "adaptive", "thunderagent", "continuum"}
    assert set(POLICIES) >= known | {"least_attained_service"}
    with pytest.raises(ValueError, match="no policy 'fastest'"):
        make_policy("fastest")
    with pytest.raises(ValueError, match="policy cap"):
        make_policy("cap", {"limits": 3})
    with pytest.raises(ValueError, match="at least 1"):
        make_policy("cap", {"limit": 0})


def test_service_at_time_zero_counts() -> None:
    place = World(Policy(), 1000)
    call = place.arrive("a")
    place.now = 4.0
    place.finish(call)
    assert place.program("a").attained_s == 4.0


def test_a_program_that_waits_is_not_idle() -> None:
    """Otherwise its lease could expire while it is held, and the scheduler would crash."""
    place = World(CapPolicy(1), 1000, lease_s=10.0)
    place.step("a", 100)
    place.scheduler.change_engine(place.engines[0], 1.0, accepting=False)
    place.arrive("a")
    assert place.program("a").idle_since is None
    assert place.scheduler.expire_idle(1000.0) == []


def test_an_ended_call_is_not_moved() -> None:
    """If a client disconnects just before a failover, the call would otherwise run forever."""
    place = World(Policy(), 1000, 1000)
    call = place.arrive("a")
    place.fail(call)
    place.scheduler.move(call, place.engines[1], 1.0)
    assert empty(place)


def test_a_requeued_call_has_its_old_turn() -> None:
    place = World(Policy())
    engine = place.engine(1000)
    first = place.arrive("a")
    engine.accepting = False
    second = place.arrive("b")
    place.scheduler.requeue(first, 1.0)
    assert place.scheduler.change_engine(engine, 2.0, accepting=True) == [first, second]


def test_a_requeued_call_was_held_only_while_it_was() -> None:
    place = World(Policy())
    engine = place.engine(1000)
    call = place.arrive("a")
    engine.accepting = False
    place.scheduler.requeue(call, 5.0)
    place.scheduler.change_engine(engine, 7.0, accepting=True)
    assert place.program("a").held_s == 2.0


def test_what_comes_after_the_end_changes_nothing() -> None:
    place = World(Policy(), 1000)
    call = place.arrive("a", 100, 10)
    place.finish(call)
    place.scheduler.progress(call, 50, 1.0)
    place.scheduler.first_token(call, 1.0)
    assert (call.produced, call.first_token) == (0, None)


def test_a_failover_lets_those_in_who_waited_for_its_engine() -> None:
    place = World(LeastAttainedService(), 1000, 1000)
    first = place.arrive("a", 900)
    place.arrive("b", 900)
    held = place.arrive("c", 900)
    assert running(held) == [False]
    place.scheduler.move(first, place.engines[1], 1.0)
    assert running(held) == [True]


def test_a_second_call_of_the_same_id_is_the_callers_mistake() -> None:
    place = World(CapPolicy(1), 1000)
    place.scheduler.arrive("x", "call", 1, 1, 0.0)
    with pytest.raises(AssertionError, match="call"):
        place.scheduler.arrive("y", "call", 1, 1, 0.0)


def test_a_policy_that_fails_at_an_arrival_takes_only_that_call_with_it() -> None:
    """Calls that already wait are not ended by it; a failure at another event concerns all."""

    class Failing(CapPolicy):
        fails = False

        def admit(self, now: float) -> Iterable[Admission]:
            if self.fails:
                raise RuntimeError("a bug")
            return super().admit(now)

    policy = Failing(limit=1)
    place, told = World(policy, 1000), list[list[Call]]()
    place.scheduler.on_fault = lambda error, calls: told.append(calls)
    runs, waits = place.arrive("a"), place.arrive("b")
    assert running(runs, waits) == [True, False]
    policy.fails = True
    late = place.arrive("c")
    assert told == [[late]]
    place.tick(1.0)
    assert told[1:] == [[waits, late]]


def test_a_program_that_still_has_a_call_waiting_is_not_idle() -> None:
    place = World(make_policy("passthrough"), None, lease_s=10.0)
    (engine,) = place.engines
    runs = place.arrive("a")
    place.scheduler.change_engine(engine, 0.0, accepting=False)
    waits = place.arrive("a")
    assert running(runs, waits) == [True, False]
    place.finish(runs)
    assert place.program("a").idle_since is None
    assert place.scheduler.expired(100.0) == []
