"""Tests of limits of calls and tokens per minute: never exceeded, and no call is held longer than
necessary."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.scheduling.world import World, running
from tutti.tasks.serving.scheduling import POLICIES, Call, Policy, Rate, Usage, make_policy

GAPS = st.lists(st.floats(0.0, 20.0), min_size=1, max_size=120)


def limited(policy: Policy, requests: int | None, tokens: int | None = None) -> World:
    world = World(policy)
    world.now = 1000.0
    engine = world.engine(None)
    engine.rate = Rate.of(requests, tokens)
    return world


def drive(world: World, gaps: Sequence[float]) -> list[Call]:
    """Let programs of one call arrive at these intervals and end at once, until none waits."""
    calls = list[Call]()

    def end(admitted: Sequence[Call]) -> None:
        for call in admitted:
            end(world.scheduler.finish(call, Usage(call.prompt_tokens, 0), world.now))
            end(world.scheduler.release(call.program.program_id, world.now))

    def sleep(until: float) -> None:
        for _ in range(100_000):
            at = world.scheduler.wake_at(world.now)
            if at is None or at > until:
                break
            assert at > world.now, "it is not woken without end"
            world.now = at
            end(world.scheduler.tick(at))
        world.now = max(world.now, until if until < 1e12 else world.now)

    for number, gap in enumerate(gaps):
        sleep(world.now + gap)
        call, admitted = world.scheduler.arrive(f"p{number}", f"c{number}", 100, 0, world.now)
        calls.append(call)
        end(admitted)
    sleep(1e12)
    return calls


@given(GAPS, st.integers(1, 300), st.sampled_from(sorted(POLICIES.keys() - {"thunderagent"})))
def test_no_minute_has_more_calls_than_the_limit(
    gaps: list[float], limit: int, policy: str
) -> None:
    """This holds for any start of the minute and each event-driven policy; every call is admitted
    in the end."""
    world = limited(make_policy(policy, {"limit": 4} if policy == "cap" else {}), limit)
    sent = [call.admitted for call in drive(world, gaps)]
    times = sorted(at for at in sent if at is not None)
    assert len(times) == len(gaps) and not world.ledger.waiting
    for first in times:
        assert sum(first <= at < first + 60.0 - 1e-6 for at in times) <= limit


@given(GAPS, st.integers(1000, 50_000))
def test_no_minute_has_more_tokens_than_the_limit(gaps: list[float], limit: int) -> None:
    """The last call that began in the minute is an exception, because its tokens are not known
    beforehand."""
    world = limited(Policy(), None, limit)
    times = sorted(call.admitted or 0.0 for call in drive(world, gaps))
    for first in times:
        assert sum(100 for at in times if first <= at < first + 60.0 - 1e-6) <= limit + 100


def test_calls_are_spread_over_the_minute() -> None:
    """At sixty per minute, one is sent each second, and no call waits if fewer arrive."""
    world = limited(Policy(), 60)
    sent = [call.admitted for call in drive(world, [0.0] * 5)]
    assert sent == pytest.approx([1000.0, 1001.0, 1002.0, 1003.0, 1004.0])
    world = limited(Policy(), 60)
    assert all(call.admitted == call.arrived for call in drive(world, [1.5] * 20))


def test_the_reason_of_a_hold_is_the_rate() -> None:
    world = limited(Policy(), 30, 90_000)
    assert running(world.arrive("a"), world.arrive("b")) == [True, False]
    said = ("hold", "b", "e0 takes 30 requests and 90000 tokens a minute")
    assert said in world.log
    assert world.scheduler.wake_at(world.now) == pytest.approx(world.now + 2.0)


def test_an_endpoint_without_a_rate_takes_the_others() -> None:
    world = limited(Policy(), 1)
    world.engine(None)
    assert running(*(world.arrive(name) for name in "abc")) == [True, True, True]


def test_a_call_is_charged_what_it_took() -> None:
    """At first it is charged a typical response, not its whole possible context, and then its real
    usage."""
    world = limited(Policy(), None, 60_000)
    rate = world.ledger.engines["e0"].rate
    assert rate is not None and rate.tokens is not None
    call = world.arrive("a", prompt=100, output=65_536)
    assert rate.tokens.level == pytest.approx(1000 - 100 - 256)
    world.finish(call, 150, completion=50)
    assert rate.tokens.level == pytest.approx(1000 - 150)
    assert rate.usual_output == pytest.approx(256 + (50 - 256) * 0.1)
    large = world.arrive("a", prompt=5000, output=0)
    assert large.engine is not None, "one that is larger than a second's share still goes"
    later = world.arrive("b", prompt=10)
    assert later.engine is None
    wait = (world.scheduler.wake_at(world.now) or 0.0) - world.now
    assert wait == pytest.approx(4150 / 1000, rel=0.02)


def test_a_clock_set_back_brings_nothing() -> None:
    rate = Rate.of(60, None)
    assert rate is not None
    rate.fill(100.0)
    rate.take(0, 0)
    rate.fill(50.0)
    assert not rate.open
    rate.fill(51.0)
    assert rate.open


def test_nothing_is_limited_by_default() -> None:
    assert Rate.of(None, None) is None
