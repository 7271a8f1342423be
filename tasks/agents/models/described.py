"""Tools described as text, for endpoints that accept no tools in a request.

In: a conversation in OpenAI's form, the available tools, a dialect. Out: the same conversation with
the tools in its instructions, calls as text and results as user messages. Records keep OpenAI's
form. The dialect `openai` has no text form, so its instructions list no tools.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.agents.context import Message
from tutti.tasks.serving import Dialect

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
    """An answer in the model's own form: its text, then its calls."""
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
