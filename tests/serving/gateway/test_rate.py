"""Tests of a provider's rate limits per minute, the pause that an engine requests, and a limit on
the number of programs."""

import asyncio
import time

import pytest

from tests.serving.conftest import released
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import COMPLETION, ReceivedRequest, Wire, whole
from tutti.tasks.serving.gateway.endpoints.endpoint import (
    ASK_AGAIN_S,
    LONGEST_PAUSE_S,
    retry_after_s,
)
from tutti.tasks.serving.scheduling import EngineState, Policy, Scheduler, SchedulerLimits


async def test_calls_a_minute_are_kept_below_a_providers_limit(make_raw: MakeRaw) -> None:
    """Calls are sent one by one at the rate, by a timer and not by the next call; a change of cell
    gives no second allowance."""
    bench = await make_raw(endpoint={"requests_per_minute": 240, "measure": False})
    at = list[float]()

    async def reply(asked: ReceivedRequest, wire: Wire) -> None:
        if asked.path == "/v1/chat/completions":  # else it is the gateway's own question
            at.append(time.monotonic())
        await wire.write(whole(COMPLETION))

    bench.engine.reply = reply
    began = time.monotonic()
    calls = [asyncio.create_task(bench.chat(f"p{number}")) for number in range(7)]
    assert {(await call).status for call in calls} == {200}
    assert at[6] - began >= 0.75, "after a second's share, one each quarter of a second"
    rate = bench.gateway.pools.find("engine:1")[1].engine.rate
    await bench.begin()
    assert rate is not None and bench.gateway.pools.find("engine:1")[1].engine.rate is rate
    await released(bench.gateway)


@pytest.mark.parametrize(
    ("value", "pause_s"),
    [
        (b"0.2", 0.2),
        (b"300", LONGEST_PAUSE_S),
        (b"301", ASK_AGAIN_S),
        (b"999999999999", ASK_AGAIN_S),
        (b"inf", ASK_AGAIN_S),
        (b"nan", None),
        (b"-1", None),
        (b"Wed, 21 Oct 2020 07:28:00 GMT", 0.0),
    ],
)
def test_a_pause_is_kept_up_to_a_bound(value: bytes, pause_s: float | None) -> None:
    """After the bound the endpoint is tried again in a minute; it used to be paused for 600 s."""
    assert retry_after_s([(b"Retry-After", value)]) == pause_s


async def test_the_longest_idle_goes_when_there_are_too_many(make_raw: MakeRaw) -> None:
    bench = await make_raw()
    (pool,) = bench.gateway.pools.by_name.values()
    pool.scheduler.limits = SchedulerLimits(programs=3)
    for name in ("a", "b", "c", "b", "d", "e"):
        assert (await bench.chat(name)).status == 200
    assert list(bench.programs) == ["b", "d", "e"]
    columns = "program_id, reason_code, reason"
    expired = await bench.rows(f"select {columns} from gateway_events where event='expire'")
    assert [row["program_id"] for row in expired] == ["a", "c"]
    assert {row["reason"] for row in expired} == {"too many programs"}
    assert {row["reason_code"] for row in expired} == {"crowded_out"}
    await released(bench.gateway)


def test_idle_programs_are_kept_in_order() -> None:
    """The oldest and the expired are therefore found without a search of all."""
    scheduler = Scheduler(Policy(), SchedulerLimits(idle_lease_s=10.0, programs=2))
    scheduler.add_engine(EngineState("e"), 0.0)
    calls = {}
    for at, name in enumerate(("a", "b", "c")):
        calls[name], _ = scheduler.arrive(name, f"{name}1", 1, 1, float(at))
    assert scheduler.crowded_out() == []
    for at, name in ((3, "b"), (4, "a"), (5, "c")):
        scheduler.finish(calls[name], None, float(at))
    assert list(scheduler.ledger.idle) == ["b", "a", "c"] and scheduler.crowded_out() == ["b"]
    scheduler.arrive("b", "b2", 1, 1, 6.0)
    assert list(scheduler.ledger.idle) == ["a", "c"] and scheduler.crowded_out() == ["a"]
    assert scheduler.expired(14.5) == ["a"] and scheduler.expired(16.0) == ["a", "c"]
    scheduler.release("a", 7.0)
    assert list(scheduler.ledger.idle) == ["c"]
