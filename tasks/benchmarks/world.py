"""The environment of an attempt in an interactive benchmark: its tools, and who talks to the agent.

In: an item, and a model where somebody is simulated. Out: a `World`, one per attempt, which holds
all state that the attempt changes and is discarded with it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tutti.storage import now
from tutti.tasks.agents import ToolResult, Tools, arguments_of, refused

if TYPE_CHECKING:
    from tutti.tasks.agents import ChatModel
    from tutti.tasks.benchmarks.item import Item


class World(Tools, Protocol):
    """One attempt's surroundings. Its schemas may grow from turn to turn.

    `use`, `begin` and `reply` raise ToolUnavailable where the world itself fails, and what the
    model raises that they ask.
    """

    async def begin(self) -> str | None:
        """What is said to the agent after the prompt; None where the prompt says it all."""
        ...

    async def reply(self, said: str) -> str | ToolResult | None:
        """What is said back to a message without calls; None: that message was the last. Where it
        is what a tool of the world found, that run of it."""
        ...

    def over(self) -> bool:
        """Whether it has ended by itself, so that there is nothing left to do."""
        ...

    def outcome(self) -> Mapping[str, Any] | None:
        """The final state, for the scorer; None where the conversation is all that counts."""
        ...

    async def close(self) -> None:
        """Give back what it holds; called once, at the attempt's end."""
        ...


MakeWorld = Callable[["Item", "ChatModel | None"], World]
"""One attempt's world. The model plays the user, where the benchmark needs one."""

Act = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Answers a call: (name, arguments) to the text for the caller. Raises CallRefused."""


class CallRefused(Exception):
    """The world refuses a well-formed call; the message goes to the caller."""

    def __init__(self, reason: str, kind: str = "tool_error") -> None:
        super().__init__(reason)
        self.kind = kind
        """The result's error type."""


async def carry_out(
    act: Act, schemas: Sequence[Mapping[str, Any]], name: str, arguments: str
) -> ToolResult:
    """One call of a world's tool: `act`'s answer, or what is wrong with the call."""
    names = [each["function"]["name"] for each in schemas]
    if name not in names:
        return refused(f"there is no tool {name!r}; there are: {', '.join(names) or 'none'}")
    try:
        given = arguments_of(arguments)
    except ValueError as error:
        return refused(str(error))
    started_at = now()
    try:
        return ToolResult(await act(name, given), "ok", started_at, now())
    except CallRefused as no:
        return ToolResult(f"error: {no}", "error", started_at, now(), no.kind)
