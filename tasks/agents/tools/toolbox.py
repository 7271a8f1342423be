"""Carries out tool calls: search through the retrieval service, Python in the sandbox.

With sandbox sessions, an attempt's variables persist until the attempt ends.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from typing import Any

import aiohttp

from tutti.storage import now
from tutti.tasks.agents.tools.retrieve import MAX_QUERY_CHARS, service_search
from tutti.tasks.agents.tools.tool import (
    REQUIRED_ARGUMENT,
    TOOL_SCHEMAS,
    ToolResult,
    Tools,
    ToolUnavailable,
    arguments_of,
    names_of,
    refused,
    schema,
)
from tutti.tasks.sandbox import CodeRunner, SandboxResult, SandboxSessions, SandboxUnavailable

# as much as a context of a thousand tokens can hold besides the conversation
RESULTS_PER_SEARCH = 2
PYTHON_SESSION = schema(
    "python",
    "Run a cell of Python; what it prints and its last value come back, its variables stay.",
    "code",
    "the cell",
)
RunPython = Callable[[str], Awaitable[SandboxResult]]


class Toolbox:
    """The tools of one run, shared by its attempts; `of` returns those of one attempt."""

    schemas: Sequence[Mapping[str, Any]] = TOOL_SCHEMAS

    def __init__(
        self,
        session: aiohttp.ClientSession,
        search_url: str,
        sandbox: CodeRunner,
        sessions: SandboxSessions | None = None,
    ) -> None:
        """`sessions`: Python sessions that keep attempts' variables; None runs each program
        separately."""
        self._search = service_search(session, search_url)
        self._sessions = sessions
        self._sandbox = sandbox
        self._python: RunPython | None = None

    @asynccontextmanager
    async def of(self, attempt_id: str) -> AsyncIterator["Toolbox"]:
        """The tools of one attempt for the block; its Python session ends with the block."""
        if self._sessions is None:
            yield self
            return
        own = copy(self)
        own.schemas = [TOOL_SCHEMAS[0], PYTHON_SESSION]
        own._python = partial(self._sessions.run, attempt_id)
        try:
            yield own
        finally:
            await self._sessions.close(attempt_id)

    @asynccontextmanager
    async def python(self, attempt_id: str) -> AsyncIterator[Tools]:
        """Only the tool python of one attempt for the block; its session ends with the block."""
        async with self.of(attempt_id) as tools:
            yield NamedTools(tools, tools.schemas[1:])

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Run one call; `arguments` is the model's JSON text. A malformed call is answered with its
        error. Raises ToolUnavailable."""
        started_at = now()
        try:
            argument = _checked(name, arguments)
        except ValueError as error:
            return refused(str(error))
        if name == "search":
            (found,) = await self._search([argument], RESULTS_PER_SEARCH)
            content = "\n\n".join(hit.text for hit in found.hits)
            return ToolResult(content, "ok", started_at, now(), retrievals=(found.row,))
        try:
            result = await (self._python or self._sandbox.run)(argument)
        except SandboxUnavailable as error:
            raise ToolUnavailable(f"python: {error}") from error
        status = {"ok": "ok", "timeout": "timeout"}.get(result.status, "error")
        kind = None if result.status == "ok" else result.status
        return ToolResult(result.output.rstrip("\n"), status, started_at, now(), kind)


class NamedTools:
    """Some of a toolbox's tools."""

    def __init__(self, tools: Tools, schemas: Sequence[Mapping[str, Any]]) -> None:
        """`schemas` are those of the permitted tools."""
        self._tools, self.schemas = tools, schemas
        self._names = names_of(schemas)

    async def use(self, name: str, arguments: str) -> ToolResult:
        if name not in self._names:
            return refused(f"no tool {name!r}; there is: {', '.join(self._names)}")
        return await self._tools.use(name, arguments)


class SearchTool(NamedTools):
    """Only the tool search of a toolbox."""

    def __init__(self, toolbox: Toolbox) -> None:
        super().__init__(toolbox, TOOL_SCHEMAS[:1])


def _checked(name: str, arguments: str) -> str:
    if name not in REQUIRED_ARGUMENT:
        raise ValueError(f"no tool {name!r}; there are: {', '.join(REQUIRED_ARGUMENT)}")
    wanted = REQUIRED_ARGUMENT[name]
    value = arguments_of(arguments).get(wanted)
    if not isinstance(value, str):
        raise ValueError(f"{name} needs the argument {wanted!r}, a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{wanted!r} holds half a character: {error.reason}") from error
    if name == "search" and len(value) > MAX_QUERY_CHARS:  # a service's refusal ends the attempt
        raise ValueError(f"{wanted!r} has {len(value)} characters, at most {MAX_QUERY_CHARS}")
    return value
