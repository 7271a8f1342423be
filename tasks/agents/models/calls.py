"""Parses tool calls that a model wrote as text, for endpoints that do not parse them.

* ``hermes``: ``<tool_call>{"name": …, "arguments": {…}}</tool_call>``, any number (Qwen too)
* ``llama``: ``{"name": …, "parameters": {…}}``, several with ``;``, after its python tag or alone
* ``json``: one object, or a list of them, as the whole message or in a fenced block

Nothing is guessed: an invalid call becomes an error message to the model, never a partial call.
`as_text` is the inverse, for endpoints that accept no tools in a request.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.tasks.agents.models.context import Message
from tutti.tasks.serving.registry import Dialect

HERMES = re.compile(r"<tool_call>(.*?)(</tool_call>|$)", re.DOTALL)
PYTHON_TAG = "<|python_tag|>"
FENCED = re.compile(r"```(?:json|tool_call|tool_code)?\s*\n(.*?)```", re.DOTALL)
ARGUMENT_NAMES = ("arguments", "parameters")


@dataclass(frozen=True)
class ParsedMessage:
    """A message's content and the tool calls parsed from it."""

    content: str
    calls: tuple[dict[str, Any], ...] = ()
    errors: tuple[str, ...] = ()


def read_calls(text: str, dialect: Dialect, prefix: str) -> ParsedMessage:
    """The calls in `text`; their ids begin with `prefix`."""
    if dialect == "openai" or not text:
        return ParsedMessage(text)
    content, pieces = _pieces(text, dialect)
    calls: list[dict[str, Any]] = []
    errors: list[str] = []
    for piece in pieces:
        try:
            for each in list(_objects(piece, dialect)):  # a piece is either readable or not
                calls.append(_call(each, f"{prefix}-{len(calls)}"))
        except ValueError as error:
            errors.append(f"{error}: {piece.strip()[:80]}")
    return ParsedMessage(content.strip(), tuple(calls), tuple(errors))


def _pieces(text: str, dialect: Dialect) -> tuple[str, list[str]]:
    if dialect == "hermes":
        return HERMES.sub("", text), [found[1] for found in HERMES.finditer(text)]
    if dialect == "llama":
        said, tag, called = text.partition(PYTHON_TAG)
        if tag:
            return said, [called]
        return ("", [text]) if _names_a_tool(text) else (text, [])
    fenced = [found for found in FENCED.finditer(text) if _names_a_tool(found[1])]
    if fenced:
        said = FENCED.sub(lambda found: "" if _names_a_tool(found[1]) else found[0], text)
        return said, [found[1] for found in fenced]
    return ("", [text]) if _names_a_tool(text) else (text, [])


def _names_a_tool(text: str) -> bool:
    """Whether a text is intended as a call: an object with a name and arguments, valid or not."""
    start = text.strip()
    named = '"name"' in start and any(f'"{name}"' in start for name in ARGUMENT_NAMES)
    return start.startswith(("{", "[")) and named


def _objects(piece: str, dialect: Dialect) -> Iterator[Any]:
    decoder, text = json.JSONDecoder(), piece.strip()
    if not text:
        raise ValueError("an empty tool call")
    while text:
        try:
            found, end = decoder.raw_decode(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"a tool call that is not JSON ({error})") from None
        yield from found if isinstance(found, list) else [found]
        text = text[end:].strip()
        if text.startswith(";") and dialect == "llama":
            text = text[1:].strip()
        elif text:
            raise ValueError("more text than one JSON value in a tool call")


def _call(found: Any, call_id: str) -> dict[str, Any]:
    if isinstance(found, dict) and isinstance(found.get("function"), dict):
        found = found["function"]
    name = found.get("name") if isinstance(found, dict) else None
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call without a name")
    given: Any = next((found[key] for key in ARGUMENT_NAMES if key in found), {})
    if isinstance(given, str):  # JSON within JSON, as in OpenAI's own form
        arguments = given
    elif isinstance(given, dict):
        arguments = json.dumps(given, ensure_ascii=False)
    else:
        raise ValueError(f"the arguments of {name} are no object")
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


HOW = {
    "hermes": 'To call a tool, write <tool_call>{"name": NAME, "arguments": {...}}</tool_call>. '
    "Several calls may follow each other.",
    "llama": 'To call a tool, write {"name": NAME, "parameters": {...}} and nothing else. Put ";" '
    "between several calls.",
    "json": 'To call tools, write a JSON list of {"name": NAME, "arguments": {...}} and nothing '
    "else.",
}


def as_text(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], dialect: Dialect
) -> list[Message]:
    """`messages` for an endpoint without tool support."""
    result: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            _add_result(result, message)
        elif message.get("tool_calls"):
            result.append({"role": "assistant", "content": _with_calls(message, dialect)})
        else:
            result.append(message)
    if not tools or dialect == "openai":
        return result
    text = _described(tools, dialect)
    if result and result[0]["role"] == "system":
        return [result[0] | {"content": f"{result[0]['content']}\n\n{text}"}, *result[1:]]
    return [{"role": "system", "content": text}, *result]


def _described(tools: Sequence[Mapping[str, Any]], dialect: Dialect) -> str:
    lines = [json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools]
    return "\n".join(["Tools, one a line:", *lines, HOW[dialect]])


def _with_calls(message: Message, dialect: Dialect) -> str:
    wanted = "parameters" if dialect == "llama" else "arguments"
    calls = [
        json.dumps(
            {"name": call["function"]["name"], wanted: _arguments(call["function"]["arguments"])},
            ensure_ascii=False,
        )
        for call in message["tool_calls"]
    ]
    if dialect == "hermes":
        written = "\n".join(f"<tool_call>{call}</tool_call>" for call in calls)
    elif dialect == "llama":
        written = "; ".join(calls)
    else:
        written = f"[{', '.join(calls)}]"
    return "\n".join(filter(None, [message["content"], written]))


def _arguments(text: str) -> Any:
    """The arguments as an object; text that is not an object is kept as text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _add_result(result: list[Message], message: Message) -> None:
    """Merge the results of one turn into one message: templates require user and assistant to
    alternate."""
    text = f"<tool_response>\n{message['content']}\n</tool_response>"
    if (
        result
        and result[-1]["role"] == "user"
        and result[-1]["content"].startswith("<tool_response>")
    ):
        result[-1] = result[-1] | {"content": f"{result[-1]['content']}\n{text}"}
    else:
        result.append({"role": "user", "content": text})
