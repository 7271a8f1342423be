"""Tests of the model-call client against an engine that sends raw bytes."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.load.stream import Events, StreamedAnswer, stream
from tests.serving.conftest import until
from tests.serving.gateway.raw_engine import (
    COMPLETION,
    DONE,
    LAST_CHUNK,
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
from tutti.tasks.agents.models.client import (
    COMPLETIONS,
    CONNECTION,
    Client,
    Retry,
)
from tutti.tasks.agents.models.model import (
    TIMEOUT,
    CallOrigin,
    GatewayModel,
    ModelCallFailed,
    Sampling,
    WorkingClock,
    completion,
)
from tutti.tasks.serving.wire import NoAnswer

ROLE = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
ASKED = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def engine() -> AsyncIterator[RawEngine]:
    """Run an engine that sends raw bytes."""
    async with raw_engine() as engine:
        yield engine


@pytest.fixture
async def client(engine: RawEngine) -> AsyncIterator[Client]:
    async with Client(engine.url) as client:
        yield client


def model_of(client: Client) -> GatewayModel:
    """Return a model caller that does not retry."""
    return GatewayModel(client, "m", CallOrigin("p", "cell:1"), Sampling(), retry=Retry({}))


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("bytewise", [False, True])
async def test_an_answer_in_any_frame_and_pieces_is_whole(
    engine: RawEngine, client: Client, chunked: bool, bytewise: bool
) -> None:
    """A response is read whole with a content length or chunked, at once or byte by byte, and the
    connection is kept."""
    body = whole(COMPLETION).partition(b"\r\n\r\n")[2]
    sent = whole(COMPLETION)
    if chunked:
        sent = STREAM_HEAD + chunk(body[:7]) + chunk(body[7:]) + LAST_CHUNK
    pieces = [sent[n : n + 1] for n in range(len(sent))] if bytewise else [sent]
    engine.reply = answering(*pieces)
    for _ in range(2):
        answer = await client.post(COMPLETIONS, [], b"{}")
        assert (answer.status, answer.body) == (200, body)
        reply = await model_of(client).complete(ASKED, [], 1)
        assert (reply.message["content"], reply.prompt_tokens) == ("hi", 120)
    assert engine.connections == 1


async def test_a_call_says_whose_it_is(engine: RawEngine, client: Client) -> None:
    """A call carries its program, cell, step, role and its own call id, and the reply has the
    figures of the response."""
    told = "X-Tutti-Held-S: 1.5\r\nX-Tutti-Cost-Usd: 0.25\r\n"
    engine.reply = answering(whole(COMPLETION, headers=told))
    model = GatewayModel(client, "m", CallOrigin("p:1", "cell:1", "judge"), Sampling())
    clock = WorkingClock()
    with clock.running():
        replies = [await model.complete(ASKED, [], 1)]
    replies.append(await model.complete(ASKED, [], 2))
    headers = [asked.headers for asked in engine.asked]
    assert [h["x-call-id"] for h in headers] == [reply.call_id for reply in replies]
    assert headers[0]["x-call-id"] != headers[1]["x-call-id"]
    assert [h["x-tutti-step"] for h in headers] == ["1", "2"]
    assert {(h["x-program-id"], h["x-tutti-cell"], h["x-tutti-role"]) for h in headers} == {
        ("p:1", "cell:1", "judge")
    }
    assert headers[0]["content-type"] == "application/json"
    assert clock.read()[1] == pytest.approx(1.5) and replies[0].cost_usd == 0.25


@pytest.mark.parametrize(("head", "usd"), [("", None), ("X-Tutti-Cost-Usd: 0.000000000\r\n", 0.0)])
async def test_an_unknown_price_is_not_zero(
    engine: RawEngine, client: Client, head: str, usd: float | None
) -> None:
    """The gateway omits the header if it knows no price."""
    engine.reply = answering(whole(COMPLETION, headers=head))
    model = GatewayModel(client, "m", CallOrigin("p:1", "cell:1", "judge"), Sampling())
    assert (await model.complete(ASKED, [], 1)).cost_usd == usd


async def test_the_first_token_is_timed_and_the_role_alone_is_none(
    engine: RawEngine, client: Client
) -> None:
    """Time to first token is measured both from the send and from the call's intended start."""
    before_the_tokens: list[float] = []

    async def reply(_: ReceivedRequest, wire: Wire) -> None:
        await wire.write(STREAM_HEAD + chunk(ROLE))
        await asyncio.sleep(0.05)  # on one loop, the client reads what is there before it ends
        before_the_tokens.append(time.monotonic())
        await wire.write(chunk(delta("a")))
        await asyncio.sleep(0.05)
        before_the_tokens.append(time.monotonic())
        await wire.write(chunk(delta("b") + DONE) + LAST_CHUNK)

    engine.reply = reply
    due = time.monotonic() - 1.0
    streamed = await stream(client, [], b'{"stream": true}')
    answer, ttft_s, due_s = streamed.answer, streamed.ttft_s(), streamed.ttft_s(due)
    assert ttft_s is not None and due_s is not None
    first, second = before_the_tokens
    assert first < answer.sent_at + ttft_s < second < answer.ended_at
    assert due_s == pytest.approx(ttft_s + answer.sent_at - due)
    assert due_s > ttft_s + 0.9
    assert answer.body == ROLE + delta("a") + delta("b") + DONE


@pytest.mark.parametrize(
    "first",
    [
        delta("x"),
        event({"choices": [{"delta": {"reasoning_content": "hm"}}]}),
        event({"choices": [{"delta": {"reasoning": "hm"}}]}),
        event({"choices": [{"delta": {"content": None, "tool_calls": [{"index": 0}]}}]}),
        delta("x").replace(b"data: ", b"data:").replace(b"\n\n", b"\r\n\r\n"),
    ],
)
async def test_what_a_first_token_is(engine: RawEngine, client: Client, first: bytes) -> None:
    """Text, reasoning or a tool call counts as the first token, in any provider's format."""
    engine.reply = streaming(ROLE, first, DONE)
    assert (await stream(client, [], b"{}")).first_token_at is not None


@pytest.mark.parametrize(
    "sent",
    [
        b": a comment\n\n",
        ROLE,
        event({"choices": [], "usage": {}}),
        event({"error": {"message": "overloaded"}}),
        event([1]),
        event({"choices": [None]}),
        b"data: {cut\n\n",
        delta("never ended").rstrip(b"\n"),
    ],
)
async def test_what_none_is(engine: RawEngine, client: Client, sent: bytes) -> None:
    """A stream of such pieces has no first token and is still read to its end."""
    engine.reply = streaming(sent, DONE)
    streamed = await stream(client, [], b"{}")
    assert streamed == StreamedAnswer(streamed.answer, None)
    assert streamed.ttft_s() is None
    assert streamed.answer.body.startswith(sent)


@settings(max_examples=settings().max_examples * 3 // 5, deadline=None)
@given(st.lists(st.integers(0, 400), max_size=12))
def test_wherever_a_stream_is_cut_the_token_comes_with_the_piece_that_ends_its_line(
    cuts: list[int],
) -> None:
    """The token is reported neither earlier nor later, and no byte of the body is lost."""
    sent = ROLE + delta("one") + delta("two") + DONE
    ends = len(ROLE) + delta("one").index(b"\n") + 1
    places = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]

    async def feed() -> None:
        events = Events()
        for start, end in pairwise(places):
            if start < end:
                events.on_data(sent[start:end])
            assert (events.first_token_at is not None) == (end >= ends)
        assert b"".join(events.pieces) == sent

    asyncio.run(feed())


async def test_a_stream_of_one_endless_line_costs_no_more_than_its_bytes(
    engine: RawEngine, client: Client
) -> None:
    """Each piece is examined once: 8 MB in small pieces are read quickly."""
    piece = chunk(b"data: " + b"x" * 4090) * 16
    engine.reply = answering(STREAM_HEAD, *[piece] * 128, LAST_CHUNK)
    async with asyncio.timeout(60):
        streamed = await stream(client, [], b"{}")
    assert len(streamed.answer.body) == 128 * 16 * 4096


async def test_huge_bodies_go_both_ways(engine: RawEngine, client: Client) -> None:
    """A prompt of 8 MB and a response of 32 MB are transferred."""
    engine.reply = answering(whole(b"y" * 32_000_000))
    answer = await client.post(COMPLETIONS, [], b"x" * 8_000_000)
    assert len(answer.body) == 32_000_000
    assert len(engine.asked[0].body) == 8_000_000


async def test_a_thousand_calls_are_under_way_at_once(engine: RawEngine, client: Client) -> None:
    """There is no limit and no queue: the first response is sent after the last request has
    arrived. The connections serve a second thousand calls."""
    gate = asyncio.Event()

    async def reply(_: ReceivedRequest, wire: Wire) -> None:
        if len(engine.asked) == 1000:
            gate.set()
        await gate.wait()
        await wire.write(whole(COMPLETION))

    engine.reply = reply
    for _ in range(2):
        async with asyncio.timeout(60):
            calls = [model_of(client).complete(ASKED, [], 1) for _ in range(1000)]
            replies = await asyncio.gather(*calls)
        assert len({reply.call_id for reply in replies}) == 1000
    assert engine.connections == 1000


async def test_a_connection_that_the_peer_closed_meanwhile_is_no_failure(
    engine: RawEngine, client: Client
) -> None:
    """If the peer closes a connection after a keep-alive response, the next call uses a new
    connection."""
    await client.post(COMPLETIONS, [], b"{}")
    engine.drop()
    assert (await client.post(COMPLETIONS, [], b"{}")).status == 200
    assert engine.connections == 2


async def test_idle_connections_are_not_kept_until_the_server_closes_them(
    engine: RawEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that have been idle too long are closed once a second."""
    await client.post(COMPLETIONS, [], b"{}")
    monkeypatch.setattr("tutti.tasks.serving.wire.client.KEEP_IDLE_S", 0.0)
    monkeypatch.setattr("tutti.tasks.agents.models.client.SWEEP_S", 0.0)
    await client.post(COMPLETIONS, [], b"{}")
    assert engine.connections == 2


async def test_a_cancelled_call_closes_its_connection(engine: RawEngine, client: Client) -> None:
    """The connection is closed before and after the response head, so that the gateway stops
    working for the call."""
    come, gone = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def reply(_: ReceivedRequest, wire: Wire) -> None:
        if len(engine.asked) == 2:
            await wire.write(STREAM_HEAD + chunk(ROLE))
        come.release()
        await wire.gone()
        gone.release()
        wire.close()

    engine.reply = reply
    async with asyncio.timeout(60):
        for _ in range(2):
            call = asyncio.create_task(stream(client, [], b"{}"))
            await come.acquire()
            await asyncio.sleep(0.02)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await gone.acquire()
    engine.reply = answering(whole(COMPLETION))
    assert (await client.post(COMPLETIONS, [], b"{}")).status == 200
    assert len(engine.asked) == 3


async def test_a_call_that_takes_longer_than_it_may_is_a_failed_try(
    engine: RawEngine, client: Client
) -> None:
    """The connection is closed, so that the next call does not get the response of this one."""
    engine.reply = answering(STREAM_HEAD, pause_s=2.0)
    with pytest.raises(ModelCallFailed, match=r"no answer within 0\.05 s") as failed:
        await completion(client, [], b"{}", call_s=0.05)
    assert failed.value.status == TIMEOUT
    engine.reply = answering(whole(COMPLETION))
    assert (await completion(client, [], b"{}", call_s=60.0)).status == 200
    assert engine.connections == 2


async def test_a_call_that_is_cancelled_as_it_connects_is_never_sent(
    engine: RawEngine, client: Client
) -> None:
    """The connection is used for the next call."""
    call = asyncio.create_task(client.post(COMPLETIONS, [], b"{}"))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await client.post(COMPLETIONS, [], b"2")).status == 200
    assert [asked.body for asked in engine.asked] == [b"2"]


async def test_a_refused_connection_is_of_the_class_connection(engine: RawEngine) -> None:
    """The error names the address; truncated answers and non-HTTP answers are treated alike."""
    async with Client(engine.url) as client:
        engine.reply = answering(b"220 mail ready\r\n")
        with pytest.raises(ModelCallFailed, match="not HTTP") as failed:
            await model_of(client).complete(ASKED, [], 1)
        assert failed.value.status == CONNECTION

        async def cut(_: ReceivedRequest, wire: Wire) -> None:
            await wire.write(whole(COMPLETION)[:-5])
            wire.close()

        engine.reply = cut
        with pytest.raises(ModelCallFailed, match="lost") as failed:
            await model_of(client).complete(ASKED, [], 1)
        assert failed.value.status == CONNECTION
        await engine.kill()
        with pytest.raises(ModelCallFailed, match=f"cannot connect.*{engine.port}") as failed:
            await model_of(client).complete(ASKED, [], 1)
        assert failed.value.status == CONNECTION
        with pytest.raises(ModelCallFailed, match="cannot connect"):
            await model_of(client).release()
        await engine.start()


async def test_a_status_is_the_failures_with_the_pause_that_was_asked_for(
    engine: RawEngine, client: Client
) -> None:
    engine.reply = answering(whole({"error": "full"}, 503, "Retry-After: 7\r\n"))
    with pytest.raises(ModelCallFailed, match=r"HTTP 503: .*full") as failed:
        await model_of(client).complete(ASKED, [], 1)
    assert (failed.value.status, failed.value.pause_s) == (503, 7.0)


async def test_a_connection_that_fails_is_tried_again(engine: RawEngine, client: Client) -> None:
    """A connection failure is retried as a new call, by the rule of its error class."""

    async def first_cut(_: ReceivedRequest, wire: Wire) -> None:
        if len(engine.asked) == 1:
            await wire.write(b"HTTP/1.1 200 OK\r\n")
            wire.close()
        else:
            await wire.write(whole(COMPLETION))

    engine.reply = first_cut
    retry = Retry({CONNECTION: 2}, first_s=0.01)
    model = GatewayModel(client, "m", CallOrigin("p", "c"), Sampling(), retry)
    reply = await model.complete(ASKED, [], 1)
    first, second = engine.asked
    assert first.headers["x-call-id"] != second.headers["x-call-id"] == reply.call_id


@pytest.mark.parametrize("body", [b"", b"<html>", b"null", b'{"choices": []}'])
async def test_an_answer_without_a_message_is_a_failure(
    engine: RawEngine, client: Client, body: bytes
) -> None:
    """Such a response is a server failure, and the error quotes it."""
    engine.reply = answering(whole(body))
    with pytest.raises(ModelCallFailed, match="HTTP 200 without a message"):
        await model_of(client).complete(ASKED, [], 1)


async def test_calls_under_way_fail_when_the_client_is_closed(engine: RawEngine) -> None:
    """Calls on new, kept and still connecting connections fail; none waits forever."""
    gate = asyncio.Event()

    async def reply(_: ReceivedRequest, wire: Wire) -> None:
        if len(engine.asked) > 1:
            await gate.wait()
        await wire.write(whole(COMPLETION))

    engine.reply = reply
    async with Client(engine.url) as client:
        await client.post(COMPLETIONS, [], b"{}")
        calls = [asyncio.create_task(client.post(COMPLETIONS, [], b"{}")) for _ in range(2)]
        await until(lambda: len(engine.asked) == 3, "both have come")
        calls.append(asyncio.create_task(client.post(COMPLETIONS, [], b"{}")))
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        done = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(failed, NoAnswer) for failed in done), done
    with pytest.raises(NoAnswer, match="closed"):
        await client.post(COMPLETIONS, [], b"{}")
    gate.set()


@pytest.mark.parametrize("url", ["127.0.0.1:1", "ftp://h", ""])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    """An invalid URL is refused when the client is constructed, not at its first call."""
    with pytest.raises(ValueError, match="not an http"):
        Client(url)
