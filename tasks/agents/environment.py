"""An agent's environment: its tools and its partner in a dialogue."""

from dataclasses import dataclass
from typing import Protocol

from tutti.tasks.agents.tools import ToolResult, Tools


class Partner(Protocol):
    """The agent's partner in a dialogue: a simulated user, or a world that speaks
    (`tasks.benchmarks.World`).

    `begin` and `reply` raise ModelCallFailed, ToolUnavailable.
    """

    async def begin(self) -> str | None:
        """The partner's first message after the prompt; None if the prompt contains it."""
        ...

    async def reply(self, said: str) -> str | ToolResult | None:
        """The reply to a message without calls; None ends the dialogue. If the reply is a tool's
        result, also that tool run."""
        ...

    def over(self) -> bool:
        """Whether the dialogue has ended by itself, after the calls of a turn."""
        ...


@dataclass(frozen=True)
class Environment:
    """An agent's tools and its partner in a dialogue."""

    tools: Tools
    partner: Partner | None = None
