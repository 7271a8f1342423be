"""Tests of the HTTP server: valid and invalid requests of clients, and their responses."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from tests.serving.conftest import until
from tutti.tasks.serving.wire import connection as wire_connection
from tutti.tasks.serving.wire.connection import ServerLimits
from tutti.tasks.serving.wire.exchange import Exchange
from tutti.tasks.serving.wire.server import Server

HOST = b" HTTP/1.1\r\nHost: h\r\n"
GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


class Client:
    """Connection controlled by a test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 60)

    async def answer(self) -> tuple[int, bytes]:
        head = await self.head()
        (length,) = (
            int(line.split(b": ")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        body = await self.reader.readexactly(length)
        return int(head.split(b" ")[1]), body

    async def rest(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), 60)


class Site:
    """Server whose handler records and echoes, or calls the test's `handle`."""

    def __init__(self, limits: ServerLimits, stack: AsyncExitStack) -> None:
        self.server = Server(self.handler, limits)
        self.stack = stack
        self.exchanges: list[Exchange] = []
        self.handle: Callable[[Exchange], Any] = self.echo

    def handler(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.handle(exchange)

    @staticmethod
    def echo(exchange: Exchange) -> None:
        exchange.respond(200, [], exchange.target + b" " + exchange.body)

    async def client(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self.stack.callback(writer.close)
        return Client(reader, writer)


MakeSite = Callable[..., Awaitable[Site]]


@pytest.fixture
async def make_site() -> AsyncIterator[MakeSite]:
    async with AsyncExitStack() as stack:

        async def sweep(site: Site) -> None:
            while True:
                await asyncio.sleep(0.01)
                site.server.sweep()

        async def make(**limits: Any) -> Site:
            site = Site(replace(ServerLimits(), **limits), stack)
            await site.server.listen("127.0.0.1", 0)
            task = asyncio.create_task(sweep(site))
            stack.push_async_callback(site.server.close, 0.0)
            stack.callback(task.cancel)
            return site

        yield make


@pytest.fixture
async def site(make_site: MakeSite) -> Site:
    return await make_site()


async def test_a_connection_is_kept(site: Site) -> None:
    client = await site.client()
    for body in (b"", b"x" * 100_000):
        head = b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)
        await client.send(head + body)
        assert await client.answer() == (200, b"/b " + body)
    assert len(site.server.connections) == 1


async def test_a_head_may_come_in_single_bytes(site: Site) -> None:
    client = await site.client()
    for byte in b"POST /c?d=1 HTTP/1.1\r\nHost: h\r\nX-Name: value\r\nContent-Length: 3\r\n\r\nabc":
        await client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await client.answer() == (200, b"/c?d=1 abc")
    assert (b"X-Name", b"value") in site.exchanges[0].headers


async def test_pipelined_requests_are_answered_in_their_order(site: Site) -> None:
    """The first request is slow, and there are more of them than are processed at once."""
    site.handle = lambda exchange: None
    client = await site.client()
    count = 5 * wire_connection.MAX_PIPELINED
    for number in range(count):
        await client.send(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number)
    await until(lambda: site.exchanges, "the first has come")
    await asyncio.sleep(0.02)
    assert len(site.exchanges) == 1, "one at a time on a connection"
    site.handle = site.echo
    site.echo(site.exchanges[0])
    answers = [await client.answer() for _ in range(count)]
    assert [body for _, body in answers] == [b"/%d " % number for number in range(count)]


async def test_a_request_that_comes_between_two_others_waits_its_turn(site: Site) -> None:
    """A request that arrives between a response and the next request does not overtake that one."""
    site.handle = lambda exchange: None
    client = await site.client()
    await client.send(GET + GET.replace(b"/a", b"/b"))
    await until(lambda: site.exchanges, "the first has come")
    (connection,) = site.server.connections
    site.handle = site.echo
    site.echo(site.exchanges[0])
    connection.data_received(GET.replace(b"/a", b"/c"))
    assert [(await client.answer())[1] for _ in range(3)] == [b"/a ", b"/b ", b"/c "]


async def test_chunked_bodies_are_put_together(site: Site) -> None:
    client = await site.client()
    await client.send(b"POST /d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
    await client.send(b"3\r\nabc\r\n")
    await client.send(b"4\r\ndefg\r\n0\r\n\r\n")
    assert await client.answer() == (200, b"/d abcdefg")


async def test_who_expects_to_be_told_is_told_to_go_on(site: Site) -> None:
    """With `Expect: 100-continue` the client sends its body only when the server requests it."""
    client = await site.client()
    await client.send(
        b"POST /e HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    )
    assert (await client.head()).startswith(b"HTTP/1.1 100 ")
    await client.send(b"ok")
    assert await client.answer() == (200, b"/e ok")


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /f" + HOST + b"Expect: 100-continue\r\nContent-Length: 101\r\n\r\n",
        b"POST /f" + HOST + b"Content-Length: 101\r\n\r\n" + b"x" * 101,
        b"POST /f" + HOST + b"Transfer-Encoding: chunked\r\n\r\n65\r\n" + b"x" * 101 + b"\r\n",
        b"GET /" + b"f" * 70_000 + HOST + b"\r\n",
        b"GET /" + HOST + b"X: " + b"f" * 70_000 + b"\r\n\r\n",
        b"GET /" + HOST + b"" + b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(9999)) + b"\r\n",
    ],
)
async def test_what_is_too_large_is_refused_with_a_reason(make_site: MakeSite, sent: bytes) -> None:
    site = await make_site(body_bytes=100)
    client = await site.client()
    await client.send(sent)
    status, body = await client.answer()
    assert status == 413 and b"too large" in body
    assert await client.rest() == b""
    another = await site.client()
    await another.send(b"POST /f" + HOST + b"Content-Length: 100\r\n\r\n" + b"x" * 100)
    assert (await another.answer())[0] == 200
    assert len(site.exchanges) == 1


CHUNKED = b"POST /f" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begun", "goes_on"),
    [
        (b"GET /" + HOST + b"X: ", b"x"),
        (b"GET /" + HOST, b"X: x\r\n"),
        (CHUNKED + b"1\r\na\r\n0\r\nX: ", b"x"),
        (CHUNKED + b"1\r\na\r\n0\r\n", b"X: x\r\n"),
        (CHUNKED + b"1;", b"x"),
        (b"", b"\r\n"),
    ],
    ids=["header", "headers", "trailer", "trailers", "extension", "before a head"],
)
async def test_what_has_no_end_takes_no_memory(site: Site, begun: bytes, goes_on: bytes) -> None:
    """The parser reports a value only when it has ended, but its bytes are counted before."""
    client = await site.client()
    await client.send(begun)
    for _ in range(3):
        await client.send(goes_on * (65_536 // len(goes_on)))
    assert (await client.answer())[0] == 413


async def test_a_trailer_is_no_header(site: Site) -> None:
    """A trailer arrives after the head was checked, so it must not add to the head."""
    client = await site.client()
    await client.send(CHUNKED + b"1\r\na\r\n0\r\nX-Program-Id: another\r\n\r\n")
    assert await client.answer() == (200, b"/f a")
    (exchange,) = site.exchanges
    assert b"X-Program-Id" not in dict(exchange.headers)


async def test_a_refusal_can_be_read_while_the_body_still_comes(make_site: MakeSite) -> None:
    """If the connection were closed at once, the bytes still sent would reset it, and the response
    would be lost."""
    site = await make_site(body_bytes=100)
    client = await site.client()
    await client.send(b"POST /f" + HOST + b"Content-Length: 9000000\r\n\r\n")
    for _ in range(20):
        await client.send(b"x" * 50_000)
    assert (await client.answer())[0] == 413


async def test_a_slow_head_is_408(make_site: MakeSite) -> None:
    """A minimum rate is required; a client that sends nothing at all is closed later, without a
    response."""
    site = await make_site(receive_s=0.05)
    client = await site.client()
    await client.send(b"GET / HT")
    assert (await client.answer())[0] == 408
    assert site.exchanges == []


async def test_idle_connections_are_closed(make_site: MakeSite) -> None:
    """This holds with and without an earlier request; a connection that awaits its response is not
    idle."""
    site = await make_site(idle_s=0.5)
    fresh, used, busy = [await site.client() for _ in range(3)]
    await used.send(GET)
    await used.answer()
    site.handle = lambda exchange: None
    await busy.send(GET)
    assert await fresh.rest() == b"" == await used.rest()
    await asyncio.sleep(0.6)
    assert not site.exchanges[-1].gone
    site.echo(site.exchanges[-1])
    assert (await busy.answer())[0] == 200


async def test_http_1_0_has_no_chunks(site: Site) -> None:

    def stream(exchange: Exchange) -> None:
        exchange.start(200, [])
        exchange.send(b"one")
        exchange.send(b"two")
        exchange.end()

    site.handle = stream
    for more in (b"", b"Connection: keep-alive\r\n"):
        client = await site.client()
        await client.send(b"GET /g HTTP/1.0\r\n" + more + b"\r\n")
        head, body = (await client.rest()).split(b"\r\n\r\n", 1)
        assert b"Transfer-Encoding" not in head and body == b"onetwo"
    site.handle = site.echo
    client = await site.client()
    await client.send(b"GET /g HTTP/1.0\r\n\r\n")
    assert (await client.rest()).endswith(b"/g ")


async def test_a_head_request_has_no_body(site: Site) -> None:
    client = await site.client()
    await client.send(b"HEAD /h HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
    assert b"Content-Length: 3" in await client.head()
    assert await client.answer() == (200, b"/a ")


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
)
async def test_garbage_is_400_and_the_end(site: Site, garbage: bytes) -> None:
    client = await site.client()
    await client.send(garbage)
    assert (await client.answer())[0] == 400
    assert await client.rest() == b""
    assert site.exchanges == []


async def test_a_client_that_has_gone_is_refused_quietly(site: Site) -> None:
    """The reset arrives between the refusal and the end of the stream, where asyncio's transport
    raised."""
    gone = socket.create_connection(("127.0.0.1", site.server.port))
    await until(lambda: site.server.connections, "it is connected")
    (connection,) = site.server.connections
    gone.close()
    connection.data_received(b"\0\r\n\r\n")
    await until(lambda: not site.server.connections, "it is let go")


async def test_garbage_after_a_request_cannot_be_an_answer_to_it(site: Site) -> None:
    gone: list[bool] = []

    def wait(exchange: Exchange) -> None:
        exchange.on_gone = lambda: gone.append(True)

    site.handle = wait
    client = await site.client()
    await client.send(GET + b"\x00\x01\x02garbage\r\n\r\n")
    assert await client.rest() == b""
    assert gone == [True]


async def test_an_upgrade_is_not_taken_up(site: Site) -> None:
    """Java's client requests HTTP/2 with every first request and accepts HTTP/1.1."""
    client = await site.client()
    more = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
    await client.send(b"POST /i HTTP/1.1\r\nHost: h\r\n" + more + b"Content-Length: 2\r\n\r\nok")
    assert await client.answer() == (200, b"/i ok")
    await client.send(GET)
    assert await client.answer() == (200, b"/a ")
    await client.send(b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await client.answer())[0] == 400


async def test_a_reader_that_stalls_is_heard_of_and_cut(make_site: MakeSite) -> None:
    """A client that does not read pauses the sender at once and is disconnected after a while."""
    site = await make_site(stalled_s=0.2)
    told: list[bool] = []
    gone: list[bool] = []

    def begin(exchange: Exchange) -> None:
        exchange.on_writable, exchange.on_gone = told.append, lambda: gone.append(True)
        exchange.start(200, [])

    site.handle = begin
    client = await site.client()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(GET)
    await until(lambda: site.exchanges, "the request has come")
    for _ in range(10_000):
        if told:
            break
        site.exchanges[0].send(b"x" * 65_536)
        await asyncio.sleep(0)
    assert told == [False] and not gone
    await until(lambda: gone, "it is cut")
    assert site.exchanges[0].gone
    site.exchanges[0].send(b"to nobody")


async def test_a_fault_of_the_handler_is_500_and_reported(site: Site) -> None:
    """The fault must not look like the client's error or be lost; a response that has begun is cut
    off."""
    reported: list[dict[str, Any]] = []
    gone: list[bool] = []

    def fail(exchange: Exchange) -> None:
        exchange.on_gone = lambda: gone.append(True)
        raise AssertionError("a bug")

    site.handle = fail
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    client = await site.client()
    await client.send(GET)
    assert (await client.answer())[0] == 500
    assert [str(each["exception"]) for each in reported] == ["a bug"]
    await until(lambda: gone, "the request is given up")
    asyncio.get_running_loop().set_exception_handler(None)


async def test_closing_lets_an_answer_end(make_site: MakeSite) -> None:
    site = await make_site()
    site.handle = lambda exchange: None
    idle, busy = await site.client(), await site.client()
    await busy.send(GET)
    await until(lambda: site.exchanges, "the request has come")
    closing = asyncio.create_task(site.server.close(5.0))
    assert await idle.rest() == b""
    assert not closing.done()
    site.echo(site.exchanges[0])
    assert (await busy.answer())[0] == 200
    await asyncio.wait_for(closing, 60)
