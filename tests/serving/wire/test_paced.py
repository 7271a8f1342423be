"""Tests that one turn of the event loop processes a bounded share of its input and batches its
writes."""

import asyncio
from collections import Counter

import pytest

from tests.serving.conftest import until
from tests.serving.gateway.raw_engine import LAST_CHUNK, STREAM_HEAD, answering, chunk, raw_engine
from tests.serving.wire.test_client import RecordingReceiver
from tests.serving.wire.test_server import HOST, MakeSite, Site, make_site, site
from tutti.tasks.serving.wire.client import (
    AnswerReceiver,
    ClientConnection,
    Origin,
    OutgoingRequest,
    ask,
)
from tutti.tasks.serving.wire.connection import MAX_PIPELINED, TURN_PIECES, Connection, ServerLimits
from tutti.tasks.serving.wire.exchange import Exchange
from tutti.tasks.serving.wire.paced import TURN_BYTES, Outbox, PacedProtocol, outbox
from tutti.tasks.serving.wire.server import Server

__all__ = ["make_site", "site"]  # fixtures


class Turns:
    """Bytes that connections of a kind process per turn of the loop."""

    def __init__(self, kind: type[PacedProtocol], monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: Counter[int] = Counter()
        self.number = 0
        take = kind.take

        def note(connection: PacedProtocol, data: bytes) -> int:
            taken = take(connection, data)
            self.taken[self.number] += taken
            return taken

        monkeypatch.setattr(kind, "take", note)
        self._beat()

    def _beat(self) -> None:
        self.number += 1
        asyncio.get_running_loop().call_soon(self._beat)


GET = b"GET /%d" + HOST
UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"


@pytest.mark.parametrize("more", [b"", UPGRADE])
async def test_all_requests_of_one_segment_are_answered(
    site: Site, monkeypatch: pytest.MonkeyPatch, more: bytes
) -> None:
    """Of 487 upgrades the last used to get no response, and 40,000 requests were parsed in one
    turn."""
    turns, client, count = Turns(Connection, monkeypatch), await site.client(), 1200
    await client.send(b"".join([GET % number + more + b"\r\n" for number in range(count)]))
    answers = [(await client.answer())[1] for _ in range(count)]
    assert answers == [b"/%d " % number for number in range(count)]
    whole = len(GET % 1000 + more + b"\r\n")
    assert max(turns.taken.values()) <= whole * TURN_PIECES


async def test_the_requests_that_wait_are_not_parsed(site: Site) -> None:
    site.handle = lambda exchange: None
    client = await site.client()
    await client.send(b"".join([GET % number + b"\r\n" for number in range(500)]))
    await until(lambda: site.exchanges, "the first has come")
    await asyncio.sleep(0.02)
    (connection,) = site.server.connections
    assert len(connection._next) == MAX_PIPELINED


async def test_a_body_of_tiny_chunks_is_read_in_turns(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 MiB of tiny chunks took .7 s of one turn; a body of known length is not slowed down."""
    turns, client, body = Turns(Connection, monkeypatch), await site.client(), b"x" * 100_000
    head = b"POST /c" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    await client.send(head + b"1\r\nx\r\n" * len(body) + LAST_CHUNK)
    assert await client.answer() == (200, b"/c " + body)
    assert max(turns.taken.values()) <= TURN_BYTES
    await client.send(b"POST /c" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert await client.answer() == (200, b"/c " + body)


class Wire(asyncio.Transport):
    """Transport that writes nowhere."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Accept any limits."""

    def is_closing(self) -> bool:
        return False

    def write(self, data: object) -> None:
        """Discard the data."""

    def write_eof(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


async def test_requests_are_the_same_wherever_their_bytes_are_cut(site: Site) -> None:
    """The bytes are cut into three parts at every place; heads, bodies and chunks have the same
    ends."""
    sent = b"POST /1" + HOST + b"Content-Length: 4\r\n\r\n\r\n\r\n"
    sent += b"POST /2" + HOST + b"Transfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n"
    sent += b"POST /3" + HOST + UPGRADE + b"Content-Length: 2\r\n\r\nok" + GET % 4 + b"\r\n"
    wanted = [(b"/1", b"\r\n\r\n"), (b"/2", b"\r\n\r\n"), (b"/3", b"ok"), (b"/4", b"")]
    for first in range(len(sent)):
        for length in (1, 2, 3, 30):
            site.exchanges.clear()
            connection = Connection(site.server)
            connection.connection_made(Wire())
            for at, end in ((0, first), (first, first + length), (first + length, len(sent))):
                connection.data_received(sent[at:end])
            found = [(exchange.target, exchange.body) for exchange in site.exchanges]
            assert found == wanted, (first, length)
            connection.connection_lost(None)
            await asyncio.sleep(0)


class Receiver(AnswerReceiver):
    """Receiver that counts its pieces and can pause after the first."""

    count = 0
    pauses = False
    request: OutgoingRequest | None = None

    def on_data(self, data: bytes) -> None:
        self.count += 1
        super().on_data(data)
        if self.pauses and self.request is not None:
            self.request.pause(True)
            self.pauses = False


async def test_tiny_chunks_of_an_answer_come_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver is called once per turn, not for each of 30,000 chunks; a read is bounded."""
    turns, receiver, count = Turns(ClientConnection, monkeypatch), Receiver(), 30_000
    reply = answering(STREAM_HEAD + chunk(b"sixsix") * count + LAST_CHUNK)
    async with raw_engine(reply=reply) as engine:
        origin = Origin(engine.url)
        answer = await ask(origin, b"POST", b"/", [], b"", receiver)
        await origin.close()
    assert answer.body == b"sixsix" * count
    assert receiver.count <= 200
    assert max(turns.taken.values()) <= TURN_BYTES


async def test_a_paused_answer_goes_on_where_it_stopped() -> None:
    body = bytes(range(256)) * 4096
    async with raw_engine(reply=answering(STREAM_HEAD + chunk(body) + LAST_CHUNK)) as engine:
        origin, receiver = Origin(engine.url), Receiver()
        receiver.pauses = True
        request = receiver.request = origin.send(b"POST", b"/", [], b"", receiver)
        await until(lambda: receiver.count, "it has begun")
        await asyncio.sleep(0.02)
        assert receiver.count == 1 and not receiver.done.done()
        request.pause(False)
        await asyncio.wait_for(receiver.done, 60)
        await origin.close()
    assert b"".join(receiver.pieces) == body


PLAIN = b"GET /a HTTP/1.1"
ODD = b"GET  /a HTTP/1.1\r\nHost: h\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        ODD + b"X: " + PLAIN + b"\r\n\r\n",
        ODD + b"Content-Length: 15\r\n\r\n" + PLAIN,
        ODD + b"\r\n" + PLAIN + b"\r\nHost: h\r\n\r\n",
        PLAIN.replace(b" H", b"  H") + b"\r\nHost: h\r\nX: " + PLAIN + b"\r\n\r\n",
        b"POST /b" + HOST + b"Content-Length: 17\r\n\r\n" + PLAIN + b"\r\n" + ODD + b"\r\n",
        b"POST /b" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        b"f\r\n" + PLAIN + b"\r\n0\r\n\r\n" + ODD + b"\r\n",
    ],
)
@pytest.mark.parametrize("bytewise", [False, True])
async def test_a_request_line_is_judged_where_it_stands(
    make_site: MakeSite, sent: bytes, bytewise: bool
) -> None:
    """A valid request line in a header, a body or the next request does not count."""
    site = await make_site()
    client = await site.client()
    for piece in [bytes([byte]) for byte in sent] if bytewise else [sent]:
        await client.send(piece)
        await asyncio.sleep(0)
    if sent.startswith(b"POST"):
        assert (await client.answer())[0] == 200
    assert (await client.answer())[0] == 400
    assert b"/a" not in [exchange.target for exchange in site.exchanges]


WAIT_S = 10.0
PIECES = [b"%d," % number for number in range(500)]


class Noted(PacedProtocol):
    """Sender that records its flushes."""

    def __init__(self, heard: list[object], error: Exception | None = None) -> None:
        super().__init__()
        self.heard, self.error = heard, error

    def flush(self) -> None:
        self.heard.append(self)
        if self.error is not None:
            raise self.error


async def test_senders_are_flushed_after_all_that_the_turn_heard() -> None:
    """All but the first, which need not wait, are flushed once and in order; each loop has one
    outbox."""
    heard: list[object] = []
    senders = [Noted(heard) for _ in range(3)]
    box = outbox()
    assert box is outbox()
    for sender in senders:
        box.add(sender)
    assert heard == senders[:1]
    await asyncio.sleep(0)
    assert heard == senders
    await asyncio.sleep(0)
    assert heard == senders, "once"
    box.add(senders[0])
    assert heard == [*senders, senders[0]], "a new turn"


async def test_one_that_fails_costs_the_others_nothing() -> None:
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    heard: list[object] = []
    error = ValueError("its own")
    senders = [Noted(heard), Noted(heard, error), Noted(heard), Noted(heard, error), Noted(heard)]
    box = Outbox(loop)
    for sender in senders:
        box.add(sender)
    for _ in range(5):
        await asyncio.sleep(0)
    assert heard == senders
    assert reported == [error, error]


@pytest.mark.parametrize("end", ["end", "abort", "close"])
async def test_what_was_sent_before_the_end_arrives(end: str) -> None:
    """There are many pieces in one turn, followed by the end of the response or of the connection
    in the same turn."""

    def handle(exchange: Exchange) -> None:
        exchange.keep_alive = end != "close"
        exchange.start(200, [])
        for piece in PIECES:
            exchange.send(piece)
        (exchange.abort if end == "abort" else exchange.end)()

    server = Server(handle, ServerLimits())
    port = await server.listen("127.0.0.1", 0)
    origin, heard = Origin(f"http://127.0.0.1:{port}"), RecordingReceiver()
    origin.send(b"GET", b"/", [], b"", heard)
    async with asyncio.timeout(WAIT_S):
        while not heard.over:
            await asyncio.sleep(0.001)
    assert heard.body == b"".join(PIECES)
    assert bool(heard.failure) == (end == "abort"), "a cut is no end"
    await origin.close()
    await server.close(0.0)


async def test_a_request_that_is_cancelled_in_its_turn_is_never_sent() -> None:
    seen: list[bytes] = []

    def handle(exchange: Exchange) -> None:
        seen.append(exchange.target)
        exchange.respond(200, [], b"")

    server = Server(handle, ServerLimits())
    port = await server.listen("127.0.0.1", 0)
    origin = Origin(f"http://127.0.0.1:{port}")
    for path in (b"/warm", b"/unwanted", b"/wanted"):
        heard = RecordingReceiver()
        outbox().add(Noted([]))  # the first of its turn
        request = origin.send(b"GET", path, [], b"", heard)
        if path == b"/unwanted":
            assert request.link is not None, "on the connection that was kept"
            request.cancel()
            continue
        async with asyncio.timeout(WAIT_S):
            while not heard.over:
                await asyncio.sleep(0.001)
    assert seen == [b"/warm", b"/wanted"]
    await origin.close()
    await server.close(0.0)
