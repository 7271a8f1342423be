"""What an agent acts on: its tools, and who it talks to."""

from dataclasses import dataclass
from typing import Protocol

from tutti.tasks.agents.tools import ToolResult, Tools


class Partner(Protocol):
    """Who the agent talks to: a simulated user, or a world that speaks (`tasks.benchmarks.World`).

    `begin` and `reply` raise ModelCallFailed, ToolUnavailable.
    """

    async def begin(self) -> str | None:
        """What is said to the agent after the prompt; None where the prompt says it all."""
        ...

    async def reply(self, said: str) -> str | ToolResult | None:
        """What is said back to a message without calls; None: that message was the last. Where it
        is what a tool found, that run of it."""
        ...

    def over(self) -> bool:
        """Whether it has ended by itself, after the calls of a turn."""
        ...


@dataclass(frozen=True)
class Environment:
    """What an agent acts on: its tools, and who it talks to."""

    tools: Tools
    partner: Partner | None = None
