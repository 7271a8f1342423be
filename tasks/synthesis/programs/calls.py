"""Calls of tools: those of tasks, and those by which solvers read and act."""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from tutti.tasks.agents import ToolUse
from tutti.tasks.synthesis.domains import Action

Slots = Mapping[str, str]
Reading = Generator[ToolUse, str, Any]
"""Yields tool uses, is sent their results' text, returns what was read."""


def call(tool: str, /, **arguments: Any) -> Action:
    """A golden or forbidden call."""
    return Action(name=tool, arguments=arguments)


def use(tool: str, /, **arguments: Any) -> Reading:
    """Call a tool and read its JSON. Raises LookupError where it refuses."""
    text = yield ToolUse(tool, arguments)
    if text.startswith("error:"):
        raise LookupError(f"{tool}({arguments}): {text}")
    return json.loads(text)


def find(
    what: str, tool: str, key: str, among: Sequence[str], matches: Callable[[Any], bool]
) -> Reading:
    """Read records by their keys until one matches. Raises LookupError where there is no `what`."""
    for each in among:
        record = yield from use(tool, **{key: each})
        if matches(record):
            return record
    raise LookupError(f"there is no {what}")
