"""The interfaces of an agent's tools and partner, and the schemas of the two built-in tools."""

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from tutti.errors import TuttiError
from tutti.storage import now

MALFORMED = "malformed_call"
T = TypeVar("T")


class ToolUnavailable(TuttiError, RuntimeError):
    """A tool's service does not answer: the attempt is void and not wrong."""


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
    """Cost of the models that the tool called; None if the price of one is unknown."""
    retrievals: Sequence[Mapping[str, Any]] = ()
    """For a search, per query: index_id, query, doc_ids, scores, latency_s."""
    final: str | None = None
    """The attempt's final text, if the tool ends it: stored as the model's last message."""


def refused(reason: str) -> ToolResult:
    """The result of an invalid call: its error."""
    at = now()
    return ToolResult(f"error: {reason}", "error", at, at, MALFORMED)


def arguments_of(text: str) -> dict[str, Any]:
    """Parse a call's arguments from the model's JSON text; an empty text is no arguments. Raises
    ValueError, whose message is for the model."""
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
        """Their descriptions in OpenAI's format."""
        ...

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Run one call; `arguments` is the model's JSON text. A malformed call is answered with its
        error. Raises ToolUnavailable."""
        ...


async def run_together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all, run concurrently; if one fails, the others are cancelled."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def schema(name: str, description: str, argument: str, meaning: str) -> dict[str, Any]:
    """Return the description of a tool with one text argument."""
    properties = {argument: {"type": "string", "description": meaning}}
    parameters = {"type": "object", "properties": properties, "required": [argument]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOL_SCHEMAS: list[dict[str, Any]] = [
    schema("search", "Search the documentation.", "query", "a name or a few words"),
    schema("python", "Run a Python program; what it prints comes back.", "code", "the program"),
]


def names_of(schemas: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of described tools, in order."""
    return [each["function"]["name"] for each in schemas]


REQUIRED_ARGUMENT = {"search": "query", "python": "code"}


class JoinedTools:
    """Several sets of tools as one; a call goes to the set that contains its name."""

    def __init__(self, several: Sequence[Tools]) -> None:
        """Raises ToolUnavailable if two sets have a tool of the same name."""
        self.schemas = [schema for each in several for schema in each.schemas]
        names = names_of(self.schemas)
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ToolUnavailable(
                f"{', '.join(twice)}: two of the offered tools have this name; leave out "
                "`harness.python` or `harness.search_index`, or name another MCP server"
            )
        self._of = {name: each for each in several for name in names_of(each.schemas)}

    async def use(self, name: str, arguments: str) -> ToolResult:
        if name not in self._of:
            return refused(f"no tool {name!r}; there are: {', '.join(self._of)}")
        return await self._of[name].use(name, arguments)


class DescribedTools:
    """Tools that are only described: an empty set, or tools whose calls are the answer."""

    def __init__(self, schemas: Sequence[Mapping[str, Any]] = ()) -> None:
        self.schemas = schemas

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Return an error to the model: described tools cannot be called."""
        return refused(f"there is no tool {name!r}")


class Partner(Protocol):
    """The agent's partner in a dialogue: a simulated user, or a world that speaks
    (`tasks.benchmarks.World`). `begin` and `reply` raise ModelCallFailed, ToolUnavailable."""

    async def begin(self) -> str | None:
        """The partner's first message after the prompt; None if the prompt contains it."""
        ...

    async def reply(self, said: str) -> str | ToolResult | None:
        """Return the reply to a message without calls; None ends the dialogue. If the reply is a
        tool's result, return that tool run."""
        ...

    def over(self) -> bool:
        """Whether the dialogue has ended by itself, after the calls of a turn."""
        ...


@dataclass(frozen=True)
class Environment:
    """An agent's tools and its partner in a dialogue."""

    tools: Tools
    partner: Partner | None = None
