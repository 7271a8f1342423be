"""The tools of an MCP server as an agent's tools.

In: a server's URL (streamable HTTP), or the command that starts it (stdio). Out: `MCPTools`, with
the schemas that the server lists. The result of a call is its text; an error is returned to the
model. Needs the package `mcp` (``pip install 'tutti[mcp]'``).
"""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutti.storage import now
from tutti.tasks.agents.tools import ToolResult, ToolUnavailable, refused

if TYPE_CHECKING:
    from mcp import Client

START_S = 30.0
PAGES = 100  # of a server's list of tools


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
        self, client: "Client", schemas: Sequence[Mapping[str, Any]], call_s: float
    ) -> None:
        self.schemas = schemas
        self._client, self._call_s = client, call_s
        self._names = frozenset(each["function"]["name"] for each in schemas)

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Call a tool. Raises ToolUnavailable if the server is gone."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        try:
            given = self._checked(name, arguments)
        except ValueError as error:
            return refused(str(error))
        started_at = now()
        try:
            async with asyncio.timeout(self._call_s):
                answer = await self._client.call_tool(name, given)
        except TimeoutError:
            text = f"error: {name} did not answer in {self._call_s:g} s"
            return ToolResult(text, "timeout", started_at, now(), "timeout")
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise ToolUnavailable(f"{name}: the MCP server is gone") from error
            # The server's own refusal of the arguments.
            return ToolResult(f"error: {error}", "error", started_at, now(), "tool_error")
        except (OSError, EOFError, RuntimeError) as error:
            raise ToolUnavailable(f"{name}: {type(error).__name__}: {error}") from error
        status, kind = ("error", "tool_error") if answer.is_error else ("ok", None)
        return ToolResult(_text(answer), status, started_at, now(), kind)

    def _checked(self, name: str, arguments: str) -> dict[str, Any]:
        if name not in self._names:
            raise ValueError(f"no tool {name!r}; there are: {', '.join(sorted(self._names))}")
        try:
            given = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the arguments are not JSON: {error}") from error
        if not isinstance(given, dict):
            raise ValueError("the arguments must be a JSON object")
        return given


@asynccontextmanager
async def open_mcp(server: McpServer) -> AsyncIterator[MCPTools]:
    """A server's tools for the block's duration; a command started for it ends with the block.

    Raises ToolUnavailable if it does not start, or lists no tools.
    """
    try:
        from mcp import Client, StdioServerParameters
    except ImportError as error:
        raise ToolUnavailable("MCP tools need the package mcp: pip install 'tutti[mcp]'") from error
    target: Any = server.where
    if not server.where.startswith(("http://", "https://")):
        command, *arguments = shlex.split(server.where)
        environment = None if server.environment is None else dict(server.environment)
        target = StdioServerParameters(command=command, args=arguments, env=environment)
    client = Client(target)
    try:
        async with asyncio.timeout(START_S):
            await client.__aenter__()
    except BaseException as error:
        if isinstance(error, Exception):
            raise ToolUnavailable(
                f"the MCP server {server.where!r} did not start: {error}"
            ) from error
        raise
    try:
        yield MCPTools(client, await _schemas(client, server.where), server.call_s)
    finally:
        await client.__aexit__(None, None, None)


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
