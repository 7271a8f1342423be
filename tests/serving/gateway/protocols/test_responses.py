"""Tests of the Responses API's items converted to our messages, and of contexts kept by its
server."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.conftest import Bench
from tests.serving.gateway.protocols.check import rows_of
from tests.serving.gateway.raw_engine import answering, event, streaming, whole
from tutti.storage import KeptContext
from tutti.tasks.serving.gateway.protocols import (
    read_answer,
    read_context,
    read_prompt,
)

RESPONSES = "/v1/responses"


def part(said: str, kind: str = "output_text") -> dict[str, Any]:
    return {"type": kind, "text": said}


def called(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "add", "arguments": arguments}


def test_an_input_of_items() -> None:
    """The items of a turn are one message; outputs of tools are separate messages."""
    items = [
        {"role": "developer", "content": "be brief"},
        {"type": "message", "role": "user", "content": [part("1 + 2?", "input_text")]},
        {"type": "reasoning", "summary": [part("a sum"), part("of two")], "encrypted_content": "x"},
        called("c1"),
        called("c2", '{"a":1}'),
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [part("4", "input_text")]},
        {"type": "message", "role": "assistant", "content": [part("It is "), part("3.")]},
        {"type": "custom_tool_call", "call_id": "c3", "name": "sh", "input": "ls"},
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "q"}},
        {"type": "mcp_approval_response", "approve": True},
    ]
    found = rows_of(read_prompt("responses", {"instructions": "well", "input": items}))
    assert [(row["role"], row["content"]) for row in found] == [
        ("system", "well"), ("developer", "be brief"), ("user", "1 + 2?"), ("assistant", None),
        ("tool", "3"), ("tool", "4"), ("assistant", "It is 3."),
        ("user", '[{"type":"mcp_approval_response","approve":true}]'),
    ]  # fmt: skip
    assert found[3]["reasoning"] == "a sum\n\nof two"
    assert [call["id"] for call in found[3]["tool_calls"]] == ["c1", "c2"]
    assert [row["tool_call_id"] for row in found[4:6]] == ["c1", "c2"]
    assert found[6]["tool_calls"] == [
        {"id": "c3", "name": "sh", "arguments": "ls"},
        {"id": "ws", "name": "web_search", "arguments": '{"action":{"query":"q"}}'},
    ]


def test_bodies_that_are_no_conversation() -> None:
    """Such bodies have no input, or items that no API defines; a continued call needs no input."""
    for body in ({}, {"input": 5}, {"input": ["a"]}, {"input": None, "instructions": "x"}):
        assert read_prompt("responses", body) is None
    assert read_prompt("responses", {"previous_response_id": "r1"}) == []


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ({}, KeptContext(None, ("r2",))),
        ({"store": False}, KeptContext()),
        ({"previous_response_id": "r1", "instructions": "x"}, KeptContext("r1", ("r2",), 1)),
        ({"conversation": {"id": "conv"}}, KeptContext("conv", ("r2", "conv"))),
        ({"conversation": "conv"}, KeptContext("conv", ("r2", "conv"))),
    ],
)
def test_how_calls_name_contexts(body: dict[str, Any], kept: KeptContext) -> None:
    answer = read_answer("responses", [{"object": "response", "id": "r2"}])
    assert read_context("responses", body, answer) == kept
    assert read_context("chat/completions", body, answer) is None


CUT_SHORT: list[Any] = [
    {"type": "response.created", "response": {"object": "response", "id": "r1", "output": []}},
    {"type": "response.output_item.added", "output_index": 0,
     "item": {"type": "reasoning", "summary": [], "content": []}},
    {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "a "},
    {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "sum"},
    {"type": "response.output_item.done", "output_index": 1, "item": called("c1", '{"a":1}')},
    {"type": "response.output_item.added", "output_index": 2, "item": called("c2", "")},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"b'},
    {"type": "response.output_text.delta", "output_index": 3, "delta": "It"},
    {"type": "response.output_text.delta", "output_index": 3, "delta": " is"},
]  # fmt: skip


async def test_a_stream_that_is_cut_off(raw: Bench) -> None:
    """The part that the client received is recorded, and the next call can continue it."""
    raw.engine.reply = streaming(*map(event, CUT_SHORT))
    answer = await raw.chat("p", path=RESPONSES, stream=True, input="1 + 2?")
    await answer.read()
    *_, last = await raw.rows("select * from transcript('p')")
    assert (last["reasoning"], last["content"]) == ("a sum", "It is")
    assert [call["arguments"] for call in last["tool_calls"]] == ['{"a":1}', '{"b']
    await (await raw.chat("p", path=RESPONSES, input="go on", previous_response_id="r1")).read()
    rows = await raw.rows("select content from transcript('p')")
    assert [row["content"] for row in rows] == ["1 + 2?", "It is", "go on", "It is"]
    *_, call = await raw.calls()
    assert call["prompt_spans"] == [{"first": 0, "last": 2}]


async def test_a_context_of_a_program_that_is_not_known_here(raw: Bench) -> None:
    output = [{"type": "message", "role": "assistant", "content": [part("hi")]}]
    raw.engine.reply = answering(whole({"object": "response", "id": "r2", "output": output}))
    await (await raw.chat("p", path=RESPONSES, input="go on", previous_response_id="r1")).read()
    rows = await raw.rows("select role, content from transcript('p')")
    assert [(row["role"], row["content"]) for row in rows] == [
        ("user", "go on"), ("assistant", "hi"),
    ]  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
TYPES = st.sampled_from(
    "message reasoning function_call web_search_call function_call_output item_reference text "
    "thinking tool_use tool_result content_block_start content_block_delta text_delta "
    "response.output_text.delta response.output_item.done response.completed".split()
)
ODD: st.SearchStrategy[Any] = st.recursive(
    JSON,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries(
            {},
            optional={"type": TYPES | JSON, "role": st.sampled_from(["user", "assistant"]) | JSON}
            | dict.fromkeys(
                "content messages input system instructions output item items response delta text "
                "content_block index output_index arguments name call_id id object summary thread "
                "previous_message_id".split(),
                inner,
            ),
        )
    ),
    max_leaves=12,
)


@given(kind=st.sampled_from(["messages", "responses", "chat/completions"]), body=ODD, events=ODD)
def test_nothing_that_a_client_or_an_engine_sends_fails(kind: str, body: Any, events: Any) -> None:
    """A call with a malformed body is recorded at least as a call, because an error would lose its
    row."""
    fields = body if isinstance(body, dict) else {"messages": body, "input": body}
    said = read_answer(kind, events if isinstance(events, list) else [events])
    prompt = read_prompt(kind, fields)
    kept = read_context(kind, fields, said)
    assert kept is None or isinstance(kept.lead, int)
    rows_of([*(prompt or ()), said.message()])
