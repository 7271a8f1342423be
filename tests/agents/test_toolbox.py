"""Tests of malformed tool calls: the model gets an error, and nothing is executed."""

import asyncio
import json
from typing import Any, cast

import aiohttp
import pytest

from tutti.tasks.agents.tools.retrieve import MAX_QUERY_CHARS
from tutti.tasks.agents.tools.toolbox import Toolbox
from tutti.tasks.sandbox import Sandbox, SandboxSessions
from tutti.tasks.sandbox.walls import strongest_level


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("serch", "{}", "no tool 'serch'; there are: search, python"),
        ("python", "{bad", "not JSON"),
        ("python", "[1]", "must be a JSON object"),
        ("python", "{}", "needs the argument 'code'"),
        ("search", '{"query": 3}', "needs the argument 'query'"),
    ],
)
def test_malformed_calls(name: str, arguments: str, fault: str) -> None:
    toolbox = Toolbox(cast(aiohttp.ClientSession, None), "", cast(Sandbox, None))
    result: Any = asyncio.run(toolbox.use(name, arguments))
    assert result.status == "error" and result.error_type == "malformed_call"
    assert fault in result.content


def test_python_runs_in_the_sandbox() -> None:
    toolbox = Toolbox(cast(aiohttp.ClientSession, None), "", Sandbox(strongest_level()))
    good = asyncio.run(toolbox.use("python", '{"code": "print(6 * 7)"}'))
    bad = asyncio.run(toolbox.use("python", '{"code": "1 / 0"}'))
    assert (good.content, good.status) == ("42", "ok")
    assert bad.status == "error" and "ZeroDivisionError" in bad.content


async def test_an_attempt_keeps_its_variables_until_it_ends() -> None:
    """With sessions, a variable persists between calls of one attempt; other attempts and a rerun
    of the same attempt start without it. The session ends with the attempt, also if that is
    cancelled in the middle of a cell."""
    async with SandboxSessions(strongest_level(), most=2) as sessions:
        toolbox = Toolbox(
            cast(aiohttp.ClientSession, None), "", Sandbox(strongest_level()), sessions
        )
        async with toolbox.of("one") as one, toolbox.of("two") as two:
            await one.use("python", '{"code": "x = 6"}')
            kept = await one.use("python", '{"code": "x * 7"}')
            other = await two.use("python", '{"code": "x"}')
            assert (kept.content, kept.status) == ("42", "ok")
            assert other.status == "error" and "NameError" in other.content
            assert "its variables stay" in one.schemas[1]["function"]["description"]
        assert sessions.held == 0
        async with toolbox.of("one") as again:
            assert "NameError" in (await again.use("python", '{"code": "x"}')).content

        async def attempt() -> None:
            async with toolbox.of("three") as three:
                await three.use("python", '{"code": "while True: pass"}')

        running = asyncio.create_task(attempt())
        await asyncio.sleep(0.3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert sessions.held == 0


async def test_without_sessions_each_program_is_by_itself() -> None:
    """By default, an attempt's tools are the toolbox's own, and no variable persists."""
    toolbox = Toolbox(cast(aiohttp.ClientSession, None), "", Sandbox(strongest_level()))
    async with toolbox.of("one") as tools:
        assert tools is toolbox
        await tools.use("python", '{"code": "x = 6"}')
        assert "NameError" in (await tools.use("python", '{"code": "x"}')).content


async def test_a_query_that_a_service_refuses_is_the_models_error() -> None:
    """Otherwise the query's length would decide whether the attempt counts."""
    toolbox = Toolbox(cast(aiohttp.ClientSession, None), "", Sandbox(strongest_level()))
    result = await toolbox.use("search", json.dumps({"query": "a" * (MAX_QUERY_CHARS + 1)}))
    assert result.status == "error" and "16385 characters" in result.content
