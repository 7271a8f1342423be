"""The tools of an MCP server as an agent's tools.

In: a server's URL (streamable HTTP), or the command that starts it (stdio). Out: `MCPTools`, with
the schemas that the server lists. The result of a call is its text; an error is returned to the
model. Needs the package `mcp` (``pip install 'tutti[mcp]'``).
"""

import asyncio
import json
import os
import shlex
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from tutti.storage import now
from tutti.tasks.agents.tools import ToolResult, ToolUnavailable, arguments_of, names_of, refused
from tutti.tasks.serving.processes import TOKEN, end_marked

if TYPE_CHECKING:
    from mcp import Client

START_S = 30.0
PAGES = 100  # of a server's list of tools
STDERR_BYTES, STDERR_SHOWN = 4096, 200  # read of its end, and shown of its last line


@dataclass(frozen=True)
class McpServer:
    """An MCP server."""

    where: str
    """Its URL, or its command as a shell command line."""
    call_s: float = 60.0
    """Time limit of one call."""
    environment: Mapping[str, str] | None = None
    """Environment of a command, besides the variables that every program needs."""


class MCPTools:
    """One server's tools."""

    def __init__(
        self,
        client: "Client",
        schemas: Sequence[Mapping[str, Any]],
        server: McpServer,
        stderr: IO[str],
    ) -> None:
        self.schemas = schemas
        self._client, self._server, self._stderr = client, server, stderr
        self._names = names_of(schemas)

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Call a tool. Raises ToolUnavailable if the server is gone."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        if name not in self._names:
            return refused(f"no tool {name!r}; there are: {', '.join(sorted(self._names))}")
        try:
            given = arguments_of(arguments)
        except ValueError as error:
            return refused(str(error))
        started_at = now()
        try:
            async with asyncio.timeout(self._server.call_s):
                answer = await self._client.call_tool(name, given)
        except TimeoutError:
            text = f"error: {name} did not answer in {self._server.call_s:g} s"
            return ToolResult(text, "timeout", started_at, now(), "timeout")
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise ToolUnavailable(self._gone(name)) from error
            # The server's own refusal of the arguments.
            return ToolResult(f"error: {error}", "error", started_at, now(), "tool_error")
        except (OSError, EOFError, RuntimeError) as error:
            raise ToolUnavailable(f"{name}: {type(error).__name__}: {error}") from error
        status, kind = ("error", "tool_error") if answer.is_error else ("ok", None)
        return ToolResult(_text(answer), status, started_at, now(), kind)

    def _gone(self, name: str) -> str:
        where, said = self._server.where, _last_line(self._stderr)
        return f"{name}: the MCP server {where!r} has ended{said}"


@asynccontextmanager
async def open_mcp(server: McpServer) -> AsyncIterator[MCPTools]:
    """A server's tools for the block's duration; a command started for it ends with the block.

    Raises ToolUnavailable if it does not start, or lists no tools.
    """
    try:
        from mcp import Client
    except ImportError as error:
        raise ToolUnavailable("MCP tools need the package mcp: pip install 'tutti[mcp]'") from error
    mark = uuid.uuid4().hex
    try:
        with TemporaryFile("w+", errors="replace") as stderr:
            async with AsyncExitStack() as stack:
                client = Client(_target(server, stderr, mark))
                schemas = await _started(client, server, stderr, stack)
                yield MCPTools(client, schemas, server, stderr)
    finally:
        await asyncio.to_thread(end_marked, mark)


async def _started(
    client: "Client", server: McpServer, stderr: IO[str], stack: AsyncExitStack
) -> list[dict[str, Any]]:
    """Connect the client until the `stack` ends; returns the tools. Raises ToolUnavailable."""
    try:
        async with asyncio.timeout(START_S):
            await stack.enter_async_context(client)
            return await _schemas(client, server.where)
    except ToolUnavailable:
        raise
    except Exception as error:
        why = f"{_why(error)}{_last_line(stderr)}"
        raise ToolUnavailable(f"the MCP server {server.where!r} did not start: {why}") from error


def _target(server: McpServer, stderr: IO[str], mark: str) -> Any:
    """What the client connects to. A command's stderr is kept from the terminal; `mark` is in the
    environment of all that it starts."""
    if server.where.startswith(("http://", "https://")):
        return server.where
    from mcp import StdioServerParameters, stdio_client

    command, *arguments = shlex.split(server.where)
    environment = {**(server.environment or {}), TOKEN: mark}
    started = StdioServerParameters(command=command, args=arguments, env=environment)
    return stdio_client(started, errlog=cast(TextIO, stderr))


def _why(error: BaseException) -> str:
    """An error in words; of a group of a task group's errors, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"no answer in {START_S:g} s"
    return str(error) or type(error).__name__


def _last_line(stderr: IO[str]) -> str:
    """The last words of a command on its stderr, for the end of a message; nothing for none."""
    end = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, end - STDERR_BYTES))
    lines = stderr.read().split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; its last line on stderr: {said[:STDERR_SHOWN]}" if said else ""


async def _schemas(client: "Client", where: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    for _ in range(PAGES):
        listed = await client.list_tools(cursor=cursor)
        found += [_schema(tool) for tool in listed.tools]
        cursor = listed.next_cursor
        if cursor is None:
            break
    if not found:
        raise ToolUnavailable(f"the MCP server {where!r} lists no tools")
    return found


def _schema(tool: Any) -> dict[str, Any]:
    parameters = tool.input_schema or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description or "", "parameters": parameters}
    return {"type": "function", "function": function}


def _text(answer: Any) -> str:
    """A result as text; parts that are not text are mentioned by their type."""
    parts = [
        part.text if part.type == "text" else f"[{part.type} left out]" for part in answer.content
    ]
    if not parts and answer.structured_content is not None:
        return json.dumps(answer.structured_content)
    return "\n".join(parts)
