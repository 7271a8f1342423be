"""The Responses API: instructions, items of input and output, and contexts that the server keeps.

The items that a model produced in a row (reasoning, text, calls of tools) are one assistant message
here. A tool's output is a message of role `tool`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tutti.storage import KeptContext
from tutti.tasks.serving.gateway.protocols.chat import Answer, Pieces, index_of

CALL, OUTPUT, GIVEN = "_call", "_call_output", "_response"  # the ends of types
ENVELOPE = frozenset(("type", "id", "call_id", "status", "name", "namespace"))
DELTAS = {
    "response.output_text.delta": ("message", "content_index"),
    "response.refusal.delta": ("message", "content_index"),
    "response.function_call_arguments.delta": ("function_call", ""),
    "response.custom_tool_call_input.delta": ("custom_tool_call", ""),
    "response.mcp_call_arguments.delta": ("mcp_call", ""),
    "response.reasoning_text.delta": ("reasoning", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_index"),
}
"""The type of the item that a delta belongs to, and the name of its place there."""


def read_input(body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The messages of a request, the instructions first, without those that the server keeps."""
    given, instructions = body.get("input"), body.get("instructions")
    first = [{"role": "system", "content": instructions}] if instructions else []
    if isinstance(given, str):
        return [*first, {"role": "user", "content": given}]
    if isinstance(given, list) and set(map(type, given)) <= {dict}:
        return [*first, *_messages(given)]
    continues = given is None and body.get("previous_response_id")
    return [*first] if continues else None


def kept_context(body: Mapping[str, Any], response_id: str | None) -> KeptContext:
    """Return what a request continues, and the names of the context that it creates. The server
    does not keep instructions; each request states its own."""
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    after = body.get("previous_response_id") or conversation
    names = [] if body.get("store") is False else [response_id, conversation]
    return KeptContext(
        after if isinstance(after, str) else None,
        tuple(name for name in names if isinstance(name, str)),
        lead=1 if body.get("instructions") else 0,
    )


def _messages(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    turn: _Turn | None = None
    for item in items:
        if not _is_of_model(item):
            found.append(_given(item))
            turn = None
            continue
        if turn is None:
            turn = _Turn()
            found.append(turn.message)
        turn.add(item)
    return found


def _is_of_model(item: Mapping[str, Any]) -> bool:
    kind, role = str(item.get("type") or "message"), item.get("role")
    if kind == "message" or role is not None:
        return role == "assistant"
    return not kind.endswith((OUTPUT, GIVEN))


def _given(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(item.get("type") or "message")
    if kind.endswith(OUTPUT):
        content = item.get("output")
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
    if kind == "message":
        return {"role": item.get("role"), "content": item.get("content")}
    return {"role": "user", "content": [item]}


class _Turn:
    """An assistant message from the items of one turn."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {"role": "assistant", "content": None}

    def add(self, item: Mapping[str, Any]) -> None:
        kind = str(item.get("type") or "message")
        if kind == "reasoning":
            texts = [self.message.get("reasoning"), _reasoning(item)]
            self.message["reasoning"] = "\n\n".join(text for text in texts if text)
        elif kind.endswith(CALL):
            self.message.setdefault("tool_calls", []).append(_call(item, kind))
        elif kind == "message":
            self._say(item.get("content"))
        else:  # of a built-in tool, or of a kind that is not known
            self._say([item])

    def _say(self, content: Any) -> None:
        said = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if isinstance(said, list):
            self.message["content"] = [*(self.message["content"] or ()), *said]


def _reasoning(item: Mapping[str, Any]) -> str:
    for name in ("content", "summary"):
        parts = item.get(name)
        given = parts if isinstance(parts, list) else []
        texts = [part.get("text") for part in given if isinstance(part, dict)]
        if text := "\n\n".join(each for each in texts if isinstance(each, str)):
            return text
    return ""


def _call(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the call of a tool: a function, or a built-in one with all its fields."""
    arguments = item.get("arguments", item.get("input"))
    if arguments is None:
        arguments = {name: value for name, value in item.items() if name not in ENVELOPE}
    called = {"name": item.get("name") or kind.removesuffix(CALL), "arguments": arguments}
    call_id = item.get("call_id") or item.get("id")
    return {"id": call_id, "type": "function", "function": called}


class ResponsesAnswer(Answer):
    """A response, or the items of a stream, whose last event has the whole response."""

    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._done: set[int] = set()
        self._pieces = Pieces()

    def read(self, said: Mapping[str, Any]) -> None:
        kind, index = said.get("type"), index_of(said, "output_index")
        if said.get("object") == "response":
            self._take(said)
        elif isinstance(response := said.get("response"), dict):
            self._take(response)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            if isinstance(item := said.get("item"), dict):
                self._items[index] = item
            if kind == "response.output_item.done":
                self._done.add(index)
        elif isinstance(kind, str) and kind in DELTAS:
            of, place = DELTAS[kind]
            self._items.setdefault(index, {"type": of, "role": "assistant"})
            self._pieces.add(said.get("delta"), index, place, index_of(said, place))

    def _take(self, response: Mapping[str, Any]) -> None:
        name, output = response.get("id"), response.get("output")
        self.response_id = name if isinstance(name, str) else self.response_id
        if isinstance(output, list) and output:
            self._items = {n: each for n, each in enumerate(output) if isinstance(each, dict)}
            self._done = set(self._items)

    def message(self) -> dict[str, Any] | None:
        """The answer so far as a chat message; None if it is empty."""
        if not self._items:
            return None
        turn = _Turn()
        for index in sorted(self._items):
            turn.add(self._items[index] if index in self._done else self._so_far(index))
        return turn.message

    def _so_far(self, index: int) -> dict[str, Any]:
        item = self._items[index]
        places = [place for place in self._pieces.places() if place[0] == index]
        parts = [{"type": "text", "text": self._pieces.text(*place)} for place in places]
        if not parts:
            return item
        if str(item.get("type")).endswith(CALL):
            name = "input" if item["type"] == "custom_tool_call" else "arguments"
            return {**item, name: "".join(part["text"] for part in parts)}
        return {**item, "content": parts}
