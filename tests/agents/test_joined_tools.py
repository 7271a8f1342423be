"""Tests of several tool sets joined as one: a call goes to its set, and no name occurs twice."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tutti.tasks.agents.tools import JoinedTools, ToolResult, ToolUnavailable
from tutti.tasks.agents.tools.tool import refused, schema


class Named:
    """Tool set with one tool that returns its name."""

    def __init__(self, name: str) -> None:
        self.schemas: Sequence[Mapping[str, Any]] = [schema(name, "", "a", "")]

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Return the tool's name as a refusal."""
        return refused(f"{self.schemas[0]['function']['name']} got {name}")


async def test_a_call_goes_to_the_set_that_has_it() -> None:
    tools = JoinedTools([Named("a"), Named("b")])
    assert [each["function"]["name"] for each in tools.schemas] == ["a", "b"]
    assert (await tools.use("b", "{}")).content == "error: b got b"
    assert (await tools.use("c", "{}")).content == "error: no tool 'c'; there are: a, b"


def test_one_name_twice_is_refused() -> None:
    with pytest.raises(ToolUnavailable, match="python: two of the offered tools"):
        JoinedTools([Named("python"), Named("python")])
