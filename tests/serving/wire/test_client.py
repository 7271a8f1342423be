"""Tests of the HTTP client: valid and invalid responses of engines, and the results for callers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.serving.conftest import until
from tests.serving.gateway.raw_engine import (
    LAST_CHUNK,
    STREAM_HEAD,
    RawEngine,
    ReceivedRequest,
    Wire,
    answering,
    chunk,
    raw_engine,
    whole,
)
from tutti.tasks.serving.wire.client import Origin, OutgoingRequest, Receiver
from tutti.tasks.serving.wire.messages import Headers, find

EARLIER = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n"


class RecordingReceiver(Receiver):
    """Receiver that records all its calls."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Headers = []
        self.body = b""
        self.pieces = self.ends = 0
        self.failure = ""

    def on_head(self, status: int, headers: Headers) -> None:
        assert not self.status, "one head an answer"
        self.status, self.headers = status, headers

    def on_data(self, data: bytes) -> None:
        self.body, self.pieces = self.body + data, self.pieces + 1

    def on_end(self) -> None:
        self.ends += 1

    def on_failure(self, reason: str) -> None:
        assert not self.failure
        self.failure = reason

    @property
    def over(self) -> bool:
        return bool(self.ends or self.failure)


@pytest.fixture
async def engine() -> AsyncIterator[RawEngine]:
    async with raw_engine() as engine:
        yield engine


@pytest.fixture
async def origin(engine: RawEngine) -> AsyncIterator[Origin]:
    origin = Origin(engine.url + "/base/")
    yield origin
    await origin.close()


def send(origin: Origin, body: bytes = b"{}") -> tuple[OutgoingRequest, RecordingReceiver]:
    heard = RecordingReceiver()
    return origin.send(b"POST", b"/v1/x", [(b"X-Some", b"header")], body, heard), heard


async def ask(origin: Origin, body: bytes = b"{}") -> RecordingReceiver:
    _, heard = send(origin, body)
    await until(lambda: heard.over, "the answer ends")
    return heard


async def test_requests_go_out_whole_on_a_kept_connection(
    engine: RawEngine, origin: Origin
) -> None:
    for size in (2, 1_000_000):
        heard = await ask(origin, b"x" * size)
        assert (heard.status, heard.ends) == (200, 1)
    assert engine.connections == 1
    first, second = engine.asked
    assert (first.method, first.path) == ("POST", "/base/v1/x")
    assert first.headers["x-some"] == "header"
    assert first.headers["host"] == f"127.0.0.1:{engine.port}"
    assert len(second.body) == 1_000_000


@pytest.mark.parametrize(
    ("sent", "body", "connections"),
    [
        (STREAM_HEAD + chunk(b"ab") + chunk(b"c") + LAST_CHUNK, b"abc", 1),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", 1),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" + whole(b"1"),
            b"1",
            1,
        ),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1", b"1", 2),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n1", b"1", 2),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", 1),
    ],
)
@pytest.mark.parametrize("bytewise", [False, True])
async def test_answers_of_every_frame(
    engine: RawEngine, origin: Origin, sent: bytes, body: bytes, connections: int, bytewise: bool
) -> None:
    """Responses are chunked, empty, preceded by 1xx or closed afterwards, in one piece and in
    single bytes."""
    pieces = [sent[n : n + 1] for n in range(len(sent))] if bytewise else [sent]
    engine.reply = answering(*pieces)
    for _ in range(2):
        heard = await ask(origin)
        assert (heard.body, heard.ends, heard.failure) == (body, 1, "")
        assert find(heard.headers, b"link") is None, "what came before is no part of it"
    assert engine.connections == connections


async def test_an_answer_without_a_length_ends_with_its_connection(
    engine: RawEngine, origin: Origin
) -> None:

    async def until_close(_: ReceivedRequest, wire: Wire) -> None:
        await wire.write(b"HTTP/1.1 200 OK\r\n\r\nsome ")
        await wire.write(b"more")
        wire.close()

    engine.reply = until_close
    heard = await ask(origin)
    assert (heard.body, heard.ends) == (b"some more", 1)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        STREAM_HEAD + chunk(b"abc"),
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
async def test_half_an_answer_is_a_failure(engine: RawEngine, origin: Origin, sent: bytes) -> None:
    """This holds for any point of truncation; the request is not repeated, because the engine may
    have worked on it."""

    async def cut(_: ReceivedRequest, wire: Wire) -> None:
        await wire.write(sent)
        wire.close()

    engine.reply = cut
    heard = await ask(origin)
    assert heard.failure and not heard.ends
    assert len(engine.asked) == 1


@pytest.mark.parametrize(
    "garbage", [b"\x00\x01\x02\x03", b"220 mail ready\r\n", b"HTTP/1.1 abc\r\n"]
)
async def test_what_is_no_http_is_a_failure(
    engine: RawEngine, origin: Origin, garbage: bytes
) -> None:
    engine.reply = answering(garbage)
    assert "not HTTP" in (await ask(origin)).failure


async def test_a_kept_connection_that_was_closed_is_tried_once_more(
    engine: RawEngine, origin: Origin
) -> None:
    """The server closed it when the request was sent and received none of it. A second time is a
    failure."""
    await ask(origin)
    closed = 0

    async def close_first(asked: ReceivedRequest, wire: Wire) -> None:
        nonlocal closed
        if closed < limit:
            closed += 1
            wire.close()
        else:
            await wire.write(whole(b"2"))

    engine.reply, limit = close_first, 1
    heard = await ask(origin)
    assert (heard.status, heard.body, engine.connections) == (200, b"2", 2)
    closed, limit = 0, 2
    assert "lost" in (await ask(origin)).failure
    assert len(engine.asked) == 5


async def test_no_connection_is_a_failure(engine: RawEngine, origin: Origin) -> None:
    await engine.kill()
    assert "cannot connect" in (await ask(origin)).failure
    odd = Origin(f"http://{'a' * 64}.example")
    assert "cannot connect" in (await ask(odd)).failure
    await odd.close()
    await engine.start()


async def test_a_cancelled_request_closes_its_connection(engine: RawEngine, origin: Origin) -> None:
    """The engine's connection is closed, the receiver gets no more calls, and nothing is sent
    again."""
    noticed = asyncio.Event()

    async def wait(_: ReceivedRequest, wire: Wire) -> None:
        await wire.gone()
        noticed.set()
        wire.close()

    await ask(origin)  # so that the next goes out on a kept connection
    engine.reply = wait
    request, heard = send(origin)
    await until(lambda: len(engine.asked) == 2, "the request has come")
    request.cancel()
    await asyncio.wait_for(noticed.wait(), 60)
    request, never = send(origin)
    request.cancel()  # before there is a connection
    await asyncio.sleep(0.02)
    assert not heard.over and not never.over
    assert len(engine.asked) == 2


async def test_a_paused_answer_waits_and_its_connection_goes_on_after_it(
    engine: RawEngine, origin: Origin
) -> None:
    """If it is paused in the piece that ends it, the connection still reads the next response."""
    body = b"x" * 4_000_000
    engine.reply = answering(whole(body))

    class PausingAtFirst(RecordingReceiver):
        def on_data(self, data: bytes) -> None:
            super().on_data(data)
            if self.pieces == 1:  # later, on a busy machine, all of it may be here
                request.pause(True)

    heard = PausingAtFirst()
    request = origin.send(b"POST", b"/v1/x", [], b"{}", heard)
    await until(lambda: heard.pieces, "it has begun")
    await asyncio.sleep(0.05)
    pieces = heard.pieces
    await asyncio.sleep(0.05)
    assert heard.pieces == pieces and not heard.over
    request.pause(False)
    await until(lambda: heard.over, "it ends")
    assert heard.body == body

    class Pausing(RecordingReceiver):
        def on_data(self, data: bytes) -> None:
            request.pause(True)

    engine.reply = answering(whole(b"short"))
    last = Pausing()
    request = origin.send(b"POST", b"/", [], b"", last)
    await until(lambda: last.over, "the short one ends")
    assert (await ask(origin)).body == b"short"
    assert engine.connections == 1


async def test_an_answer_to_nothing_is_not_taken_for_the_next(
    engine: RawEngine, origin: Origin
) -> None:
    """After two responses to one request, the second must never be assigned to another call."""
    engine.reply = answering(whole(b"1") + whole(b"2"))
    heard = await ask(origin)
    assert heard.body == b"1" or heard.failure
    engine.reply = answering(whole(b"3"))
    assert (await ask(origin)).body == b"3"


async def test_an_answer_on_an_idle_connection_closes_it(engine: RawEngine, origin: Origin) -> None:
    """No error is raised, and the next request uses another connection."""
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    engine.reply = answering(whole(b"1"), whole(b"2"), pause_s=0.02)
    assert (await ask(origin)).body == b"1"
    await until(lambda: not origin._idle, "the connection is closed")
    engine.reply = answering(whole(b"3"))
    assert (await ask(origin)).body == b"3"
    assert (engine.connections, errors) == (2, [])


async def test_idle_connections_are_closed_before_the_server_does(
    engine: RawEngine, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(origin)
    origin.sweep()
    assert len(origin._idle) == 1
    monkeypatch.setattr("tutti.tasks.serving.wire.client.KEEP_IDLE_S", 0.0)
    origin.sweep()
    assert origin._idle == []
    assert (await ask(origin)).status == 200
    assert engine.connections == 2


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://h", b"h"),
        ("http://h:80", b"h"),
        ("https://h:443/v1", b"h"),
        ("https://h:80", b"h:80"),
        ("http://[::1]:8000/", b"[::1]:8000"),
        ("http://[::1]", b"[::1]"),
    ],
)
def test_a_host_is_named_as_http_wants_it(url: str, named: bytes) -> None:
    """The header has the port if it is not the scheme's default, and brackets around an IPv6
    address."""
    assert Origin(url).host_header == named


@pytest.mark.parametrize("url", ["127.0.0.1:1", "ftp://h", "http://", ""])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not an http"):
        Origin(url)
