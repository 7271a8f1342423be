"""Tests that malformed requests of attackers are refused, use no memory, and do not affect other
clients."""

import asyncio
import tracemalloc
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

from tests.serving.conftest import until
from tests.serving.wire.test_server import HOST, MakeSite, Site, make_site, site
from tutti.tasks.serving.wire.connection import REFUSED_BODY_BYTES, Connection, ServerLimits
from tutti.tasks.serving.wire.exchange import Exchange, RequestRefused

__all__ = ["make_site", "site"]  # fixtures


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET  /%20HTTP/1. HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /" + HOST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        b"POST /" + HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /" + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"POST /" + HOST + b"Authorization: a\r\nAuthorization: b\r\n\r\n",
        b"POST /" + HOST + b"Content-Type: a/b\r\nContent-type: a/b\r\n\r\n",
    ],
)
@pytest.mark.parametrize("bytewise", [False, True])
async def test_two_parsers_could_read_it_in_two_ways(
    site: Site, sent: bytes, bytewise: bool
) -> None:
    """The status is 400, at once or byte by byte, and the handler is not called."""
    client = await site.client()
    for piece in [bytes([byte]) for byte in sent] if bytewise else [sent]:
        await client.send(piece)
        await asyncio.sleep(0)
    assert (await client.answer())[0] == 400
    assert site.exchanges == []


async def test_a_request_of_http_1_0_needs_no_host(site: Site) -> None:
    client = await site.client()
    await client.send(b"GET /a HTTP/1.0\r\n\r\n")
    assert await client.answer() == (200, b"/a ")


@pytest.mark.parametrize("after", [b"x", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"\r\n"])
@pytest.mark.parametrize("later", [False, True])
async def test_a_byte_after_the_last_request_loses_no_answer(
    site: Site, after: bytes, later: bool
) -> None:
    """`Connection: close` says that nothing follows; bytes that follow are not read."""
    site.handle = lambda exchange: None
    client = await site.client()
    last = b"POST /a" + HOST + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"
    await client.send(last if later else last + after)
    await until(lambda: site.exchanges, "it has come")
    if later:
        await client.send(after)
        await asyncio.sleep(0.02)
    assert not site.exchanges[0].gone
    site.echo(site.exchanges[0])
    assert await client.answer() == (200, b"/a ok")
    assert await client.rest() == b""


async def test_no_more_than_a_few_requests_are_read_ahead(site: Site) -> None:
    """The connection is not read further while so many wait, because they would fill the memory."""
    site.handle = lambda exchange: None
    client = await site.client()
    for number in range(100):
        await client.send(b"GET /%d" % number + HOST + b"\r\n")
        await asyncio.sleep(0.001)
    (connection,) = site.server.connections
    assert len(connection._next) <= 10  # a number of its own: a bound of thousands is none


def refuse(method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> Any:
    if known.get(b"authorization") != b"let me in":
        raise RequestRefused(401, [], b"who are you?")
    return "a pass"


async def test_a_screen_decides_before_the_body_is_kept(site: Site) -> None:
    """A refused request with a small body is answered in order and its connection is kept; a large
    body is not waited for."""
    site.server.screen = refuse
    client = await site.client()
    good = b"POST /g" + HOST + b"Authorization: let me in\r\nContent-Length: 2\r\n\r\nok"
    small = b"POST /s" + HOST + b"Content-Length: 5\r\n\r\nsmall"
    await client.send(good + small + good)
    answers = [await client.answer() for _ in range(3)]
    assert answers == [(200, b"/g ok"), (401, b"who are you?"), (200, b"/g ok")]
    assert [each.permission for each in site.exchanges] == ["a pass"] * 2
    for large in (
        b"Content-Length: %d\r\n\r\n" % (REFUSED_BODY_BYTES + 1),
        b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % 2**30 + b"x" * (REFUSED_BODY_BYTES + 1),
    ):
        client = await site.client()
        await client.send(b"POST /l" + HOST + large)
        assert await client.answer() == (401, b"who are you?")
        assert await client.rest() == b""
    assert site.server.buffered == 0


async def test_all_bodies_together_are_bounded(make_site: MakeSite) -> None:
    """A request beyond the limit gets 503; the earlier ones are answered, and then there is room
    again."""
    site = await make_site(buffered_bytes=250_000)
    site.handle = lambda exchange: None
    clients = [await site.client() for _ in range(3)]
    whole = b"POST /b" + HOST + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000
    for client in clients[:2]:
        await client.send(whole)
    await until(lambda: len(site.exchanges) == 2, "two are waiting")
    assert site.server.buffered == 200_000
    await clients[2].send(whole)
    assert (await clients[2].answer())[0] == 503
    site.handle = site.echo
    for exchange in site.exchanges:
        site.echo(exchange)
    for client in clients[:2]:
        assert (await client.answer())[0] == 200
    assert site.server.buffered == 0
    again = await site.client()
    await again.send(whole)
    assert (await again.answer())[0] == 200
    half = await site.client()
    await half.send(whole[:50_000])
    await until(lambda: site.server.buffered > 40_000, "half of it is there")
    half.writer.transport.abort()
    await until(lambda: site.server.buffered == 0, "it is given back")


class Wire:
    """Transport of a lost connection."""

    def set_write_buffer_limits(self, high: int) -> None:
        """Accept any limits."""

    def get_extra_info(self, name: str) -> Any:
        """Return None, as nothing is known."""

    def write(self, data: bytes) -> None:
        """Discard the data."""

    def write_eof(self) -> None:
        """Do nothing."""

    def is_closing(self) -> bool:
        return False


@pytest.mark.usefixtures("uncollected")
async def test_an_aborted_body_is_freed_without_the_garbage_collector(site: Site) -> None:
    head = b"POST /b" + HOST + b"Content-Length: 15000000\r\n\r\n"
    tracemalloc.start()
    try:
        for _ in range(3):
            connection = Connection(site.server)
            connection.connection_made(Wire())  # type: ignore[arg-type]
            connection.data_received(head)
            for _ in range(100):
                connection.data_received(bytes(100_000))
            connection.connection_lost(None)
            del connection
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()
    assert site.server.buffered == 0


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("kind", ["screen", "parser"])
async def test_a_refused_connection_is_freed_without_the_garbage_collector(
    site: Site, kind: str
) -> None:
    """Fuzzing discovered it: the refusal's frames kept the connection alive, 425,000 objects in 40
    s."""

    def denied(*_: object) -> None:
        try:
            raise ValueError("denied")
        except ValueError:
            raise RequestRefused(403, [], b"no") from None

    if kind == "screen":
        site.server.screen = denied
    data = b"POST /b" + HOST + b"Content-Length: 1\r\n\r\nx"
    connection = Connection(site.server)
    connection.connection_made(Wire())  # type: ignore[arg-type]
    connection.data_received(data if kind == "screen" else data.replace(b": 1", b": 999999999"))
    connection.connection_lost(None)
    gone = weakref.ref(connection)
    del connection
    assert gone() is None


async def test_one_fault_at_the_end_is_not_the_next_ones(site: Site) -> None:
    """A request that waits behind one whose owner fails is still notified that the client has
    gone."""
    told: list[bytes] = []
    reported: list[Any] = []

    def note(exchange: Exchange) -> None:
        def gone() -> None:
            told.append(exchange.target)
            raise RuntimeError("a bug")

        exchange.on_gone = gone

    site.handle = note
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    client = await site.client()
    await client.send(b"GET /1" + HOST + b"\r\n")
    await until(lambda: site.exchanges, "it has come")
    (connection,) = site.server.connections
    second = Exchange(connection, b"GET", b"/2", [], b"")
    note(second)
    connection._next.append(second)
    client.writer.transport.abort()
    await until(lambda: len(told) == 2, "both were told")
    assert (told, len(reported)) == ([b"/1", b"/2"], 2)
    asyncio.get_running_loop().set_exception_handler(None)


def test_the_limits_have_a_bound_for_all_together() -> None:
    limits = ServerLimits()
    assert limits.buffered_bytes <= 2**30 < limits.body_bytes * limits.connections
