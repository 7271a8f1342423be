"""A model that calls a tool and then answers, in the three protocols, whole and streamed.

The engine writes the arguments of a call without spaces; the client libraries parse them, and the
agents of these tests serialise them again with spaces and in another order.
"""

from collections.abc import Iterator
from typing import Any

from tests.serving.gateway.raw_engine import (
    DONE,
    USAGE,
    ReceivedRequest,
    Wire,
    answering,
    event,
    streaming,
    whole,
)

THOUGHT, WORDS, LAST = "They want a sum.", "Let me add.", "It is 3."
ARGUMENTS = '{"a":1,"b":2.0}'
CALL_ID = "call_1"
TOKENS = {"input_tokens": 20, "output_tokens": 30}


def pieces(text: str) -> list[str]:
    """A text as it is streamed."""
    return [text[start : start + 5] for start in range(0, len(text), 5)]


async def chat(asked: ReceivedRequest, wire: Wire) -> None:
    """OpenAI's chat."""
    body = asked.json()
    answered = body["messages"][-1]["role"] == "tool"
    call = {"id": CALL_ID, "type": "function"}
    call |= {"function": {"name": "add", "arguments": ARGUMENTS}}  # type: ignore[dict-item]
    message: dict[str, Any] = {"role": "assistant", "content": LAST if answered else WORDS}
    message |= {} if answered else {"reasoning_content": THOUGHT, "tool_calls": [call]}
    head = {"id": "c", "created": 1, "model": "m"}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        said = head | {"object": "chat.completion", "choices": [choice]}
        said["usage"] = USAGE | {"total_tokens": 150}
        await answering(whole(said))(asked, wire)
        return
    events = []
    for delta in _deltas(message):
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        events.append(event(head | {"object": "chat.completion.chunk", "choices": [choice]}))
    await streaming(*events, DONE)(asked, wire)


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for name in ("reasoning_content", "content"):
        for piece in pieces(message.get(name, "")):
            yield {name: piece}
    for call in message.get("tool_calls", ()):
        first = call | {"index": 0, "function": {"name": "add", "arguments": ""}}
        yield {"tool_calls": [first]}
        for piece in pieces(ARGUMENTS):
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


async def messages(asked: ReceivedRequest, wire: Wire) -> None:
    """Anthropic's messages."""
    body = asked.json()
    last = body["messages"][-1]["content"]
    answered = isinstance(last, list) and last[0]["type"] == "tool_result"
    blocks: list[dict[str, Any]] = [{"type": "text", "text": LAST}]
    if not answered:
        blocks = [
            {"type": "thinking", "thinking": THOUGHT, "signature": "s"},
            {"type": "text", "text": WORDS},
            {"type": "tool_use", "id": CALL_ID, "name": "add", "input": {"a": 1, "b": 2.0}},
        ]
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m"}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    if body.get("stream"):
        start = message | end | {"content": [], "usage": TOKENS}
        events = [{"type": "message_start", "message": start}, *_blocks(blocks)]
        events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 30}})
        events.append({"type": "message_stop"})
        named = [b"event: %b\n" % str(said["type"]).encode() + event(said) for said in events]
        await streaming(*named)(asked, wire)
        return
    await answering(whole(message | end | {"content": blocks, "usage": TOKENS}))(asked, wire)


def _blocks(blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for index, block in enumerate(blocks):
        kind = block["type"]
        name = {"thinking": "thinking", "text": "text", "tool_use": "partial_json"}[kind]
        delta = {"thinking": "thinking", "text": "text", "tool_use": "input_json"}[kind]
        empty: dict[str, Any] = {"input": {}} if kind == "tool_use" else {kind: ""}
        yield {"type": "content_block_start", "index": index, "content_block": block | empty}
        for piece in pieces(ARGUMENTS if kind == "tool_use" else block[kind]):
            said = {"type": f"{delta}_delta", name: piece}
            yield {"type": "content_block_delta", "index": index, "delta": said}
        yield {"type": "content_block_stop", "index": index}


class Responses:
    """The Responses API; each response has an id of its own."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, asked: ReceivedRequest, wire: Wire) -> None:
        """Answer."""
        self.count += 1
        body = asked.json()
        given = body["input"]
        answered = isinstance(given, list) and given[-1].get("type") == "function_call_output"
        output = [_text(LAST)] if answered else [_reasoning(), _text(WORDS), _call()]
        response: dict[str, Any] = {
            "id": f"resp_{self.count}", "object": "response", "created_at": 1, "model": "m",
            "status": "completed", "parallel_tool_calls": True, "tool_choice": "auto",
            "tools": [], "usage": TOKENS | {"total_tokens": 50}, "output": output,
        }  # fmt: skip
        if not body.get("stream"):
            await answering(whole(response))(asked, wire)
            return
        begun = response | {"status": "in_progress", "output": [], "usage": None}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        events += [each for n, item in enumerate(output) for each in item_events(n, item)]
        events.append({"type": "response.completed", "response": response})
        numbered = [each | {"sequence_number": n} for n, each in enumerate(events)]
        await streaming(*map(event, numbered))(asked, wire)


def _text(said: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": said, "annotations": []}]
    state = {"role": "assistant", "status": "completed"}
    return {"id": f"msg_{said}", "type": "message", "content": content} | state


def _reasoning() -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": THOUGHT}]
    return {"id": "rs_1", "type": "reasoning", "summary": [], "content": content}


def _call() -> dict[str, Any]:
    item = {"id": "fc_1", "type": "function_call", "call_id": CALL_ID, "name": "add"}
    return item | {"arguments": ARGUMENTS, "status": "completed"}


def item_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of an item of the output."""
    name = "arguments" if item["type"] == "function_call" else "content"
    empty: Any = "" if name == "arguments" else []
    where = {"output_index": index, "item_id": item["id"]}
    yield {
        "type": "response.output_item.added",
        "output_index": index,
        "item": item | {name: empty},
    }
    kinds = {"message": "output_text", "reasoning": "reasoning_text"}
    kind = kinds.get(item["type"], "function_call_arguments")
    place = {} if name == "arguments" else {"content_index": 0}
    text = item[name] if name == "arguments" else item[name][0]["text"]
    for piece in pieces(text):
        yield {"type": f"response.{kind}.delta", "delta": piece, **where, **place}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}
