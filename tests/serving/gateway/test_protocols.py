"""Tests of every protocol, whole and streamed: the client's response, the forwarded request, and
the recorded values."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.conftest import Bench, until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import (
    COMPLETION,
    DONE,
    USAGE,
    RawEngine,
    answering,
    delta,
    event,
    streaming,
    whole,
)
from tutti.tasks.serving.gateway.calls.access import Access
from tutti.tasks.serving.gateway.calls.record import ReportedUsage
from tutti.tasks.serving.gateway.calls.stream import StreamedAnswer

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
RESPONSE = {
    "object": "response",
    "status": "completed",
    "output": [],
    "usage": {
        "input_tokens": 120,
        "output_tokens": 30,
        "input_tokens_details": {"cached_tokens": 96},
    },
}
CUT_SHORT = RESPONSE | {
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
}
CLAUDE = {
    "type": "message",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 14,
        "cache_read_input_tokens": 96,
        "cache_creation_input_tokens": 10,
        "output_tokens": 30,
    },
}
EMBEDDED = {"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 120, "total_tokens": 120}}
TEXT_WHOLE = {"choices": [{"index": 0, "text": "hi", "finish_reason": "length"}], "usage": USAGE}


@pytest.mark.parametrize(
    ("path", "said", "read"),
    [
        (CHAT, COMPLETION, (120, 96, 30, "stop")),
        (TEXT, TEXT_WHOLE, (120, 96, 30, "length")),
        ("/v1/responses", RESPONSE, (120, 96, 30, "completed")),
        ("/v1/responses", CUT_SHORT, (120, 96, 30, "max_output_tokens")),
        ("/v1/embeddings", EMBEDDED, (120, None, None, None)),
        ("/v1/messages", CLAUDE, (120, 96, 30, "end_turn")),
        (CHAT, COMPLETION | {"usage": None}, (None, None, None, "stop")),
    ],
)
async def test_whole_answers(raw: Bench, path: str, said: Any, read: Any) -> None:
    raw.engine.reply = answering(whole(said))
    answer = await raw.chat("p", path=path, stream=False)
    assert await answer.read() == json.dumps(said).encode()
    (row,) = await raw.calls()
    names = ("prompt_tokens", "cached_tokens", "completion_tokens", "finish_reason")
    assert tuple(row[name] for name in names) == read


def claude_events() -> list[bytes]:
    start = {"type": "message_start", "message": CLAUDE | {"stop_reason": None}}
    start["message"] |= {"usage": CLAUDE["usage"] | {"output_tokens": 1}}  # type: ignore[operator]
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}}
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 30},
    }
    names = ("message_start", *["content_block_delta"] * 8, "message_delta")
    said = (start, *[text] * 8, end)
    pairs = zip(names, said, strict=True)
    return [f"event: {name}\n".encode() + event(fields) for name, fields in pairs]


def response_events(last: Any) -> list[bytes]:
    begun = RESPONSE | {"status": "in_progress", "usage": None}
    return [
        b"event: response.created\n" + event({"type": "response.created", "response": begun}),
        event({"type": "response.output_text.delta", "delta": "hi"}),
        event({"type": f"response.{last['status']}", "response": last}),
    ]


@pytest.mark.parametrize(
    ("path", "events", "read"),
    [
        (CHAT, [delta("h"), delta("i", "stop"), event({"choices": [], "usage": USAGE}), DONE],
         (120, 96, 30, "stop")),
        (TEXT, [event(TEXT_WHOLE), DONE], (120, 96, 30, "length")),
        ("/v1/responses", response_events(RESPONSE), (120, 96, 30, "completed")),
        ("/v1/responses", response_events(CUT_SHORT), (120, 96, 30, "max_output_tokens")),
        ("/v1/messages", claude_events(), (120, 96, 30, "end_turn")),
    ],
)  # fmt: skip
async def test_streams(raw: Bench, path: str, events: list[bytes], read: Any) -> None:
    """The result equals that of whole responses, for a client that requested usage where that is
    possible."""
    raw.engine.reply = streaming(*events, pause_s=0.001)
    options = {"include_usage": True}
    answer = await raw.chat("p", path=path, stream=True, stream_options=options)
    assert await answer.read() == b"".join(events)
    (row,) = await raw.calls()
    names = ("prompt_tokens", "cached_tokens", "completion_tokens", "finish_reason")
    assert tuple(row[name] for name in names) == read
    assert row["ttft_s"] is not None and row["status"] == "ok"


async def test_usage_in_every_event_is_right_in_the_last(raw: Bench) -> None:
    """Reference bug 15: the first event has only the prompt's tokens; the cache details come at the
    end."""
    growing = [
        delta("x", usage={"prompt_tokens": 100, "completion_tokens": n, "total_tokens": 100 + n})
        for n in range(1, 40)
    ]
    last = event(
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 500,
                "prompt_tokens_details": {"cached_tokens": 64},
            },
        }
    )
    raw.engine.reply = streaming(*growing, delta("y", "stop"), last, DONE)
    await (await raw.chat("p", stream=True)).read()
    (row,) = await raw.calls()
    found = (row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"])
    assert found == (100, 500, 64)
    assert raw.programs["p"].context_tokens == 600


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"other": 1}])
async def test_usage_is_asked_for_and_not_shown_to_who_did_not(
    raw: Bench, path: str, options: Any
) -> None:
    """The gateway requests usage; a client that did not gets the stream without it."""
    usage = event({"choices": [], "usage": USAGE})
    raw.engine.reply = streaming(delta("h"), delta("i", "stop") + usage, DONE)
    fields = {} if options is None else {"stream_options": options}
    answer = await raw.chat("p", path=path, stream=True, **fields)
    assert await answer.read() == delta("h") + delta("i", "stop") + DONE
    asked = raw.engine.asked[-1].json()
    assert asked["stream_options"] == (options or {}) | {"include_usage": True}
    assert (await raw.calls())[0]["completion_tokens"] == 30


@pytest.mark.parametrize(
    ("path", "fields"),
    [(CHAT, {}), ("/v1/messages", {"stream": True}), ("/v1/responses", {"stream": True})],
)
async def test_usage_is_not_asked_for_where_that_is_no_field(
    raw: Bench, path: str, fields: Any
) -> None:
    await raw.chat("p", path=path, **fields)
    assert "stream_options" not in raw.engine.asked[-1].json()


def through(pieces: list[bytes]) -> bytes:
    """Return the client's bytes of a stream for which it did not request usage."""
    stream = StreamedAnswer([], strip=True)
    return b"".join([*map(stream.take, pieces), stream.rest()])


def _usage(newline: bytes) -> bytes:
    said = {"choices": [], "usage": {"prompt_tokens": 3}}
    return b"data: " + orjson.dumps(said) + newline * 2


@given(
    newline=st.sampled_from([b"\n", b"\r\n"]),
    texts=st.lists(st.sampled_from(["a", '"usage"', "choices\\n\\n", "é", ""]), max_size=5),
    place=st.integers(0, 5),
    cuts=st.lists(st.integers(0, 600), max_size=20),
)
def test_any_split_of_a_stream_gives_the_same_bytes(
    newline: bytes, texts: list[str], place: int, cuts: list[int]
) -> None:
    """The hidden event is removed; comments, event names and both kinds of line ends are kept."""
    events = [
        b"data: " + orjson.dumps({"choices": [{"delta": {"content": text}}]}) + newline * 2
        for text in texts
    ]
    events = [b": ping" + newline * 2, *events, b"data: [DONE]" + newline * 2]
    expected = b"".join(events)
    events.insert(1 + place % len(texts or "x"), _usage(newline))
    sent = b"".join(events)
    edges = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    pieces = [sent[a:b] for a, b in pairwise(edges)]
    assert through(pieces) == expected


async def test_a_stream_passes_as_it_comes(raw: Bench) -> None:
    """An event is not delayed until the next one, with either kind of line end."""
    for newline in (b"\n\n", b"\r\n\r\n"):
        gate = asyncio.Event()

        async def reply(asked: Any, wire: Any, newline: bytes = newline, gate: Any = gate) -> None:
            unended: Any = _Unended(wire)
            await streaming(delta("h").strip() + newline)(asked, unended)
            await gate.wait()
            await wire.write(b"0\r\n\r\n")

        raw.engine.reply = reply
        answer = await raw.chat("p", stream=True)
        got = await asyncio.wait_for(answer.content.readany(), 60)
        assert got == delta("h").strip() + newline
        gate.set()
        await answer.read()


class _Unended:
    """Wire that drops the last chunk."""

    def __init__(self, wire: Any) -> None:
        self.wire = wire

    async def write(self, data: bytes) -> None:
        if data != b"0\r\n\r\n":
            await self.wire.write(data)


async def test_headers_and_fields_that_nobody_knows_pass_both_ways(raw: Bench) -> None:
    """Exceptions are hop-by-hop headers and compression, which the gateway does not decode."""
    raw.engine.reply = answering(whole(COMPLETION, headers="X-Request-Id: r1\r\nKeep-Alive: 5\r\n"))
    headers = {"X-Custom": "a, b;c", "traceparent": "00-1", "TE": "trailers"}
    answer = await raw.chat("p", headers=headers, odd={"a": [1]}, priority=-3)
    assert answer.headers["X-Request-Id"] == "r1"
    assert "Keep-Alive" not in answer.headers
    (asked,) = raw.engine.asked
    assert asked.headers["x-custom"] == "a, b;c" and asked.headers["traceparent"] == "00-1"
    assert "te" not in asked.headers and "accept-encoding" not in asked.headers
    assert (asked.json()["odd"], asked.json()["priority"]) == ({"a": [1]}, -3)


async def test_the_query_passes_and_the_program_does_not(raw: Bench) -> None:
    """Anthropic's clients send `?beta=true`; the program part of the path is for the gateway
    only."""
    await raw.chat(path="/p/mine/v1/messages?beta=true")
    assert raw.engine.asked[0].path == "/v1/messages?beta=true"
    assert list(raw.programs) == ["mine"]


@pytest.mark.parametrize(
    ("path", "there"), [("/v1/tokenize", "/tokenize"), ("/p/a/tokenize", "/tokenize")]
)
async def test_tokenize_passes_unscheduled(raw: Bench, path: str, there: str) -> None:
    raw.engine.reply = answering(whole({"count": 3}))
    answer = await raw.chat(path=path, prompt="abc")
    assert (await answer.json()) == {"count": 3}
    assert raw.engine.asked[0].path == there
    assert raw.programs == {} and await raw.calls() == []


@pytest.mark.parametrize("path", ["/p/a/reset_prefix_cache", "/p/a/shutdown", "/sleep", "/p//v1/x"])
async def test_engines_own_orders_are_not_passed_on(raw: Bench, path: str) -> None:
    assert (await raw.chat(path=path)).status in (400, 404)
    assert raw.engine.asked == []


async def test_an_adapter_is_loaded_on_every_engine_of_the_pool(
    make_raw: MakeRaw, engines: tuple[RawEngine, RawEngine]
) -> None:
    """A call for it may go to any of them; a client that may only call a model may not change
    engines."""
    bench = await make_raw(*engines, access=Access("c:call:c-secret a:admin+call:a-secret"))
    for engine in engines:
        engine.reply = answering(whole({}))
        engine.models = ("m", "mine")
    order = {"lora_name": "mine", "lora_path": "/somewhere"}
    found = {}
    for name in ("c", "a"):
        headers = {"Authorization": f"Bearer {name}-secret"}
        answer = await bench.client.post("/v1/load_lora_adapter", json=order, headers=headers)
        found[name] = answer.status
    assert found == {"c": 403, "a": 200}
    assert [len(engine.asked) for engine in engines] == [1, 1]
    assert all("mine" in each.models for each in bench.gateway.pools.all_endpoints())


async def test_an_engine_that_refuses_an_adapter_is_heard(
    make_raw: MakeRaw, engines: tuple[RawEngine, RawEngine]
) -> None:
    bench = await make_raw(*engines, access=Access("a:admin+call:a-secret"))
    headers = {"Authorization": "Bearer a-secret"}
    order = {"lora_name": "mine"}
    for refusing in engines:
        for engine in engines:
            engine.reply = answering(whole({}, 404 if engine is refusing else 200))
        answer = await bench.client.post("/v1/load_lora_adapter", json=order, headers=headers)
        assert answer.status == 404


async def test_models_of_several_engines_are_listed_once(
    make_raw: MakeRaw, engines: tuple[RawEngine, RawEngine]
) -> None:
    one, other = engines
    other.models = ("m", "adapter")
    bench = await make_raw(one, other)
    await until(lambda: all(e.models for e in bench.gateway.pools.all_endpoints()), "all are known")
    answer = await (await bench.client.get("/v1/models")).json()
    assert [model["id"] for model in answer["data"]] == ["adapter", "m"]


async def test_a_head_request_is_answered_without_a_body(raw: Bench) -> None:
    for path in ("/health", "/v1/models"):
        answer = await raw.client.head(path)
        assert (answer.status, await answer.read()) == (200, b"")


@given(st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(
    st.sampled_from(["usage", "choices", "delta", "message", "response", "prompt_tokens",
                     "input_tokens_details", "finish_reason", "object", "status"]), inner
) | st.lists(inner, max_size=2), max_leaves=12))  # fmt: skip
def test_answers_of_odd_shapes_are_no_error(said: Any) -> None:
    reported = ReportedUsage()
    reported.read(json.dumps(said).encode())
    reported.read(b"{broken")
    assert reported.usage is None or reported.usage.prompt >= 0
