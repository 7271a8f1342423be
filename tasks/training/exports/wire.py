"""Conversations as rows of Parquet, in the form of OpenAI's API: arguments of calls are JSON text.

Both verl and prime-rl read this form; objects of many shapes do not fit a column.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.tasks.training.exports.conversation import Conversation

FUNCTION = pa.struct([("name", pa.string()), ("arguments", pa.string())])
CALL = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", FUNCTION)])
FIELDS = {
    "role": pa.string(),
    "content": pa.string(),
    "reasoning_content": pa.string(),
    "tool_calls": pa.list_(CALL),
    "tool_call_id": pa.string(),
    "name": pa.string(),
}


def message_type(made: Sequence[Conversation]) -> pa.DataType:
    """The type of the messages: fields that none of them has are left out, as templates ask
    whether a field is there."""
    used = {key for each in made for message in each.messages for key in wire(message)}
    fields = [(name, type) for name, type in FIELDS.items() if name in used]
    return pa.list_(pa.struct(fields))


def wire(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message with the arguments of its calls as text, and no empty fields but its content."""
    calls = [
        {"id": call.get("id"), "type": "function",
         "function": {"name": call["function"]["name"], "arguments": _text(call["function"])}}
        for call in message.get("tool_calls") or ()
    ]  # fmt: skip
    made = {"role": message["role"], "content": message.get("content") or ""}
    made |= {"reasoning_content": message.get("reasoning"), "tool_calls": calls or None}
    made |= {name: message.get(name) for name in ("tool_call_id", "name")}
    return {name: value for name, value in made.items() if value is not None}


def _text(function: Mapping[str, Any]) -> str:
    given = function["arguments"]
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def tools_json(made: Conversation) -> str:
    """Its tools as a JSON list, empty where it has none."""
    return json.dumps(list(made.tools), ensure_ascii=False)


def write_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, file: Path) -> Path:
    """Write rows as Parquet; returns the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema), file)
    return file
