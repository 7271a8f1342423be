"""The strict JSON schema of a pydantic model, and the three forms in which an answer is asked for.

In: a model class. Out: a schema in the subset that structured outputs accept (every property
required, no further ones), and the fields of a request that ask for it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

Message = dict[str, str]
DROPPED = ("default", "title")
NAME = re.compile(r"[^A-Za-z0-9_-]")
MOST_NAME = 64


class Mode(StrEnum):
    """How an answer is asked for, best first."""

    SCHEMA = "response_format"
    TOOL = "tool"
    """A forced call of a tool whose parameters are the schema."""
    TEXT = "fenced_json"
    """The schema is told; the answer is JSON in a fenced block."""

    @property
    def next_one(self) -> "Mode | None":
        """What to try where the endpoint does not support this one."""
        modes = list(Mode)
        place = modes.index(self) + 1
        return modes[place] if place < len(modes) else None


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of `model` for structured outputs."""
    strict: dict[str, Any] = _strict(model.model_json_schema())
    return strict


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {
        name: {key: _strict(each) for key, each in value.items()}
        if name in ("properties", "$defs")  # maps of names, not schemas
        else _strict(value)
        for name, value in node.items()
        if name not in DROPPED
    }
    if "properties" in found:
        found |= {"required": list(found["properties"]), "additionalProperties": False}
    return found


def request_fields(
    mode: Mode, name: str, schema: Mapping[str, Any], messages: Sequence[Message]
) -> dict[str, Any]:
    """`messages`, and what else a request needs to get a value of `schema`."""
    name = NAME.sub("_", name)[:MOST_NAME]
    if mode == Mode.SCHEMA:
        wanted = {"name": name, "schema": schema, "strict": True}
        form = {"type": "json_schema", "json_schema": wanted}
        return {"messages": list(messages), "response_format": form}
    if mode == Mode.TOOL:
        function = {"name": name, "description": "Give the answer.", "parameters": schema}
        choice = {"type": "function", "function": {"name": name}}
        tools = [{"type": "function", "function": function}]
        return {"messages": list(messages), "tools": tools, "tool_choice": choice}
    told = (
        "Answer with one JSON value in a fenced block that begins with ```json. It must fit this "
        f"schema ({name}):\n{json.dumps(schema)}"
    )
    return {"messages": [*messages, {"role": "user", "content": told}]}
