"""Tests of engine faults: the client gets an error, the call ends, and nothing stays booked.

Reference bugs 13 (an error leaves a call running for ever), 14 (so does a stream that breaks off)
and 21 (a restarted engine is not noticed, and calls do not go elsewhere).
"""

import asyncio
from typing import Any

import aiohttp
import pytest

from tests.serving.conftest import BOSS, Bench, released, until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import (
    COMPLETION,
    STREAM_HEAD,
    RawEngine,
    ReceivedRequest,
    Wire,
    answering,
    chunk,
    delta,
    event,
    raw_engine,
    streaming,
    whole,
)
from tutti.tasks.serving.wire.connection import ServerLimits

POLICIES = ("passthrough", "cap", "adaptive", "thunderagent", "continuum", "least_attained_service")
OPTIONS = {"cap": 4}


async def hang(_: ReceivedRequest, wire: Wire) -> None:
    """Accept the request and send nothing until the other side gives up."""
    await wire.gone()
    wire.close()


async def reset(_: ReceivedRequest, wire: Wire) -> None:
    wire.reset()


async def reset_amid(_: ReceivedRequest, wire: Wire) -> None:
    await wire.write(STREAM_HEAD + chunk(delta("x")))
    await asyncio.sleep(0.01)
    wire.reset()


async def outcome(bench: Bench, **fields: Any) -> int:
    try:
        answer = await bench.chat("p", **fields)
        await answer.read()
    except aiohttp.ClientError:
        return 0
    return int(answer.status)


@pytest.mark.parametrize("policy", POLICIES)
async def test_whatever_the_engine_does_nothing_stays_booked(
    make_raw: MakeRaw, policy: str
) -> None:
    """Reference bugs 13 and 14 are tested under every policy, with parallel calls of one
    program."""
    bench = await make_raw(policy=policy, limit=OPTIONS.get(policy), upstream_s=0.2)
    faults = {
        answering(whole({"error": "no"}, 500)): 500,
        answering(whole({"error": "no"}, 400)): 400,
        answering(whole(b"{broken")): 200,
        answering(b"no HTTP at all\r\n\r\n"): 502,
        streaming(delta("x"), b"data: {broken\n\n"): 200,
        hang: 504,
        reset_amid: 0,
    }
    endpoint = next(iter(bench.gateway.pools.all_endpoints()))
    for reply, status in faults.items():
        bench.engine.reply = reply
        stream = status in (0,)
        found = await asyncio.gather(*[outcome(bench, stream=stream) for _ in range(2)])
        assert found == [status, status], reply
        endpoint.failures, endpoint.paused_until = 0, 0.0
    bench.engine.reply = answering(whole(COMPLETION))
    assert await outcome(bench) == 200
    await released(bench.gateway)


@pytest.mark.parametrize(
    "reply",
    [
        answering(whole(b"{broken")),
        answering(whole({"error": {"message": "out of memory"}})),
        streaming(delta("x"), event({"error": {"message": "out of memory"}})),
    ],
)
async def test_a_failure_with_status_200_is_recorded_as_one(make_raw: MakeRaw, reply: Any) -> None:
    """The client gets the engine's response; `calls` does not count it as a success."""
    bench = await make_raw()
    bench.engine.reply = reply
    answer = await bench.chat("p", stream=True)
    assert (answer.status, bool(await answer.read())) == (200, True)
    await until(lambda: not bench.gateway.in_flight, "it is over")
    assert [row["status"] for row in await bench.calls()] == ["infra_error"]
    await released(bench.gateway)


async def test_a_watch_that_fails_takes_its_engine_out_of_service(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = await make_raw()
    pools, told = bench.gateway.pools, []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    endpoint = next(iter(pools.all_endpoints()))
    pools.sample_s = 0.01

    async def failing(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(pools, "_round", failing)
    await until(lambda: not endpoint.engine.accepting, "it takes no more calls")
    assert "a bug" in endpoint.pause_reason
    assert [each["message"] for each in told] == [f"the watch of {endpoint.name} failed"]


async def test_an_engine_that_fails_is_passed_over_before_the_first_token(
    make_raw: MakeRaw, engines: tuple[RawEngine, RawEngine]
) -> None:
    """Reference bug 21: after 503, a reset or a closed connection, the client gets one good
    response."""
    bad, good = engines
    bench = await make_raw(bad, good)
    for reply in (answering(whole({"error": "busy"}, 503)), reset, answering(b"garbage\r\n\r\n")):
        bad.reply = reply
        for stream in (False, True):
            good.reply = streaming(delta("x", "stop")) if stream else answering(whole(COMPLETION))
            answer = await bench.chat(stream=stream)
            assert (answer.status, bool(await answer.read())) == (200, True)
        for endpoint in bench.gateway.pools.all_endpoints():
            endpoint.failures, endpoint.paused_until = 0, 0.0
        await until(lambda: all(e.engine.accepting for e in bench.gateway.pools.all_endpoints()),
                    "the circuit is closed")  # fmt: skip
    rows = await bench.calls()
    assert {row["status"] for row in rows} == {"ok"} and {row["retry"] for row in rows} <= {0, 1}
    # A kept connection that is cut unanswered is tried once more before the engine is blamed.
    assert sum(row["retry"] for row in rows) == 6 <= len(bad.asked)
    assert all(row["endpoint"] == "engine:2" for row in rows)
    await released(bench.gateway)


async def test_after_the_first_token_nothing_is_sent_twice(
    make_raw: MakeRaw, engines: tuple[RawEngine, RawEngine]
) -> None:
    """The client has part of a response: its connection is cut, so that it is not taken for
    complete."""
    for engine in engines:
        engine.reply = reset_amid
    bench = await make_raw(*engines)
    with pytest.raises(aiohttp.ClientError):
        await (await bench.chat("p", stream=True)).read()
    assert sum(len(engine.asked) for engine in engines) == 1
    (row,) = await bench.calls()
    assert (row["status"], row["http_status"]) == ("infra_error", 502)
    await released(bench.gateway)


async def test_an_engine_that_hangs_amid_a_stream_is_given_up(make_raw: MakeRaw) -> None:
    """The limit is a silence of `upstream_s` after the start of the response; the engine's
    connection is closed."""
    gone = asyncio.Event()

    async def begin(asked: ReceivedRequest, wire: Wire) -> None:
        await wire.write(STREAM_HEAD + chunk(delta("x")))
        await wire.gone()
        gone.set()
        wire.close()

    bench = await make_raw(upstream_s=0.15)
    bench.engine.reply = begin
    with pytest.raises(aiohttp.ClientError):
        await (await bench.chat("p", stream=True)).read()
    await asyncio.wait_for(gone.wait(), 60)
    (row,) = await bench.calls()
    assert (row["status"], row["http_status"]) == ("infra_error", 504)
    await released(bench.gateway)


async def test_a_killed_engine_that_comes_back_is_known_anew(make_raw: MakeRaw) -> None:
    """Reference bug 21: calls wait for it, its capacity is read again, and the restart is
    counted."""
    bench = await make_raw(hold_s=30.0)
    engine: RawEngine = bench.engine
    (endpoint,) = bench.gateway.pools.all_endpoints()
    assert endpoint.engine.capacity_tokens == engine.capacity
    engine.reply = hang
    running = asyncio.create_task(outcome(bench))
    await until(lambda: engine.asked, "the call runs")
    await engine.kill()
    assert await running == 502
    await until(lambda: not endpoint.engine.accepting, "it is seen to be away")
    waiting = asyncio.create_task(outcome(bench))
    await bench.until_held("p")
    engine.capacity, engine.started_at = 8192, 2e9
    engine.reply = answering(whole(COMPLETION))
    await engine.start()
    assert await asyncio.wait_for(waiting, 60) == 200
    assert endpoint.engine.capacity_tokens == 8192
    assert endpoint.restarts == 1
    await released(bench.gateway)


async def test_an_engine_that_comes_late_is_found(make_raw: MakeRaw) -> None:
    """Reference bug 21: values unknown at the start are discovered later, within a bounded time."""
    engine = RawEngine()
    await engine.start()
    engine.healthy = False
    gone = engine.port
    bench = await make_raw()
    added = await bench.client.post(
        "/engines", json=engine.endpoint("late").model_dump(), headers=BOSS
    )
    assert added.status == 201
    (_, late) = bench.gateway.pools.all_endpoints()
    await asyncio.sleep(0.05)
    assert not late.engine.accepting and late.engine.capacity_tokens is None
    engine.healthy = True
    await until(lambda: late.engine.accepting, "it takes calls")
    assert late.engine.capacity_tokens == engine.capacity and engine.port == gone
    await engine.kill()


async def test_the_circuit_opens_and_closes(make_raw: MakeRaw, monkeypatch: Any) -> None:
    """After three consecutive failures calls wait; after a while the engine is tried again."""
    monkeypatch.setattr("tutti.tasks.serving.gateway.endpoints.endpoint.BREAK_FIRST_S", 0.4)
    bench = await make_raw(sample_s=60.0)
    bench.engine.reply = answering(whole({"error": "no"}, 503))
    assert [await outcome(bench) for _ in range(3)] == [503] * 3
    (endpoint,) = bench.gateway.pools.all_endpoints()
    assert not endpoint.engine.accepting and "3 failures" in endpoint.pause_reason
    listed = await (await bench.client.get("/engines")).json()
    assert not listed[0]["accepting"] and listed[0]["failed_calls"] == 3
    bench.engine.reply = answering(whole(COMPLETION))
    waiting = asyncio.create_task(outcome(bench))
    await bench.until_held("p")
    assert await asyncio.wait_for(waiting, 60) == 200
    assert (endpoint.engine.accepting, endpoint.failures) == (True, 0)
    await released(bench.gateway)


async def test_calls_that_fail_together_are_one_failure_more(make_raw: MakeRaw) -> None:
    """A connection that breaks under many calls must not disable the engine for half a minute."""
    bench = await make_raw(sample_s=60.0)
    bench.engine.reply = hang
    calls = [asyncio.create_task(outcome(bench)) for _ in range(12)]
    await until(lambda: len(bench.engine.asked) == 12, "all run")
    while not all(call.done() for call in calls):  # one on a kept connection is tried once more
        bench.engine.drop()
        await asyncio.sleep(0.01)
    assert {call.result() for call in calls} == {502}
    (endpoint,) = bench.gateway.pools.all_endpoints()
    assert endpoint.failed_calls == 12
    assert endpoint.paused_until - asyncio.get_running_loop().time() <= 1.0
    await released(bench.gateway)


async def test_429_waits_as_long_as_it_is_asked_and_goes_again(make_raw: MakeRaw) -> None:
    """The client gets the final response; other calls wait, too, in their order."""
    bench = await make_raw()
    busy = answering(whole({"error": "slow down"}, 429, "Retry-After: 0.2\r\n"))
    answers = [busy, answering(whole(COMPLETION))]

    async def reply(asked: ReceivedRequest, wire: Wire) -> None:
        await (answers.pop(0) if answers else answering(whole(COMPLETION)))(asked, wire)

    bench.engine.reply = reply
    began = asyncio.get_running_loop().time()
    first = asyncio.create_task(outcome(bench))
    await bench.until_held("p")
    second = asyncio.create_task(bench.chat("q"))
    await bench.until_held("p", "q")
    assert await first == 200 == (await second).status
    assert asyncio.get_running_loop().time() - began >= 0.2
    assert sum(each.path.endswith("/completions") for each in bench.engine.asked) == 3
    rows = {row["attempt_id"]: row for row in await bench.calls()}
    assert (rows["p"]["retry"], rows["p"]["status"]) == (1, "ok")
    await released(bench.gateway)


async def test_429_for_ever_comes_to_the_client(make_raw: MakeRaw) -> None:
    bench = await make_raw()
    bench.engine.reply = answering(whole({"error": "no"}, 429, "Retry-After: 0.01\r\n"))
    answer = await bench.chat("p")
    assert (answer.status, await answer.json()) == (429, {"error": "no"})
    assert answer.headers["Retry-After"] == "0.01"
    assert len(bench.engine.asked) == 4
    (row,) = await bench.calls()
    assert (row["status"], row["retry"]) == ("infra_error", 3)  # of the first send it is 0
    await released(bench.gateway)


@pytest.mark.parametrize("status", [400, 404, 429, 500])
async def test_an_answer_that_is_an_error_is_a_failed_call(make_raw: MakeRaw, status: int) -> None:
    bench = await make_raw()
    bench.engine.reply = answering(whole({"error": "no"}, status, "Retry-After: 0.01\r\n"))
    assert (await bench.chat("p")).status == status
    (endpoint,) = bench.gateway.pools.all_endpoints()
    assert endpoint.failed_calls >= 1
    await released(bench.gateway)


async def test_an_engine_drains_and_leaves_while_it_answers(
    make_raw: MakeRaw, engines: tuple[RawEngine, RawEngine]
) -> None:
    """The running call of a draining engine ends, new ones use other engines, and then it is
    removed. A second request to drain it is no error."""
    one, other = engines
    bench = await make_raw(one, other)
    gate = asyncio.Event()

    async def later(asked: ReceivedRequest, wire: Wire) -> None:
        await gate.wait()
        await wire.write(whole(COMPLETION))

    one.reply = later
    running = asyncio.create_task(outcome(bench))
    await until(lambda: one.asked, "the call runs")
    for _ in range(2):
        assert (await bench.client.delete("/engines/engine:1", headers=BOSS)).status == 202
    assert (await bench.client.delete("/engines/unknown", headers=BOSS)).status == 404
    assert [(await bench.chat("q")).status for _ in range(2)] == [200, 200]
    assert len(one.asked) == 1 and not running.done()
    names = [each["id"] for each in await (await bench.client.get("/engines")).json()]
    assert names == ["engine:1", "engine:2"]
    gate.set()
    assert await running == 200
    await until(lambda: len(list(bench.gateway.pools.all_endpoints())) == 1, "it is gone")
    assert await outcome(bench) == 200
    await released(bench.gateway)


async def test_an_engine_is_added_while_calls_wait(make_raw: MakeRaw) -> None:
    """Held calls are sent to it; an invalid request changes nothing."""
    bench = await make_raw(endpoint={"max_calls": 1})
    bench.engine.reply = hang
    stuck = asyncio.create_task(outcome(bench))
    await until(lambda: bench.engine.asked, "the only place is taken")
    waiting = asyncio.create_task(bench.chat("q"))
    await bench.until_held("q")
    another = RawEngine()
    await another.start()
    for order, status in (
        ({"url": "nonsense"}, 400),
        ({"url": another.url, "id": "engine:1"}, 400),
        ({"url": another.url, "odd": 1}, 400),
        ({"url": another.url, "id": "engine:2"}, 201),
    ):
        assert (await bench.client.post("/engines", json=order, headers=BOSS)).status == status
    assert (await asyncio.wait_for(waiting, 60)).status == 200
    assert len(another.asked) == 1
    stuck.cancel()
    await asyncio.gather(stuck, return_exceptions=True)
    await released(bench.gateway)
    await another.kill()


async def test_an_answer_that_is_too_large_is_refused(raw: Bench, monkeypatch: Any) -> None:
    monkeypatch.setattr("tutti.tasks.serving.gateway.calls.proxied_call.MAX_BUFFERED", 100_000)
    raw.engine.reply = answering(whole(b" " * 200_000))
    assert await outcome(raw) == 502
    await released(raw.gateway)


async def test_a_slow_reader_slows_the_engine_and_is_cut(make_raw: MakeRaw) -> None:
    """A client that reads nothing uses no memory: the engine is paused, and the call ends at
    `stalled_s`. It is the client's fault, so neither the engine nor the call is `infra_error`."""
    sent = 0

    async def endless(_: ReceivedRequest, wire: Wire) -> None:
        nonlocal sent
        await wire.write(STREAM_HEAD)
        while True:
            await wire.write(chunk(delta("x" * 100_000)))
            sent += 100_000

    bench = await make_raw(upstream_s=0.3)
    bench.gateway.server.limits = ServerLimits(stalled_s=0.6)
    bench.engine.reply = endless
    answer = await bench.chat("p", stream=True)
    answer._protocol.transport.pause_reading()
    await until(lambda: not bench.gateway.in_flight, "the call is ended")
    assert sent < 30_000_000, "the engine is paused: the system's buffers hold some megabytes"
    answer.close()
    (row,) = await bench.calls()
    assert row["status"] == "cancelled"
    await released(bench.gateway)


async def test_what_the_last_cell_left_running_takes_room_in_the_next(make_raw: MakeRaw) -> None:
    """Such a call counts against an endpoint's limit, its end admits others at once, and an engine
    that is drained waits for it."""
    go_on = asyncio.Event()

    async def reply(asked: ReceivedRequest, wire: Wire) -> None:
        if b"old" in asked.body:
            await go_on.wait()
        await wire.write(whole(COMPLETION))

    async with raw_engine(reply=reply) as engine:
        bench = await make_raw(engine, endpoint={"max_calls": 1})
        old = asyncio.create_task(bench.chat("old", model="old"))
        await until(lambda: len(engine.asked) == 1, "the old cell's call runs")
        await bench.begin()
        new = asyncio.create_task(bench.chat("new"))
        await bench.until_held("new")
        removing = asyncio.create_task(bench.gateway.pools.remove("engine:1"))
        await asyncio.sleep(0.05)
        assert not removing.done()
        removing.cancel()
        endpoint = bench.gateway.pools.find("engine:1")[1]
        endpoint.draining = False
        go_on.set()
        assert (await old).status == (await new).status == 200
        await released(bench.gateway)
