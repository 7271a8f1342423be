"""Sends of a turn: the first at once, the others together, once, and none lost at an end."""

import asyncio

import pytest

from tests.serving.wire.test_client import RecordingReceiver
from tutti.tasks.serving.wire.client import Origin
from tutti.tasks.serving.wire.connection import ServerLimits
from tutti.tasks.serving.wire.exchange import Exchange
from tutti.tasks.serving.wire.paced import Outbox, PacedProtocol, outbox
from tutti.tasks.serving.wire.server import Server

WAIT_S = 10.0
PIECES = [b"%d," % number for number in range(500)]


class Noted(PacedProtocol):
    """A sender that notes when it is flushed."""

    def __init__(self, heard: list[object], error: Exception | None = None) -> None:
        super().__init__()
        self.heard, self.error = heard, error

    def flush(self) -> None:
        """Noted, and failed where it should."""
        self.heard.append(self)
        if self.error is not None:
            raise self.error


async def test_senders_are_flushed_after_all_that_the_turn_heard() -> None:
    """All but the first, which need not wait; in order, once; and one loop has one outbox."""
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
    """Its error is the loop's to report."""
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
    """Many pieces in one turn, then the end of the answer or of the connection in the same."""

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
    """Nobody wants it any more when the turn ends."""
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
