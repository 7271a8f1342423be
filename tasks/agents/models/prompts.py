"""An agent's first messages, the form of its answer, an oracle's tool uses, and a score.

Standard library only, because training jobs in the models environment import it, too.
"""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

SYSTEM_PROMPT = "Answer with the tools. Put the final answer in \\boxed{}."
BOXED_START = "\\boxed{"


def opening(question: str) -> list[dict[str, str]]:
    """Return the first messages of an attempt."""
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question}]


def boxed(answer: str) -> str:
    """Return the final message for `answer`."""
    return f"{BOXED_START}{answer}}}"


def last_boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` in `text`, braces balanced; None if absent."""
    start = text.rfind(BOXED_START)
    if start < 0:
        return None
    depth = 1
    begin = start + len(BOXED_START)
    for offset, character in enumerate(re.sub(r"\\[{}]", "  ", text[begin:])):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return text[begin : begin + offset].strip()
    return None


@dataclass(frozen=True)
class Score:
    """An attempt's score by one scorer."""

    scorer: str
    version: str
    value: float
    """0 to 1, unless the scorer documents another range."""
    correct: bool
    answer: str | None = None
    """The answer as the scorer read it, if it differs from the attempt's."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """JSON data on the reason; for a judge its text."""
    judge_call_id: str | None = None
    found_answer: bool = True
    """False: the scorer looked for an answer and found none, which is no vote in a majority."""


@dataclass(frozen=True)
class ToolUse:
    """The oracle's next step: a tool and its arguments."""

    name: str
    arguments: dict[str, Any]


Oracle = Generator[ToolUse, str, str]
"""Yields tool uses, is sent each result's text, and returns the answer read from them."""
