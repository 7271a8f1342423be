"""Policies as pure state machines: whatever the order of events, limits and turns are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.serving.gateway.policies import POLICIES, Cap, Passthrough, make_policy

PROGRAMS = st.sampled_from("abcdefgh")
EVENTS = st.lists(st.tuples(st.sampled_from(["arrive", "release"]), PROGRAMS), max_size=60)


@given(st.integers(1, 4), EVENTS)
def test_cap_keeps_its_limit_and_the_order_of_arrival(
    limit: int, events: list[tuple[str, str]]
) -> None:
    """After every event: never above the limit, no free place while one waits, first come first
    served, and nobody admitted twice, checked against a list that is the queue by definition."""
    policy, inside, queue = Cap(limit), set[str](), list[str]()
    for event, program in events:
        if event == "arrive":
            allowed = policy.arrive(program)
            if program not in inside and program not in queue:
                (queue.append if len(inside) >= limit else inside.add)(program)
            assert allowed == (program in inside)
        else:
            following = policy.release(program)
            inside.discard(program)
            queue = [waiting for waiting in queue if waiting != program]
            free = limit - len(inside)
            expected, queue = queue[:free], queue[free:]
            assert following == expected
            assert not inside & set(following)
            inside |= set(following)
        assert policy.admitted == inside
        assert list(policy.waiting) == queue
        assert len(inside) <= limit
        assert not queue or len(inside) == limit


@given(st.integers(1, 5), st.lists(PROGRAMS, unique=True, max_size=8))
def test_everyone_who_waits_is_admitted_in_the_end(limit: int, programs: list[str]) -> None:
    """Releasing the admitted, oldest first, lets every program in exactly once, in order."""
    policy = Cap(limit)
    admitted = [program for program in programs if policy.arrive(program)]
    for program in admitted:  # grows while we walk it
        admitted += policy.release(program)
    assert admitted == programs
    assert not policy.admitted
    assert not policy.waiting


def test_releasing_a_waiting_program_gives_up_its_wait() -> None:
    """A client that went away must not take a place later."""
    policy = Cap(1)
    assert policy.arrive("a")
    assert not policy.arrive("b")
    assert not policy.arrive("c")
    assert policy.release("b") == []
    assert policy.release("a") == ["c"]


def test_an_admitted_program_keeps_its_place_between_calls() -> None:
    """Its prefix stays in the engine's cache only if nobody takes its turn."""
    policy = Cap(1)
    assert policy.arrive("a")
    assert not policy.arrive("b")
    assert policy.arrive("a")
    assert not policy.arrive("b")


def test_a_second_call_of_a_waiting_program_keeps_its_turn() -> None:
    """Calling again does not send a program to the end of the queue."""
    policy = Cap(1)
    for program in "abcb":
        policy.arrive(program)
    assert policy.release("a") == ["b"]


def test_releasing_an_unknown_program_changes_nothing() -> None:
    """Late or doubled releases come from clients that retry."""
    policy = Cap(1)
    policy.arrive("a")
    policy.arrive("b")
    assert policy.release("stranger") == []
    assert policy.admitted == {"a"}


@given(EVENTS)
def test_passthrough_never_holds(events: list[tuple[str, str]]) -> None:
    """The engine alone decides."""
    policy = Passthrough()
    for event, program in events:
        if event == "arrive":
            assert policy.arrive(program)
        else:
            assert policy.release(program) == []


def test_policies_are_made_by_name() -> None:
    """An unknown name or a limit without sense is an error at once, not at the first call."""
    assert isinstance(make_policy("cap", 3), Cap)
    assert set(POLICIES) >= {"passthrough", "cap"}
    with pytest.raises(KeyError):
        make_policy("fastest", 3)
    with pytest.raises(ValueError, match="at least 1"):
        make_policy("cap", 0)
