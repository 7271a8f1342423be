"""Converts other programs' chat messages to rows of `messages` and `tool_runs`.

In: messages of OpenAI's chat and responses APIs and similar ones. Out: rows. A message whose role
or content cannot be read makes the record invalid; an invalid tool call is only left out. Parts of
content become their text, or JSON text if they include an image or sound.
"""

from collections.abc import Iterable
from typing import Any

from tutti.tasks.exchange.base.fields import Fields, compact, parsed
from tutti.tasks.exchange.base.imported import Row, json_text, shown

ITEMS = ("message", "reasoning", "function_call", "function_call_output")
"""Kinds of items in the responses API, which have a type instead of a role."""


def message_rows(fields: Fields, name: str) -> list[Row]:
    """The messages in list `name`; plain text is one message of the user."""
    value = fields.data.get(name)
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if value is not None and not isinstance(value, list):
        fields.refuse(name, f"{shown(value)} is not a list of messages")
    return [message_row(message) for message in fields.each(name, "a message")]


def message_row(fields: Fields) -> Row:
    if "role" not in fields and fields.data.get("type") in ITEMS:
        return _item_row(fields)
    role = fields.needed("role", fields.identity("role"))
    return {"role": role, "content": content(fields, "content")} | compact(
        reasoning=fields.text("reasoning_content") or fields.text("reasoning"),
        tool_calls=tool_calls(fields) or None,
        tool_call_id=fields.text("tool_call_id"),
        name=fields.text("name"),
    )


def content(fields: Fields, name: str) -> str | None:
    """The text of a message, or its parts as JSON."""
    value = fields.data.get(name)
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        fields.refuse(name, f"{shown(value)} is not a message's content")
    texts = [part.get("text") if isinstance(part, dict) else part for part in value]
    known = [text for text in texts if isinstance(text, str)]
    return "\n".join(known) if len(known) == len(value) else fields.json(name)


def tool_calls(fields: Fields) -> list[Row]:
    """The tool calls of a message."""
    rows = []
    for place, member in enumerate(fields.array("tool_calls")):
        where = f"tool_calls.{place}"
        data = parsed(member) if isinstance(member, str) else member
        if not isinstance(data, dict):
            fields.problem(where, f"{shown(member)} is no tool call")
            continue
        call = fields.part(where, data)
        function = call.inner("function") if "function" in call else call
        tool = function.identity("name")
        if tool is None:
            fields.problem(f"{where}.name", "a tool call without its tool's name is left out")
            continue
        id = call.identity("id") if data.get("id") != "" else None
        rows.append({"id": id, "name": tool, "arguments": function.text_or_json("arguments")})
    return rows


def _item_row(fields: Fields) -> Row:
    kind = fields.text("type")
    if kind == "function_call":
        tool = fields.needed("name", fields.identity("name"))
        call = {
            "id": fields.identity("call_id"),
            "name": tool,
            "arguments": fields.text_or_json("arguments"),
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind == "function_call_output":
        row: Row = {"role": "tool", "content": content(fields, "output")}
        return row | compact(tool_call_id=fields.identity("call_id"))
    if kind == "reasoning":
        text = content(fields, "content") or content(fields, "summary")
        return {"role": "assistant", "content": None, "reasoning": text}
    return {"role": "assistant", "content": content(fields, "content")}


def add_call(calls: list[Row], **columns: Any) -> Row:
    """Append the next call of the agent's model to `calls`; unknown columns are None."""
    step = len(calls) + 1
    call = {"call_id": f"call-{step}", "step": step, "role": "orchestrator", "status": "ok"}
    calls.append(call | compact(**columns))
    return calls[-1]


def tool_runs(messages: Iterable[Row], calls: Iterable[Row]) -> list[Row]:
    """One tool run per tool message, with the name and arguments of the call that requested it. A
    run belongs to the step of the last preceding call."""
    steps: dict[str, int] = {call["call_id"]: call["step"] for call in calls}
    requests: dict[str, Row] = {}
    step, runs = 0, []
    for row in messages:
        step = steps.get(row.get("call_id") or "", step)
        requests |= {call["id"]: call for call in row.get("tool_calls") or () if call["id"]}
        if row["role"] != "tool":
            continue
        call = requests.get(row.get("tool_call_id") or "", {})
        run = {"step": step, "result": row["content"]}
        run |= compact(name=row.get("name") or call.get("name"), arguments=call.get("arguments"))
        runs.append(run)
    return runs


def link_calls(messages: list[Row], calls: list[Row]) -> None:
    """Set in each assistant message the call that produced it, if there is one for each."""
    replies = [row for row in messages if row["role"] == "assistant"]
    if len(replies) == len(calls):
        for row, call in zip(replies, calls, strict=True):
            row["call_id"] = call["call_id"]


def last_reply(messages: Iterable[Row]) -> str | None:
    """The last non-empty text of the assistant."""
    texts = [row["content"] for row in messages if row["role"] == "assistant" and row["content"]]
    return texts[-1] if texts else None


def params(value: Any) -> str | None:
    """Sampling parameters as JSON text; None when there are none."""
    return json_text(value) if isinstance(value, dict) and value else None
