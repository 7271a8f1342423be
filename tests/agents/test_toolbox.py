"""Malformed calls are answered to the model with what is wrong; nothing is carried out."""

import asyncio
from typing import Any, cast

import aiohttp
import pytest

from tasks.agents.sandbox import Sandbox, strongest_level
from tasks.agents.toolbox import Toolbox


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("serch", "{}", "no tool 'serch'; there are: search, python"),
        ("python", "{bad", "not JSON"),
        ("python", "[1]", "needs the argument 'code'"),
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
