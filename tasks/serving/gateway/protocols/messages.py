"""Anthropic's messages: a system prompt, and content in blocks.

A tool's result is a block of a user's message there, and a message of its own here. Thinking is
`reasoning`; redacted thinking is left out. The server may keep a thread: then a call sends only its
new messages and names the answer that it continues.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tutti.storage import KeptContext
from tutti.tasks.serving.gateway.protocols.chat import Answer, Pieces, index_of

CALLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
THINKING, REDACTED = "thinking", "redacted_thinking"
DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", THINKING),
    "input_json_delta": ("partial_json", "tool_use"),
}
"""The field of a delta that has the text, and the type of its block."""


def read_anthropic(body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The messages of a request, the system prompt first."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not set(map(type, messages)) <= {dict}:
        return None
    system = body.get("system")
    prompt: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message in messages:
        content = message.get("content")
        if not isinstance(content, list):
            prompt.append(message)
        elif message.get("role") == "assistant":
            prompt.append(_assistant(content))
        else:
            prompt.extend(_given(message.get("role"), content))
    return prompt


def kept_thread(body: Mapping[str, Any], message_id: str | None) -> KeptContext | None:
    """What a request continues, and the name of the thread that it creates; None without a thread.
    The server keeps the system prompt, which only the request that creates a thread states."""
    thread = body.get("thread")
    if not isinstance(thread, dict):
        return None
    after = thread.get("previous_message_id")
    names = (message_id,) if message_id is not None else ()
    return KeptContext(after if isinstance(after, str) else None, names)


def _given(role: Any, content: Iterable[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    parts: list[Any] = []
    for block in content:
        if not isinstance(block, dict) or block.get("type") != "tool_result":
            if not parts:
                found.append({"role": role, "content": parts})
            parts.append(block)
            continue
        result = {"tool_call_id": block.get("tool_use_id"), "content": block.get("content")}
        found.append({"role": "tool", **result})
        parts = []
    return found or [{"role": role, "content": parts}]


def _assistant(content: Iterable[Any]) -> dict[str, Any]:
    parts: list[Any] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in content:
        kind = str(block.get("type")) if isinstance(block, dict) else ""
        if kind in CALLS:
            called = {"name": block.get("name"), "arguments": block.get("input")}
            calls.append({"id": block.get("id"), "type": "function", "function": called})
        elif kind == THINKING:
            thoughts.append(str(block.get("thinking") or ""))
        elif kind != REDACTED:
            parts.append(block)
    message: dict[str, Any] = {"role": "assistant", "content": parts or None}
    if thoughts:
        message["reasoning"] = "\n\n".join(thoughts)
    return message | ({"tool_calls": calls} if calls else {})


class MessagesAnswer(Answer):
    """A message, or the blocks of a stream."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces = Pieces()

    def read(self, said: Mapping[str, Any]) -> None:
        content, index = said.get("content"), index_of(said, "index")
        block, delta = said.get("content_block"), said.get("delta")
        begun = said.get("message") if said.get("type") == "message_start" else said
        if isinstance(begun, dict) and isinstance(begun.get("id"), str):
            self.response_id = begun["id"]
        if isinstance(content, list):
            for place, each in enumerate(content):
                self._begin(place, each)
        elif said.get("type") == "content_block_start":
            self._begin(index, block)
        elif isinstance(delta, dict) and isinstance(delta.get("type"), str):
            name, kind = DELTAS.get(delta["type"], ("", ""))
            if name:
                self._blocks.setdefault(index, {"type": kind})
                self._pieces.add(delta.get(name), index)

    def _begin(self, index: int, block: Any) -> None:
        if isinstance(block, dict):
            self._blocks[index] = block

    def message(self) -> dict[str, Any] | None:
        """The answer so far as a chat message; None if it is empty."""
        if not self._blocks:
            return None
        return _assistant(self._whole(index) for index in sorted(self._blocks))

    def _whole(self, index: int) -> dict[str, Any]:
        block, text = self._blocks[index], self._pieces.text(index)
        kind = str(block.get("type"))
        if not text:
            return block
        if kind in CALLS:
            return {**block, "input": text}
        name = "thinking" if kind == THINKING else "text"
        return {**block, name: str(block.get(name) or "") + text}
