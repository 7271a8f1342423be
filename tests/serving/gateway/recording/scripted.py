"""Model with a scripted conversation in the three protocols, whole and streamed.

The engine writes the arguments of a call without spaces; the client libraries parse them, and the
agents of these tests serialise them again with spaces and in another order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

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
CALL_ID = "call_1"
TOKENS = {"input_tokens": 20, "output_tokens": 30}
TOTAL = {"total_tokens": 150}
Fields = dict[str, Any]


@dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    arguments: Fields

    @property
    def text(self) -> str:
        return orjson.dumps(self.arguments).decode()


@dataclass(frozen=True)
class Turn:
    """The model's response to a call."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""


SUM = (Turn(WORDS, (ToolCall(CALL_ID, "add", {"a": 1, "b": 2.0}),), THOUGHT), Turn(LAST))


def pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


class ScriptedEngine:
    """Engine that answers the nth call with the nth turn and starts again after the last."""

    def __init__(self, turns: Sequence[Turn] = SUM) -> None:
        self.turns, self.count = turns, 0

    async def __call__(self, asked: ReceivedRequest, wire: Wire) -> None:
        turn = self.turns[self.count % len(self.turns)]
        self.count += 1
        if asked.json().get("stream"):
            await streaming(*self.events(turn))(asked, wire)
        else:
            await answering(whole(self.answer(turn)))(asked, wire)

    def answer(self, turn: Turn) -> Fields:
        raise NotImplementedError

    def events(self, turn: Turn) -> Iterator[bytes]:
        raise NotImplementedError


class Chat(ScriptedEngine):
    """OpenAI's chat protocol."""

    def answer(self, turn: Turn) -> Fields:
        message: Fields = {"role": "assistant", "content": turn.text or None}
        message |= {"reasoning_content": turn.thought} if turn.thought else {}
        calls = [self._call(call, call.text) for call in turn.calls]
        message |= {"tool_calls": calls} if calls else {}
        choice = {"index": 0, "message": message, "finish_reason": self._end(turn)}
        said = {"id": f"c{self.count}", "object": "chat.completion", "created": 1, "model": "m"}
        return said | {"choices": [choice | {"logprobs": None}], "usage": USAGE | TOTAL}

    def events(self, turn: Turn) -> Iterator[bytes]:
        head = {"id": f"c{self.count}", "created": 1, "model": "m"}
        head |= {"object": "chat.completion.chunk"}
        for delta in self._deltas(turn):
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            yield event(head | {"choices": [choice]})
        end = {"index": 0, "delta": {}, "finish_reason": self._end(turn)}
        yield event(head | {"choices": [end]})
        yield event(head | {"choices": [], "usage": USAGE | TOTAL})
        yield DONE

    @staticmethod
    def _end(turn: Turn) -> str:
        return "tool_calls" if turn.calls else "stop"

    @staticmethod
    def _call(call: ToolCall, arguments: str) -> Fields:
        function = {"name": call.name, "arguments": arguments}
        return {"id": call.id, "type": "function", "function": function}

    def _deltas(self, turn: Turn) -> Iterator[Fields]:
        yield {"role": "assistant", "content": ""}
        for name, text in (("reasoning_content", turn.thought), ("content", turn.text)):
            for piece in pieces(text):
                yield {name: piece}
        for index, call in enumerate(turn.calls):
            yield {"tool_calls": [{"index": index} | self._call(call, "")]}
            for piece in pieces(call.text):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


class Messages(ScriptedEngine):
    """Anthropic's messages protocol."""

    def answer(self, turn: Turn) -> Fields:
        end = {"stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None}
        said = {"id": f"m{self.count}", "type": "message", "role": "assistant", "model": "m"}
        return said | end | {"content": self._blocks(turn), "usage": TOKENS}

    def events(self, turn: Turn) -> Iterator[bytes]:
        said = self.answer(turn)
        end = {name: said[name] for name in ("stop_reason", "stop_sequence")}
        start = said | {"content": [], "stop_reason": None}
        events = [{"type": "message_start", "message": start}]
        for index, block in enumerate(said["content"]):
            events += self._block_events(index, block)
        events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 30}})
        events.append({"type": "message_stop"})
        for each in events:
            yield b"event: %b\n" % str(each["type"]).encode() + event(each)

    @staticmethod
    def _blocks(turn: Turn) -> list[Fields]:
        blocks: list[Fields] = []
        if turn.thought:
            blocks.append({"type": "thinking", "thinking": turn.thought, "signature": "s"})
        if turn.text:
            blocks.append({"type": "text", "text": turn.text})
        for call in turn.calls:
            use = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            blocks.append(use)
        return blocks

    @staticmethod
    def _block_events(index: int, block: Fields) -> Iterator[Fields]:
        kind = block["type"]
        name = {"thinking": "thinking", "text": "text", "tool_use": "partial_json"}[kind]
        delta = {"thinking": "thinking", "text": "text", "tool_use": "input_json"}[kind]
        empty: Fields = {"input": {}} if kind == "tool_use" else {kind: ""}
        yield {"type": "content_block_start", "index": index, "content_block": block | empty}
        text = orjson.dumps(block["input"]).decode() if kind == "tool_use" else block[kind]
        for piece in pieces(text):
            said = {"type": f"{delta}_delta", name: piece}
            yield {"type": "content_block_delta", "index": index, "delta": said}
        if kind == "thinking":
            said = {"type": "signature_delta", "signature": "s"}
            yield {"type": "content_block_delta", "index": index, "delta": said}
        yield {"type": "content_block_stop", "index": index}


class Responses(ScriptedEngine):
    """The Responses API; each response and each item has its own id."""

    def answer(self, turn: Turn) -> Fields:
        return {
            "id": f"resp_{self.count}", "object": "response", "created_at": 1, "model": "m",
            "status": "completed", "parallel_tool_calls": True, "tool_choice": "auto",
            "tools": [], "usage": TOKENS | {"total_tokens": 50}, "output": self._items(turn),
        }  # fmt: skip

    def events(self, turn: Turn) -> Iterator[bytes]:
        response = self.answer(turn)
        begun = response | {"status": "in_progress", "output": [], "usage": None}
        events: list[Fields] = [{"type": "response.created", "response": begun}]
        events += [each for n, item in enumerate(response["output"]) for each in _events(n, item)]
        events.append({"type": "response.completed", "response": response})
        for n, each in enumerate(events):
            yield event(each | {"sequence_number": n})

    def _items(self, turn: Turn) -> list[Fields]:
        items: list[Fields] = []
        content: list[Fields]
        if turn.thought:
            content = [{"type": "reasoning_text", "text": turn.thought}]
            items.append({"type": "reasoning", "summary": [], "content": content})
        if turn.text:
            content = [{"type": "output_text", "text": turn.text, "annotations": []}]
            state = {"role": "assistant", "status": "completed"}
            items.append({"type": "message", "content": content} | state)
        for call in turn.calls:
            called = {"call_id": call.id, "name": call.name, "arguments": call.text}
            items.append({"type": "function_call", "status": "completed"} | called)
        return [{"id": f"item_{self.count}_{n}"} | item for n, item in enumerate(items)]


def _events(index: int, item: Fields) -> Iterator[Fields]:
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
