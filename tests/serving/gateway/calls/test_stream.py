"""Tests of endless streams: bounded, with work per piece proportional to its length.

This was an attack: one unterminated event of 48 MB stalled the gateway for 39 s.
"""

import time
from typing import Any

import orjson
import pytest

from tests.serving.conftest import Bench, released, until
from tests.serving.gateway.raw_engine import STREAM_HEAD, ReceivedRequest, Wire, chunk
from tutti.tasks.serving.gateway.calls import stream as gateway_stream
from tutti.tasks.serving.gateway.calls.record import ReportedUsage
from tutti.tasks.serving.gateway.calls.stream import (
    EventFilter,
    StreamedAnswer,
    StreamTooLong,
)


def endless(piece: bytes) -> Any:

    async def reply(_: ReceivedRequest, wire: Wire) -> None:
        await wire.write(STREAM_HEAD + chunk(b"data: "))
        try:
            while True:
                await wire.write(chunk(piece))
        except ConnectionError:
            wire.close()

    return reply


async def test_an_event_without_an_end_ends_the_call(
    raw: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream is cut and recorded as the engine's fault, and the gateway continues."""
    monkeypatch.setattr(gateway_stream, "MAX_EVENT_BYTES", 300_000)
    raw.engine.reply = endless(b"x" * 4096)
    answer = await raw.chat("p", stream=True)
    with pytest.raises(Exception, match="payload"):
        await answer.read()
    await until(lambda: not raw.gateway.in_flight, "it is over")
    (row,) = await raw.calls()
    assert (row["status"], row["http_status"]) == ("infra_error", 502)
    await released(raw.gateway)


@pytest.mark.parametrize("piece_bytes", [100, 5000])
def test_a_long_stream_keeps_the_usage_of_its_first_event(piece_bytes: int) -> None:
    """Anthropic's stream has the prompt's tokens first and the response's last; later values take
    precedence."""
    start = {"input_tokens": 700, "cache_read_input_tokens": 300, "output_tokens": 1}
    said = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x" * 500}}
    usage = {"output_tokens": 9000}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    events: list[Any] = [{"type": "message_start", "message": {"id": "m", "usage": start}}]
    events += [said] * (2 * gateway_stream.END_BYTES // 500)
    events += [ended, {"type": "message_stop"}]
    whole = b"".join(b"event: x\ndata: %b\n\n" % orjson.dumps(event) for event in events)
    stream, reported = StreamedAnswer([], strip=False), ReportedUsage()
    for at in range(0, len(whole), piece_bytes):
        stream.take(whole[at : at + piece_bytes])
    stream.read_usage(reported)
    assert (reported.prompt, reported.cached, reported.completion) == (1000, 300, 9000)
    assert reported.finish_reason == "end_turn"


def test_a_stream_has_a_bound_whatever_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_stream, "MAX_STREAM_BYTES", 100_000)
    for piece in (b"x", b"data: x\n\n" * 100):
        stream = StreamedAnswer([], strip=False)
        with pytest.raises(StreamTooLong):
            for _ in range(100_000):
                stream.take(piece)


def test_the_work_for_a_piece_does_not_grow() -> None:
    """For one event of a million single bytes, a piece takes as long at the end as at the
    beginning, in CPU time of the thread."""
    stream, times = EventFilter((b'"usage"',), bytes), []
    for _ in range(10):
        began = time.thread_time()
        for _ in range(100_000):
            stream.take(b"x")
        times.append(time.thread_time() - began)
    assert min(times[5:]) < 4 * min(times[:5])
