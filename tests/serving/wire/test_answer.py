"""Tests of a response that a caller waits for: whole with its times, or a reason."""

import asyncio
import time

import pytest

from tests.serving.conftest import until
from tests.serving.gateway.raw_engine import ReceivedRequest, Wire, raw_engine, whole
from tutti.tasks.serving.wire.client import NoAnswer, Origin, ask


async def test_an_answer_has_its_times_and_headers() -> None:
    """The request is sent after the call, and the response ends after the send; header names are
    case-insensitive."""
    async with raw_engine() as engine:

        async def reply(_: ReceivedRequest, wire: Wire) -> None:
            await asyncio.sleep(0.03)
            await wire.write(whole(b"1", headers="X-SOME: a\r\n"))

        engine.reply, origin, began = reply, Origin(engine.url), time.monotonic()
        answer = await ask(origin, b"POST", b"/", [], b"")
        assert began <= answer.sent_at <= answer.ended_at - 0.03 < time.monotonic()
        assert (answer.status, answer.body) == (200, b"1")
        assert (answer.header(b"x-some"), answer.header(b"x-other")) == ("a", None)
        await origin.close()


async def test_what_was_sent_twice_is_timed_from_the_second() -> None:
    """If a kept connection was closed meanwhile, the times are those of the answered request."""
    async with raw_engine() as engine:
        origin = Origin(engine.url)
        await ask(origin, b"POST", b"/", [], b"")
        closed_at = 0.0

        async def close_first(_: ReceivedRequest, wire: Wire) -> None:
            nonlocal closed_at
            if not closed_at:
                await asyncio.sleep(0.03)
                closed_at = time.monotonic()
                wire.close()
            else:
                await wire.write(whole(b"2"))

        engine.reply = close_first
        answer = await ask(origin, b"POST", b"/", [], b"")
        assert answer.body == b"2" and answer.sent_at > closed_at
        await origin.close()


async def test_a_closed_origin_answers_nothing() -> None:
    async with raw_engine() as engine:
        engine.reply = lambda _, wire: wire.gone()
        origin = Origin(engine.url)
        under_way = asyncio.create_task(ask(origin, b"POST", b"/", [], b""))
        await until(lambda: engine.asked, "it is under way")
        await origin.close()
        with pytest.raises(NoAnswer, match="lost"):
            await asyncio.wait_for(under_way, 60)
        with pytest.raises(NoAnswer, match="closed"):
            await asyncio.wait_for(ask(origin, b"POST", b"/", [], b""), 60)
