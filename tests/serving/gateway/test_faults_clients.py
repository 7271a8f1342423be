"""Tests of client faults: nothing stays booked, and other clients are not affected.

Reference bugs 13, 14 (calls that never end), 17 (a held call cannot be cancelled and is held longer
than its client waits) and 18 (a release while waiting lets the call through).
"""

import asyncio
import datetime
import io
import json
import tracemalloc
from typing import Any

import aiohttp
import pytest

from tests.serving.conftest import PRICES, Bench, assert_empty, released, until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import (
    COMPLETION,
    DONE,
    STREAM_HEAD,
    ReceivedRequest,
    Wire,
    answering,
    chunk,
    delta,
    streaming,
    whole,
)
from tutti.storage import catalog as cat
from tutti.tasks.serving.wire.connection import ServerLimits


class Noticing:
    """Reply that never comes; `gone` is set when its client, the gateway, disconnects."""

    def __init__(self, *first: bytes) -> None:
        self.first, self.gone = first, asyncio.Event()

    async def __call__(self, _: ReceivedRequest, wire: Wire) -> None:
        for data in self.first:
            await wire.write(data)
        await wire.gone()
        self.gone.set()
        wire.close()


async def leave(
    bench: Bench, begun: Any, path: str = "/v1/chat/completions", **fields: Any
) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{bench.gateway.server.port}") as client:
        body = {"model": "m", "messages": [], "program_id": "leaver"} | fields
        call = asyncio.create_task(client.post(path, json=body))
        await until(begun, "the call is on its way")
        call.cancel()
        answers = await asyncio.gather(call, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, aiohttp.ClientResponse):
                answer.close()


@pytest.mark.parametrize("policy", ["cap", "adaptive", "thunderagent", "continuum"])
async def test_a_client_that_leaves_takes_its_call_along(make_raw: MakeRaw, policy: str) -> None:
    """Reference bug 14: before the response and in the middle of a stream, the engine's request is
    cancelled."""
    bench = await make_raw(policy=policy, limit=2 if policy == "cap" else None)
    for first, stream in (((), False), ((STREAM_HEAD + chunk(delta("x")),), True)):
        reply = Noticing(*first)
        bench.engine.reply, before = reply, len(bench.engine.asked)
        await leave(bench, lambda before=before: len(bench.engine.asked) > before, stream=stream)
        await asyncio.wait_for(reply.gone.wait(), 60)
        await until(lambda: not bench.gateway.in_flight, "the call is over")
    assert {row["status"] for row in await bench.calls()} == {"cancelled"}
    await released(bench.gateway)


async def test_what_a_left_stream_had_told_is_recorded(raw: Bench) -> None:
    """Some engines report usage with each piece: that part was computed and is charged."""
    told = delta("x", usage={"prompt_tokens": 120, "completion_tokens": 7})
    raw.engine.reply = Noticing(STREAM_HEAD + chunk(told))
    in_flight = raw.gateway.in_flight
    await leave(raw, lambda: any(p.record.answered for p in in_flight.values()), stream=True)
    await until(lambda: not in_flight, "the call is over")
    (row,) = await raw.calls()
    found = row["status"], row["prompt_tokens"], row["completion_tokens"]
    assert found == ("cancelled", 120, 7)
    assert row["cost_usd"] == pytest.approx((120 * PRICES.prompt + 7 * PRICES.completion) / 1e6)


@pytest.mark.parametrize("is_whole", [False, True])
async def test_what_a_stream_counts_before_its_first_token_is_no_usage(
    raw: Bench, is_whole: bool
) -> None:
    """Anthropic's first event always has one output token; the last has the real number. The cost
    of a stream whose client left is unknown, not that of one token."""
    usage = {"input_tokens": 120, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "m", "usage": usage}}
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    end |= {"usage": {"output_tokens": 70}}
    events = [b"data: %b\n\n" % json.dumps(each).encode() for each in (start, text, text)]
    path, in_flight = "/v1/messages", raw.gateway.in_flight
    if is_whole:
        raw.engine.reply = streaming(*events, b"data: %b\n\n" % json.dumps(end).encode())
        await (await raw.chat("p", path=path, stream=True, max_tokens=99)).read()
    else:
        raw.engine.reply = Noticing(STREAM_HEAD + chunk(b"".join(events)))
        await leave(
            raw,
            lambda: any(p.record.answered for p in in_flight.values()),
            path,
            stream=True,
            max_tokens=99,
        )
    await until(lambda: not in_flight, "the call is over")
    (row,) = await raw.calls()
    if is_whole:
        usd = (120 * PRICES.prompt + 70 * PRICES.completion) / 1e6
        assert (row["status"], row["completion_tokens"]) == ("ok", 70)
        assert row["cost_usd"] == pytest.approx(usd)
    else:
        found = row["status"], row["prompt_tokens"], row["completion_tokens"], row["cost_usd"]
        assert found == ("cancelled", 120, None, None)


async def breaks(_: ReceivedRequest, wire: Wire) -> None:
    wire.reset()


@pytest.mark.parametrize(
    ("reply", "status", "usd"),
    [
        (breaks, 502, None),
        (Noticing(), 504, None),
        (None, 502, 0.0),  # nobody listens
        (answering(whole({"error": "no"}, 502)), 502, 0.0),
        (answering(whole({"error": "no"}, 504)), 504, 0.0),
    ],
)
async def test_a_call_that_was_sent_and_not_answered_has_an_unknown_cost(
    make_raw: MakeRaw, reply: Any, status: int, usd: float | None
) -> None:
    """The engine may have worked and charged for the call; a call that never left the gateway, or
    that the engine refused, costs nothing."""
    bench = await make_raw(upstream_s=0.2)
    bench.engine.reply = reply
    if reply is None:
        await bench.engine.kill()
    assert (await bench.chat("p")).status == status
    (row,) = await bench.calls()
    assert (row["http_status"], row["status"]) == (status, "infra_error")
    assert row["cost_usd"] == usd


async def test_a_client_that_leaves_while_held_is_never_sent(make_raw: MakeRaw) -> None:
    bench = await make_raw(policy="cap", limit=1)
    assert (await bench.chat("first")).status == 200
    await leave(bench, lambda: bench.held == ["leaver"])
    await until(lambda: not bench.held, "the hold is given up")
    await bench.release("first")
    assert (await bench.chat("third")).status == 200
    assert [row["attempt_id"] for row in await bench.calls()] == ["first", "leaver", "third"]
    completions = [each for each in bench.engine.asked if "completions" in each.path]
    assert len(completions) == 2
    await released(bench.gateway)


async def test_a_client_that_retries_after_its_timeout_is_served_once(make_raw: MakeRaw) -> None:
    """Reference bug 17: five tries of a held call are one call when it is admitted."""
    bench = await make_raw(policy="cap", limit=1)
    await bench.chat("first")
    for _ in range(4):
        timeout = aiohttp.ClientTimeout(total=0.05)
        with pytest.raises(TimeoutError):
            await bench.client.post(
                "/p/slow/v1/chat/completions", json={"model": "m"}, timeout=timeout
            )
    last = asyncio.create_task(bench.chat("slow"))
    await bench.until_held("slow")
    await bench.release("first")
    assert (await last).status == 200
    assert sum("completions" in each.path for each in bench.engine.asked) == 2
    await released(bench.gateway)


async def test_a_release_while_waiting_ends_the_wait(make_raw: MakeRaw) -> None:
    """Reference bug 18: the call must not run untracked; it gets 409."""
    bench = await make_raw(policy="cap", limit=1)
    await bench.chat("first")
    waiting = [asyncio.create_task(bench.chat("second")) for _ in range(2)]
    await bench.until_held("second", "second")
    assert await bench.release("second")
    answers = await asyncio.gather(*waiting)
    assert [answer.status for answer in answers] == [409, 409]
    assert list(bench.programs) == ["first"]
    assert not await bench.release("second")
    events = await bench.rows("select event from gateway_events where program_id = 'second'")
    assert sorted(row["event"] for row in events) == ["hold", "hold", "reject", "reject", "release"]
    await released(bench.gateway)


async def test_a_release_while_running_waits_for_the_answer(make_raw: MakeRaw) -> None:
    bench = await make_raw(policy="cap", limit=1)
    gate = asyncio.Event()

    async def later(asked: ReceivedRequest, wire: Wire) -> None:
        await gate.wait()
        await wire.write(whole(COMPLETION))

    bench.engine.reply = later
    running = asyncio.create_task(bench.chat("first"))
    await until(lambda: bench.engine.asked, "the call runs")
    waiting = asyncio.create_task(bench.chat("second"))
    await bench.until_held("second")
    assert await bench.release("first")
    assert bench.held == ["second"]
    gate.set()
    assert (await running).status == 200 == (await waiting).status
    assert list(bench.programs) == ["second"]
    await released(bench.gateway)


async def test_a_call_is_there_once(raw: Bench) -> None:
    """A second call with the same id is refused while the first runs and afterwards: no two rows of
    `calls` share an id."""
    raw.engine.reply = Noticing()
    headers = {"X-Call-Id": "c"}
    running = asyncio.create_task(raw.chat("p", headers=headers))
    await until(lambda: raw.engine.asked, "the call runs")
    assert (await raw.chat("p", headers=headers)).status == 409
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(lambda: not raw.gateway.in_flight, "it is over")
    raw.engine.reply = answering(whole(COMPLETION))
    assert (await raw.chat("p", headers=headers)).status == 409
    assert (await raw.chat("p", headers={"X-Call-Id": "d"})).status == 200
    assert [row["call_id"] for row in await raw.calls()] == ["c", "d"]
    await released(raw.gateway)


async def test_parallel_calls_of_a_program_are_each_their_own(make_raw: MakeRaw) -> None:
    """Reference bug 10: a small call that ends does not free the large one's room."""
    bench = await make_raw(policy="thunderagent")
    gate = asyncio.Event()

    async def reply(asked: ReceivedRequest, wire: Wire) -> None:
        if asked.json()["messages"] == []:
            await gate.wait()
        await wire.write(whole(COMPLETION))

    bench.engine.reply = reply
    slow = [asyncio.create_task(bench.chat("p", messages=[])) for _ in range(3)]
    await until(lambda: len(bench.engine.asked) >= 3, "three run")
    assert (await bench.chat("p")).status == 200
    assert len(bench.programs["p"].running) == 3
    gate.set()
    assert [answer.status for answer in await asyncio.gather(*slow)] == [200] * 3
    await released(bench.gateway)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"nul", b'{"a": 1} x', b"\xff\xfe", b"[" * 5000]
)
async def test_bodies_that_are_no_json_object(raw: Bench, body: bytes) -> None:
    answer = await raw.client.post("/v1/chat/completions", data=body)
    assert answer.status == 400 and "JSON" in (await answer.json())["error"]["message"]
    assert raw.engine.asked == []
    await released(raw.gateway)


@pytest.mark.parametrize(
    "headers",
    [{"X-Tutti-Step": "9" * 5000}, {"X-Call-Id": "c" * 300}, {"X-Program-Id": "p" * 300},
     {"Content-Encoding": "gzip"}],
)  # fmt: skip
async def test_headers_out_of_bounds(raw: Bench, headers: dict[str, str]) -> None:
    assert (await raw.chat(headers=headers)).status == 400
    await released(raw.gateway)


async def test_bodies_at_the_limit_and_over_it(make_raw: MakeRaw) -> None:
    """At the limit the call is sent; above it the status is 413, and the gateway keeps nothing of
    it."""
    limit = 3_000_000
    bench = await make_raw()
    bench.gateway.server.limits = ServerLimits(body_bytes=limit)
    frame = json.dumps({"model": "m", "messages": [{"role": "user", "content": ""}]})
    for size, status in ((limit, 200), (limit + 1, 413)):
        text = "x" * (size - len(frame))
        body = frame.replace('"content": ""', f'"content": "{text}"').encode()
        assert len(body) == size
        answer = await bench.client.post("/v1/chat/completions", data=io.BytesIO(body))
        assert answer.status == status
    assert [len(each.body) for each in bench.engine.asked] == [limit]
    await released(bench.gateway)


async def test_too_many_held_calls_are_turned_away(make_raw: MakeRaw) -> None:
    bench = await make_raw(policy="cap", limit=1, max_held=2)
    await bench.chat("first")
    waiting = [asyncio.create_task(bench.chat(name)) for name in "ab"]
    await bench.until_held("a", "b")
    answer = await bench.chat("c")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert "c" not in bench.programs
    for name in "ab":
        await bench.release(name)
    assert [answer.status for answer in await asyncio.gather(*waiting)] == [409, 409]
    await released(bench.gateway)


async def test_held_too_long_is_503_with_a_time_to_come_again(make_raw: MakeRaw) -> None:
    """Reference bug 17: the maximum hold time is a setting, and the client gets a response at its
    end."""
    bench = await make_raw(policy="cap", limit=1, hold_s=0.1)
    await bench.chat("first")
    answer = await bench.chat("second")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert "held" in (await answer.json())["error"]["message"]
    sql = "select reason_code, reason from gateway_events where event = 'expire'"
    (event,) = await bench.rows(sql)
    assert event["reason_code"] == "held_too_long" and event["reason"].startswith("held")
    (held,) = await bench.rows("select reason_code from gateway_events where event = 'hold'")
    assert held == {"reason_code": "no_place"}
    await released(bench.gateway)


async def test_a_held_stream_hears_that_it_is_held(make_raw: MakeRaw) -> None:
    """Comments keep the connection open; then the response is sent, or an event with the reason."""
    bench = await make_raw(policy="cap", limit=1, comment_s=0.03, hold_s=2.0)
    await bench.chat("first")
    bench.engine.reply = streaming(delta("x", "stop"), DONE)
    held = asyncio.create_task(bench.chat("second", stream=True))
    answer = await asyncio.wait_for(held, 60)  # its head comes with the first comment
    assert (answer.status, answer.content_type) == (200, "text/event-stream")
    assert (await answer.content.readline()).startswith(b": held")
    await bench.release("first")
    text = await answer.read()
    assert text.endswith(delta("x", "stop") + DONE)
    late = await bench.chat("third", stream=True)
    *_, last = [line for line in (await late.read()).split(b"\n") if line]
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == 503
    bench.engine.reply = answering(whole({"error": "no such model"}, 404))
    wrong = asyncio.create_task(bench.chat("fourth", stream=True))
    await bench.until_held("fourth")
    await asyncio.sleep(0.1)
    await bench.release("second")
    body = await (await wrong).read()
    assert body.endswith(b'data: {"error": "no such model"}\n\n')
    await released(bench.gateway)


async def test_many_programs_that_are_never_released(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The programs' leases expire, and their resources are released.

    There are 4,000, not a million: each is a real call on loopback, at some thousands a second for
    both sides. What matters is the memory kept per program, which is measured on separate programs.
    """
    count, width = 4_000, 64
    monkeypatch.setattr("tutti.tasks.serving.gateway.app.ROUND_S", 1.0)  # a round sees all
    bench = await make_raw(idle_lease_s=3600.0, sample_s=1.0)
    port = bench.gateway.server.port
    monkeypatch.setattr(bench.gateway.recording, "soon", lambda record: None)
    bench.engine.asked = _Forgetful()
    body = json.dumps({"model": "m"}).encode()

    async def some(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(first, count, width):
            head = f"POST /p/{number}/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            head += f"Content-Length: {len(body)}\r\n"
            writer.write(head.encode() + b"\r\n" + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200")
            await reader.readexactly(len(json.dumps(COMPLETION)))
        writer.close()

    await asyncio.gather(*[some(first) for first in range(width)])
    assert len(bench.programs) == count
    (pool,) = bench.gateway.pools.by_name.values()
    tracemalloc.start()
    try:
        pool.scheduler.expire_idle(asyncio.get_running_loop().time() + 7200)
        assert bench.programs == {}
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1000):
            pool.scheduler.arrive(f"p{number}", f"c{number}", 10, 10, 0.0)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept / 1000 < 3000, "bytes a program with a call"
    for engine in pool.scheduler.ledger.engines.values():
        for call in list(engine.running.values()):
            pool.scheduler.finish(call, None, 0.0)
    await released(bench.gateway)


class _Forgetful(list[Any]):
    """List that stores nothing."""

    def append(self, _: Any) -> None:
        """Discard the item."""


async def test_a_clock_that_jumps_changes_no_duration(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of day use the wall clock, durations the monotonic clock."""
    bench = await make_raw(policy="cap", limit=1)
    await bench.chat("first")
    waiting = asyncio.create_task(bench.chat("second"))
    await bench.until_held("second")
    real = cat.now
    monkeypatch.setattr(cat, "now", lambda: real() - datetime.timedelta(days=1))
    await asyncio.sleep(0.1)
    await bench.release("first")
    answer = await waiting
    monkeypatch.undo()
    assert 0.1 <= float(answer.headers["X-Tutti-Held-S"]) < 3600
    (row,) = [row for row in await bench.calls() if row["attempt_id"] == "second"]
    assert 0.1 <= row["held_s"] <= row["latency_s"] < 3600
    assert row["sent_at"] <= row["admitted_at"] <= row["ended_at"]
    await released(bench.gateway)


async def test_stopping_refuses_what_is_held(make_raw: MakeRaw) -> None:
    """Held calls get a response that can be retried, and every call is recorded."""
    bench = await make_raw(policy="cap", limit=1)
    await bench.chat("first")
    waiting = asyncio.create_task(bench.chat("second"))
    await bench.until_held("second")
    await bench.gateway.stop(grace_s=0.5)
    answer = await waiting
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert_empty(bench.gateway)
