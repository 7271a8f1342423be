"""Tests that any MCP server's tools can be used as an agent's tools, with real servers over
stdio."""

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from tests.agents.test_command import is_running, soon
from tutti.tasks.agents.tools.mcp import MCPTools, open_mcp
from tutti.tasks.agents.tools.tool import ToolUnavailable

T = TypeVar("T")
COMMAND = f"{shlex.quote(sys.executable)} -m tests.agents.mcp_server"


def with_tools(work: Callable[[MCPTools], Awaitable[T]], call_s: float = 20.0) -> T:
    """Run `work` with the tools of the test server."""

    async def run() -> T:
        async with open_mcp(COMMAND, call_s) as tools:
            return await work(tools)

    return asyncio.run(run())


def test_tools_are_listed_and_called_and_all_ends_with_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tools have their schemas, the server sees none of our keys, and a process that has left the
    command's session ends, too."""
    monkeypatch.setenv("MY_API_KEY", "x")

    async def work(tools: MCPTools) -> int:
        named = {each["function"]["name"]: each["function"] for each in tools.schemas}
        assert named["add"]["description"] == "Add two numbers."
        assert set(named["add"]["parameters"]["properties"]) == {"a", "b"}
        result = await tools.use("add", '{"a": 40, "b": 2}')
        assert (result.status, result.content) == ("ok", "42")
        assert (await tools.use("secret", "")).content == "False"
        return int((await tools.use("daemon", "{}")).content)

    pid = with_tools(work)
    soon(lambda: not is_running(pid), 60)


BAD_CALLS = (
    ("subtract", "{}", "malformed_call", "no tool 'subtract'; there are: add"),
    ("add", "{", "malformed_call", "not JSON"),
    ("add", "[1]", "malformed_call", "must be a JSON object"),
    ("add", '{"a": "x", "b": 2}', "tool_error", "a"),
    ("fail", "{}", "tool_error", "fail"),
)
"""A tool, its arguments, the kind of error and words of what the model is told."""


def test_bad_calls_are_told_to_the_model() -> None:
    """Bad calls never raise an exception; one server answers all of them because its start takes a
    second."""

    async def work(tools: MCPTools) -> None:
        for name, arguments, kind, words in BAD_CALLS:
            result = await tools.use(name, arguments)
            assert (result.status, result.error_type) == ("error", kind), (name, arguments)
            assert words in result.content, (name, arguments)

    with_tools(work)


def test_a_slow_tool_times_out() -> None:
    """The limit is the server's `call_s`."""
    result = with_tools(lambda tools: tools.use("wait", "{}"), call_s=0.5)
    assert (result.status, result.error_type) == ("timeout", "timeout")


@pytest.mark.parametrize("where", ["/no/such/program", f"{shlex.quote(sys.executable)} -c pass"])
def test_a_server_that_does_not_start_is_said(where: str) -> None:
    """The error is raised immediately and names the server."""

    async def run() -> None:
        async with open_mcp(where):
            raise AssertionError("it has started")

    with pytest.raises(ToolUnavailable, match="did not start") as told:
        asyncio.run(run())
    assert where in str(told.value) and "TaskGroup" not in str(told.value)


def test_the_last_line_of_a_server_that_failed_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """The line is the last one on stderr, which is not shown in the terminal."""
    program = "import sys; print('reading', file=sys.stderr); sys.exit('error: no database')"
    where = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}"

    async def run() -> None:
        async with open_mcp(where):
            raise AssertionError("it has started")

    with pytest.raises(ToolUnavailable, match=r"its last line on stderr: error: no database$"):
        asyncio.run(run())
    assert "database" not in capfd.readouterr().err


def test_a_server_that_dies_voids_the_attempt() -> None:
    """The attempt is void and not wrong, and there is no wait."""

    async def work(tools: MCPTools) -> None:
        told = r"^leave: the MCP server .*mcp_server' has ended; .*stderr: error: lost the disk$"
        with pytest.raises(ToolUnavailable, match=told):
            await tools.use("leave", "{}")

    with_tools(work)
