"""Parses tool calls that a model wrote as text, for endpoints that do not parse them.

In: a message's content and a dialect. Out: the content without the calls, the calls in OpenAI's
form, and an error for each call that cannot be read. Nothing is guessed: text that looks like a
call but is invalid becomes an error message to the model, never a partial call.

* ``hermes``: ``<tool_call>{"name": …, "arguments": {…}}</tool_call>``, any number (Qwen too)
* ``llama``: ``{"name": …, "parameters": {…}}``, several with ``;``, after its python tag or alone
* ``json``: one object, or a list of them, as the whole message or in a fenced block
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tutti.tasks.serving import Dialect

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
    """Errors of calls that cannot be read, in order."""


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
    """Split into text and pieces meant as calls."""
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
    """Whether it is meant as a call: an object with a name and arguments, valid or not."""
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
