"""The tools of an MCP server (streamable HTTP or stdio) as an agent's tools.

Needs the package `mcp` (``pip install 'tutti[mcp]'``).
"""

import asyncio
import json
import os
import shlex
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from tutti.storage import now
from tutti.tasks.agents.tools.tool import (
    ToolResult,
    ToolUnavailable,
    arguments_of,
    names_of,
    refused,
)
from tutti.tasks.serving.processes import TOKEN, end_marked

if TYPE_CHECKING:
    from mcp import Client

START_S = 30.0
CALL_S = 60.0
PAGES = 100  # of a server's list of tools
STDERR_BYTES, STDERR_SHOWN = 4096, 200  # read of its end, and shown of its last line


class MCPTools:
    """One server's tools."""

    def __init__(
        self,
        client: "Client",
        schemas: Sequence[Mapping[str, Any]],
        where: str,
        call_s: float,
        stderr: IO[str],
    ) -> None:
        self.schemas = schemas
        self._client, self._where, self._call_s, self._stderr = client, where, call_s, stderr
        self._names = names_of(schemas)

    async def use(self, name: str, arguments: str) -> ToolResult:
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
            async with asyncio.timeout(self._call_s):
                answer = await self._client.call_tool(name, given)
        except TimeoutError:
            text = f"error: {name} did not answer in {self._call_s:g} s"
            return ToolResult(text, "timeout", started_at, now(), "timeout")
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                ended = f"the MCP server {self._where!r} has ended"
                raise ToolUnavailable(f"{name}: {ended}{_last_line(self._stderr)}") from error
            # The server's own refusal of the arguments.
            return ToolResult(f"error: {error}", "error", started_at, now(), "tool_error")
        except (OSError, EOFError, RuntimeError) as error:
            raise ToolUnavailable(f"{name}: {type(error).__name__}: {error}") from error
        status, kind = ("error", "tool_error") if answer.is_error else ("ok", None)
        return ToolResult(_text(answer), status, started_at, now(), kind)


@asynccontextmanager
async def open_mcp(where: str, call_s: float = CALL_S) -> AsyncIterator[MCPTools]:
    """Open the tools of the server at a URL, or of a command's, which ends with the block. `call_s`
    limits a call. Raises ToolUnavailable if it does not start, or lists no tools."""
    mark = uuid.uuid4().hex  # in the environment of all that a command starts
    try:
        with TemporaryFile("w+", errors="replace") as stderr:  # kept from the terminal
            async with AsyncExitStack() as stack:
                client, schemas = await _started(where, stderr, mark, stack)
                yield MCPTools(client, schemas, where, call_s, stderr)
    finally:
        await asyncio.to_thread(end_marked, mark)


async def _started(
    where: str, stderr: IO[str], mark: str, stack: AsyncExitStack
) -> tuple["Client", list[dict[str, Any]]]:
    try:
        from mcp import Client, StdioServerParameters, stdio_client
    except ImportError as error:
        raise ToolUnavailable("MCP tools need the package mcp: pip install 'tutti[mcp]'") from error
    try:
        target: Any = where
        if not where.startswith(("http://", "https://")):
            command, *args = shlex.split(where)
            own = StdioServerParameters(command=command, args=args, env={TOKEN: mark})
            target = stdio_client(own, errlog=cast(TextIO, stderr))
        client = Client(target)
        async with asyncio.timeout(START_S):
            await stack.enter_async_context(client)
            return client, await _schemas(client, where)
    except ToolUnavailable:
        raise
    except Exception as error:
        why = f"the MCP server {where!r} did not start: {_why(error)}"
        raise ToolUnavailable(f"{why}{_last_line(stderr)}") from error


def _why(error: BaseException) -> str:
    """Return an error as text; for a task group's errors, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"no answer in {START_S:g} s"
    return str(error) or type(error).__name__


def _last_line(stderr: IO[str]) -> str:
    end = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, end - STDERR_BYTES))
    lines = stderr.read().split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; its last line on stderr: {last[:STDERR_SHOWN]}" if last else ""


async def _schemas(client: "Client", where: str) -> list[dict[str, Any]]:
    functions: list[dict[str, Any]] = []
    cursor = None
    for _ in range(PAGES):
        listed = await client.list_tools(cursor=cursor)
        functions += [
            {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": tool.input_schema or {"type": "object", "properties": {}},
            }
            for tool in listed.tools
        ]
        cursor = listed.next_cursor
        if cursor is None:
            break
    if not functions:
        raise ToolUnavailable(f"the MCP server {where!r} lists no tools")
    return [{"type": "function", "function": each} for each in functions]


def _text(answer: Any) -> str:
    parts = [
        part.text if part.type == "text" else f"[{part.type} left out]" for part in answer.content
    ]
    if not parts and answer.structured_content is not None:
        return json.dumps(answer.structured_content)
    return "\n".join(parts)
