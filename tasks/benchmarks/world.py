"""The environment of an attempt in an interactive benchmark: its tools and the agent's partner."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from tutti.storage import now
from tutti.tasks.agents.models import ChatModel
from tutti.tasks.agents.tools import ToolResult, Tools, arguments_of, refused
from tutti.tasks.task_sets import Task


class World(Tools, Protocol):
    """One attempt's environment. Its schemas may change from turn to turn. `use`, `begin` and
    `reply` raise ToolUnavailable if the world itself fails, and the errors of models that they
    call."""

    async def begin(self) -> str | None:
        """The first message to the agent after the prompt; None if the prompt contains it."""
        ...

    async def reply(self, said: str) -> str | ToolResult | None:
        """Return the reply to a message without calls; None ends the dialogue. If the reply is the
        result of a tool of the world, return that tool run."""
        ...

    def over(self) -> bool:
        """Whether the world has ended the episode."""
        ...

    def outcome(self) -> Mapping[str, Any] | None:
        """The final state, for the scorer; None if only the conversation is scored."""
        ...

    async def close(self) -> None:
        """Release resources; called once, at the attempt's end."""
        ...


class PlainWorld:
    """The defaults of a world: it begins with the prompt, has no tools, does not end by itself, is
    scored by the conversation only, and holds no resources."""

    schemas: Sequence[Mapping[str, Any]] = ()

    async def use(self, name: str, arguments: str) -> ToolResult:
        return refused(f"there is no tool {name!r}: say what you want to say")

    async def begin(self) -> str | None:
        return None

    def over(self) -> bool:
        return False

    def outcome(self) -> Mapping[str, Any] | None:
        return None

    async def close(self) -> None:
        """Do nothing."""


MakeWorld = Callable[[Task, ChatModel | None], World]
"""Makes one attempt's world. The model plays the user, if the benchmark needs one."""

Act = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Answers a call: (name, arguments) to the text for the caller. Raises CallRefused."""


class CallRefused(Exception):
    """The world refuses a well-formed call; the message goes to the caller."""

    def __init__(self, reason: str, kind: str = "tool_error") -> None:
        super().__init__(reason)
        self.kind = kind


async def carry_out(
    act: Act, schemas: Sequence[Mapping[str, Any]], name: str, arguments: str
) -> ToolResult:
    """Run one call of a world's tool; return `act`'s answer, or the error in the call."""
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
