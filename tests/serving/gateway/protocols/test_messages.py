"""Tests of Anthropic's messages converted to ours: prompts, responses, and truncated streams."""

from typing import Any

import pytest

from tests.serving.gateway.protocols.check import rows_of
from tutti.storage import KeptContext
from tutti.tasks.serving.gateway.protocols import (
    read_answer,
    read_context,
    read_prompt,
)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def test_a_prompt_in_blocks() -> None:
    """Results of tools are separate messages, in the order of the blocks."""
    use = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}
    image = {"type": "image", "source": {"type": "url", "url": "http://x"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("3")]}
    body = {
        "system": [text("be brief")],
        "messages": [
            {"role": "user", "content": [text("look"), image | {"cache_control": {}}]},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, use]},
            {"role": "user", "content": [result, text("go on")]},
            {"role": "assistant", "content": "{"},
        ],
    }
    found = rows_of(read_prompt("messages", body))
    parts = (
        '[{"type":"text","text":"look"},{"type":"image","source":{"type":"url","url":"http://x"}}]'
    )
    assert [(row["role"], row["content"]) for row in found] == [
        ("system", "be brief"), ("user", parts), ("assistant", None), ("tool", "3"),
        ("user", "go on"), ("assistant", "{"),
    ]  # fmt: skip
    assert found[2]["tool_calls"] == [{"id": "t1", "name": "add", "arguments": '{"a":1}'}]
    assert found[3]["tool_call_id"] == "t1"


def test_bodies_that_are_no_conversation() -> None:
    for messages in (None, "hello", [5]):
        assert read_prompt("messages", {"messages": messages}) is None


def test_a_stream_that_is_cut_off() -> None:
    """The received part is recorded, and an unfinished call is recorded as text."""
    use = {"type": "tool_use", "id": "t1", "name": "add", "input": {}}
    events: list[Any] = [
        {"type": "content_block_start", "index": 1, "content_block": use},
        {"type": "content_block_delta", "index": 1,
         "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
        # An engine that does not begin its blocks.
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "le"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "t"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta"}},
        {"type": "ping"}, 5, {"type": "content_block_delta", "delta": 3},
    ]  # fmt: skip
    (found,) = rows_of([read_answer("messages", events).message()])
    assert found["content"] == "let"
    assert found["tool_calls"] == [{"id": "t1", "name": "add", "arguments": '{"a":'}]
    assert read_answer("messages", [{"type": "ping"}]).message() is None


def test_results_of_the_servers_own_tools_stay_in_the_answer() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    said = {"type": "message", "role": "assistant", "content": [search, result, text("found")]}
    (found,) = rows_of([read_answer("messages", [said]).message()])
    assert found["tool_calls"][0]["name"] == "web_search"
    assert "web_search_tool_result" in found["content"] and "found" in found["content"]


@pytest.mark.parametrize(
    ("thread", "kept"),
    [
        (None, None),
        ({"type": "create"}, KeptContext(None, ("m2",))),
        ({"type": "continue", "previous_message_id": "m1"}, KeptContext("m1", ("m2",))),
        ({"type": "continue", "previous_message_id": 5}, KeptContext(None, ("m2",))),
    ],
)
def test_how_calls_name_threads(thread: Any, kept: KeptContext | None) -> None:
    whole = {"type": "message", "id": "m2", "content": []}
    for said in (whole, {"type": "message_start", "message": whole}):
        answer = read_answer("messages", [said, {"type": "ping", "id": 7}])
        assert read_context("messages", {"thread": thread}, answer) == kept
    assert read_context("messages", {}) is None
