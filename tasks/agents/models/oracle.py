"""An oracle: the known solution of a task, as tool uses and the answer that they lead to.

It imports nothing of the platform: training jobs in the models environment use it too.
"""

from collections.abc import Generator
from dataclasses import dataclass


@dataclass(frozen=True)
class ToolUse:
    """What an oracle does next: one tool and its arguments."""

    name: str
    arguments: dict[str, str]


Oracle = Generator[ToolUse, str, str]
"""Yields tool uses, is sent each result's text, returns the answer it read from them."""
