"""The interface of an agent's tools, and the schemas of the two built-in ones."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tutti.errors import TuttiError
from tutti.storage import now

MALFORMED = "malformed_call"


class ToolUnavailable(TuttiError, RuntimeError):
    """A tool's service does not answer: nobody's wrong answer, the attempt is void."""


@dataclass(frozen=True)
class ToolResult:
    """The result of one tool call."""

    content: str
    """The text that the model receives."""
    status: str
    """``ok``, ``error`` (the program or the call was wrong) or ``timeout``."""
    started_at: datetime
    ended_at: datetime
    error_type: str | None = None
    cost_usd: float | None = 0.0
    """Of the models that the tool asked; None where the price of one is unknown."""
    retrievals: Sequence[Mapping[str, Any]] = ()
    """Of a search, for each query: index_id, query, doc_ids, scores, latency_s."""
    held_s: float = 0.0
    """How long the gateway held the tool's own calls of models."""
    final: str | None = None
    """What the attempt ends with: it is said last, in the model's place."""


def refused(reason: str) -> ToolResult:
    """A call that makes no sense, answered with why."""
    at = now()
    return ToolResult(f"error: {reason}", "error", at, at, MALFORMED)


def arguments_of(text: str) -> dict[str, Any]:
    """A call's arguments, from the JSON text that the model wrote; no text is no arguments.

    Raises ValueError, whose words are for the model.
    """
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("the arguments must be a JSON object")
    return found


class Tools(Protocol):
    """The interface of a set of tools."""

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        """OpenAI's descriptions of them."""
        ...

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Carry out one call; `arguments` is the JSON text that the model wrote.

        A malformed call is answered with what is wrong with it. Raises ToolUnavailable.
        """
        ...


def schema(name: str, description: str, argument: str, meaning: str) -> dict[str, Any]:
    """The description of a tool that takes one text."""
    properties = {argument: {"type": "string", "description": meaning}}
    parameters = {"type": "object", "properties": properties, "required": [argument]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOL_SCHEMAS: list[dict[str, Any]] = [
    schema("search", "Search the documentation.", "query", "a name or a few words"),
    schema("python", "Run a Python program; what it prints comes back.", "code", "the program"),
]
REQUIRED_ARGUMENT = {"search": "query", "python": "code"}


class DescribedTools:
    """Tools that are only described: none at all, or those whose calls are the answer."""

    def __init__(self, schemas: Sequence[Mapping[str, Any]] = ()) -> None:
        self.schemas = schemas

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Return an error to the model: described tools cannot be called."""
        return refused(f"there is no tool {name!r}")
