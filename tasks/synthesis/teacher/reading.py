"""Reading a value of a pydantic model from an answer, or naming the fault of the answer.

In: an answer's text, finish reason and refusal. Out: the value or a `Fault`. Nothing is repaired:
incomplete JSON is a fault, never a shorter list.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tutti.tasks.agents.models import AUTO, separated
from tutti.tasks.synthesis.teacher.budget import AnswerTokens
from tutti.tasks.synthesis.teacher.faults import Fault, FaultKind

T = TypeVar("T", bound=BaseModel)
FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
SHOWN = 120
MOST_ERRORS = 8


@dataclass(frozen=True)
class TeacherAnswer:
    """One stored answer of the endpoint."""

    text: str
    """The content; of a forced tool call its arguments."""
    finish: str
    refusal: str = ""
    prompt_tokens: int | None = None
    """None where the endpoint does not report tokens."""
    completion_tokens: int | None = None
    usd: float | None = None
    """As the gateway reports it."""

    @property
    def tokens(self) -> AnswerTokens | None:
        """The tokens of the call; None if the endpoint does not report both counts."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return AnswerTokens(self.prompt_tokens, self.completion_tokens)

    def as_row(self) -> dict[str, Any]:
        """Return the answer as plain JSON; ``TeacherAnswer(**row)`` reads it."""
        return asdict(self)


def answer_of(completion: Any, usd: float | None) -> TeacherAnswer:
    """Return the answer in a chat completion, given as plain JSON. Raises LookupError, TypeError
    for an answer without a message."""
    choice = completion["choices"][0]
    message = choice["message"]
    calls = message.get("tool_calls") or ()
    message = separated(message, AUTO)
    text = calls[0]["function"]["arguments"] if calls else message.get("content") or ""
    usage = completion.get("usage") or {}
    return TeacherAnswer(
        text,
        choice.get("finish_reason") or "",
        message.get("refusal") or "",
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        usd,
    )


def read_value(answer: TeacherAnswer, model: type[T]) -> T | Fault:
    """Return the value in `answer`, or its fault."""
    if answer.refusal or answer.finish == "content_filter":
        return Fault(FaultKind.REFUSAL, (answer.refusal or answer.finish)[:SHOWN])
    if answer.finish == "length":
        return Fault(FaultKind.HALF_JSON, f"cut off at the limit: …{answer.text[-40:]!r}")
    blocks = FENCED.findall(answer.text)
    try:
        value = json.loads(blocks[0] if len(blocks) == 1 else answer.text)
    except (ValueError, RecursionError) as error:
        return Fault(FaultKind.BAD_JSON, f"not JSON ({error}): {answer.text[:SHOWN]!r}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        return Fault(FaultKind.SCHEMA, validation_text(error))


def validation_text(error: ValidationError) -> str:
    """Format a pydantic error for the model that caused it: field, what is wrong, value."""
    lines = [
        f"{'.'.join(str(part) for part in one['loc']) or 'value'}: {one['msg']}, "
        f"given {str(one['input'])[:SHOWN]!r}"
        for one in error.errors()[:MOST_ERRORS]
    ]
    more = error.error_count() - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more else "")


Message = dict[str, str]
DROPPED = ("default", "title")
NAME = re.compile(r"[^A-Za-z0-9_-]")
MOST_NAME = 64


class Mode(StrEnum):
    """Ways to request a structured answer, best first."""

    SCHEMA = "response_format"
    TOOL = "tool"
    """A forced call of a tool whose parameters are the schema."""
    TEXT = "fenced_json"
    """The schema is in the prompt; the answer is JSON in a fenced block."""

    @property
    def next_one(self) -> "Mode | None":
        """Return the next way to try if the endpoint does not support this one."""
        modes = list(Mode)
        place = modes.index(self) + 1
        return modes[place] if place < len(modes) else None


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of `model` for structured outputs."""
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
    """Return `messages` and the other fields of a request for a value of `schema`."""
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
    text = (
        "Answer with one JSON value in a fenced block that begins with ```json. It must fit this "
        f"schema ({name}):\n{json.dumps(schema)}"
    )
    return {"messages": [*messages, {"role": "user", "content": text}]}
