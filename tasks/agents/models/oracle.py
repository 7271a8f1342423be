"""An oracle: the known solution of a task, as tool uses and the resulting answer.

It imports nothing of the platform, because training jobs in the models environment use it too.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ToolUse:
    """The oracle's next step: a tool and its arguments."""

    name: str
    arguments: dict[str, Any]


Oracle = Generator[ToolUse, str, str]
"""Yields tool uses, is sent each result's text, and returns the answer read from them."""
