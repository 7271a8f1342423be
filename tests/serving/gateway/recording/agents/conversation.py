"""Shared parts of the agents: the task, its tools, and the printed format of the conversation."""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

SYSTEM, QUESTION = "Be brief.", "1 + 2, and the weather in Zürich?"
Message = dict[str, Any]
Run = Callable[[str, str, bool], list[Message]]
"""An agent: what it saw behind a base URL, in a protocol, streamed or not."""


def add(a: int, b: float) -> str:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return str(a + b)


def weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: The name of a city.
    """
    return f"Rain in {city}."


TOOLS: dict[str, Callable[..., str]] = {"add": add, "weather": weather}
SCHEMAS: dict[str, dict[str, Any]] = {
    "add": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
    "weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def said(role: str, text: Any, **more: Any) -> Message:
    return {"role": role, "text": text or "", **more}


def answered(text: Any, calls: Iterable[tuple[Any, Any, Any]], thought: Any = None) -> Message:
    """Return an assistant's message; `calls` are ids, names and arguments, as text or parsed."""
    parsed = [
        [call_id, name, json.loads(given) if isinstance(given, str) else given]
        for call_id, name, given in calls
    ]
    return said("assistant", text, calls=parsed) | ({"thought": thought} if thought else {})


def result(call_id: Any, text: Any) -> Message:
    return said("tool", text, result_of=call_id)


def main(run: Run) -> None:
    """Run the agent as each program on the command line, and print its conversation as JSON.

    A program is named by its protocol and whether it streams: ``chat-streamed``, ``chat-whole``.
    """
    _, url, *programs = sys.argv
    seen = {}
    for program in programs:
        protocol, _, mode = program.partition("-")
        seen[program] = run(f"{url}/p/{program}", protocol, mode == "streamed")
    print("\n" + json.dumps(seen))  # the display of a stream leaves its last line open
