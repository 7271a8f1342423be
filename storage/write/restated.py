"""Answers that an agent sends back as text of its own.

The agents of smolagents put no tool calls in their prompts. An answer comes back stripped, and
followed by a line ``Calling tools:`` and the calls as Python writes them, in the order of their
ids. An agent that writes code closes the code block and adds a call that the model did not make.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

MARK = "Calling tools:\n"
CODE_END = "</code>"


def originals(text: str) -> Iterator[Mapping[str, Any]]:
    """The answers that an assistant's text may restate, the likeliest first."""
    said, _, written = text.partition(MARK)
    if calls := _calls(written):
        said = said.removesuffix("\n")
        yield {"role": "assistant", "content": said, "tool_calls": calls}
        yield {"role": "assistant", "content": said}
        yield {"role": "assistant", "content": said.removesuffix(CODE_END)}


def _calls(written: str) -> list[Any]:
    """Calls as Python writes them; none if that is something else."""
    try:
        calls = ast.literal_eval(written)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return calls if isinstance(calls, list) and set(map(type, calls)) == {dict} else []
