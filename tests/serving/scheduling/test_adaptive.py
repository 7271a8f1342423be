"""Tests of `adaptive` on manual examples: order of calls, revoked slots, and the effect of new
figures.

Its gain is tested on simulated engines (`tests/serving/simulation/test_adaptive.py`).
"""

import pytest

from tests.serving.scheduling.world import World, running
from tutti.tasks.serving.scheduling import Program, Usage
from tutti.tasks.serving.scheduling.adaptive import (
    MAX_WAIT_S,
    PATIENCE_LEAST_S,
    RENEW_GAPS,
    Adaptive,
)
from tutti.tasks.serving.scheduling.reasons import LEASE_ENDED


def world(capacity: int) -> World:
    """Return one engine after a program whose context did not grow: the forecast equals the held
    tokens."""
    place = World(Adaptive(), capacity)
    for _ in range(2):
        place.step("before", 100)
    place.scheduler.release("before", 0.0)
    return place


def test_a_smaller_call_goes_ahead_for_a_while() -> None:
    """This ends when the first call has waited `patience_s`; then no call overtakes it."""
    place = world(1000)
    runs, first = place.arrive("a", 600), place.arrive("b", 800)
    place.now = PATIENCE_LEAST_S
    early = place.arrive("c", 100)
    place.now = PATIENCE_LEAST_S + 0.1
    late = place.arrive("d", 100)
    assert running(runs, first, early, late) == [True, False, True, False]


def test_a_place_is_taken_from_an_idle_program_once_another_has_waited_too_long() -> None:
    for waited_s, taken in ((MAX_WAIT_S, False), (MAX_WAIT_S + 0.1, True)):
        place = world(1000)
        place.arrive("other", 100)
        runs, first = place.arrive("a", 600), place.arrive("b", 800)
        place.now = waited_s
        place.finish(runs)
        assert running(first) == [taken]
        assert (("pause", "a", "others have waited for too long") in place.log) is taken


@pytest.mark.parametrize(("context_tokens", "keep_s"), [(100, 0.0), (10_000, 0.1)])
def test_nothing_is_held_where_a_found_prefix_saves_little_of_a_calls_time(
    context_tokens: int, keep_s: float
) -> None:
    """The cache takes 10 s to fill and programs return after 0.1 s, so by that alone they would be
    held. Of a call's second, 100 tokens save a hundredth, and 10,000 save all of it."""
    policy = Adaptive()
    place = World(policy, 100_000)
    place.engines[0].prefill_token_s = 1e-4
    place.scheduler.change_engine(place.engines[0], 0.0)
    place.arrive("other")
    for _ in range(RENEW_GAPS + 1):
        call = place.arrive("a", context_tokens)
        place.now += 1.0
        place.scheduler.finish(call, Usage(context_tokens, 0, context_tokens), place.now)
        place.now += 0.1
    assert policy.keep_s == pytest.approx(keep_s)


def test_where_nothing_is_held_the_engine_alone_decides() -> None:
    """Calls are sent to it although their contexts do not fit together."""
    place = world(1000)
    assert isinstance(place.policy, Adaptive)
    place.policy.keep_s = 0.0
    assert running(place.arrive("a", 800), place.arrive("b", 800)) == [True, True]


def test_what_of_a_prompt_could_be_found_is_a_mean_over_calls() -> None:
    """The first call has none, then the 100 and the 200 tokens of the previous call."""
    policy = Adaptive()
    place = World(policy, 10_000)
    for tokens, reusable in ((100, 0.0), (200, 100.0), (300, 150.0)):
        call = place.arrive("a", tokens)
        place.scheduler.finish(call, Usage(tokens, 0, 0), 0.0)
        assert policy._reusable == pytest.approx(reusable)


def test_the_share_of_a_context_that_prompts_begin_with_is_a_mean_over_64_calls() -> None:
    policy = Adaptive()
    place = World(policy, 10_000)
    place.scheduler.finish(place.arrive("a", 100), Usage(100, 0, 0), 0.0)
    call = place.scheduler.arrive("a", "again", 100, 0, 0.0, common=0.5)[0]
    place.scheduler.finish(call, Usage(100, 0, 0), 0.0)
    assert policy._common == pytest.approx(1 - 0.5 / 64)


def test_a_program_without_a_place_goes_to_its_own_engine_first() -> None:
    policy = Adaptive()
    place = World(policy, 100_000, 100_000)
    place.step("a", 100)
    policy._leave(place.program("a").note, 0.0)
    own, other = place.engines
    busy = place.arrive("b", 300), place.arrive("c", 100)
    assert [call.engine for call in busy] == [own, other]
    assert place.arrive("a", 100).engine is own


def test_a_context_of_less_than_a_block_is_not_expected_in_the_cache() -> None:
    policy = Adaptive()
    place = World(policy)
    place.engine(1000, block=16)
    for _ in range(2):
        place.scheduler.finish(place.arrive("a", 10), Usage(10, 0, 10), 0.0)
    assert policy._reuse == 0.0


def test_a_program_is_taken_for_ended_far_beyond_the_longest_gap() -> None:
    """The limit is four times that gap; a program with a call, or away for less, does not count as
    ended."""
    policy = Adaptive()
    for name, idle_since in (("busy", None), ("away", 100.0)):
        program = Program(name, 0.0, calls_done=2, idle_since=idle_since)
        policy._parted[name] = program
    policy._gaps.add(10.0)
    policy._presume_over(1000.0)
    assert list(policy._parted) == ["busy", "away"], "nobody behind one that is there"
    del policy._parted["busy"]
    policy._presume_over(139.9)
    assert list(policy._parted) == ["away"] and policy._lost == 0
    policy._presume_over(140.0)
    assert not policy._parted and policy._lost == 1


def test_programs_that_never_came_back_fade_like_the_gaps() -> None:
    """512 gaps are kept, so lost programs are forgotten at the same rate as gaps."""
    policy = Adaptive()
    World(policy, 1000)
    policy._lost = 64.0
    for number in range(2 * RENEW_GAPS):
        policy._came_back(0.5, float(number))
    assert policy._lost == pytest.approx(64 * (1 - RENEW_GAPS / 512) ** 2)


def test_before_any_gap_and_any_hit_a_place_is_kept_as_long_as_the_cache_takes_to_fill() -> None:
    policy = Adaptive()
    World(policy, 1000)
    policy.price.measured = 1e-3
    policy._renew()
    assert policy.keep_s == pytest.approx(1.0)


def test_an_ended_call_leaves_what_its_context_holds_booked() -> None:
    place = world(1000)
    call = place.arrive("a", 100, output=500)
    assert place.engines[0].note.held_tokens >= 100
    place.finish(call, total=120, completion=20)
    assert place.engines[0].note.held_tokens == 120


def test_released_programs_are_counted_as_ended_and_others_only_if_they_lost_their_place() -> None:
    """A program whose lease expired may continue, so its length is unknown."""
    place = world(1000)
    policy = place.policy
    assert isinstance(policy, Adaptive) and policy.forecast._ended == 1
    for name in ("a", "b"):
        place.step(name, 100)
    place.scheduler.release("a", 0.0)
    assert policy.forecast._ended == 2
    place.scheduler.release("b", 0.0, LEASE_ENDED)
    assert policy.forecast._ended == 2


def test_a_program_that_outgrows_its_forecast_costs_the_newest_idle_one_its_place() -> None:
    place = world(1000)
    grows = place.arrive("grows", 100)
    place.now = 1.0
    place.step("old", 200)
    place.now = 2.0
    place.step("new", 200)
    place.finish(grows, total=700)
    assert [row[:2] for row in place.log if row[0] == "pause"] == [("pause", "new")]
    assert place.engines[0].note.held_tokens == 900
