"""A game as an agent's world: commands in, observations out, and a reward at the end.

A `Game` adapts another package's environment. The packages are not part of tutti.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tutti.tasks.agents.tools import ToolResult, ToolUnavailable
from tutti.tasks.benchmarks.errors import SourceMissing
from tutti.tasks.benchmarks.world import CallRefused, carry_out

REMINDER = "Nothing happens: the world is acted in with tools, not with words."
T = TypeVar("T")
log = logging.getLogger(__name__)
# TextWorld's parser is not thread-safe. These games have their own thread, so that games that wait
# (a shop loads for minutes) do not block the store and the gateway.
_ONE_AT_A_TIME = ThreadPoolExecutor(1, "games")


@dataclass(frozen=True)
class Turn:
    """The result of one command."""

    text: str
    reward: float = 0.0
    """The game's reward so far, 0 to 1."""
    done: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)


class Game(Protocol):
    """One game. Its methods may block; they are called on a thread."""

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        """The tools for playing it."""
        ...

    def start(self) -> str:
        """Begin; return the first observation and the objective."""
        ...

    def act(self, name: str, arguments: Mapping[str, Any]) -> Turn:
        """Run one command. Raises CallRefused for an invalid command."""
        ...

    def close(self) -> None:
        """End the game, even if it was not started."""
        ...


class GameWorld:
    """One attempt at a game."""

    def __init__(self, game: Game) -> None:
        self.schemas = game.schemas
        self._game = game
        self._last = Turn("")
        self._reminded = False

    async def begin(self) -> str | None:
        return await _threaded(self._game.start)

    async def use(self, name: str, arguments: str) -> ToolResult:
        self._reminded = False
        return await carry_out(self._act, self.schemas, name, arguments)

    async def reply(self, said: str) -> str | None:
        """Handle a message without a command: first a reminder, then the attempt ends."""
        again, self._reminded = self._reminded, True
        return None if again else REMINDER

    def over(self) -> bool:
        return self._last.done

    def outcome(self) -> Mapping[str, Any]:
        last = self._last
        return {"reward": last.reward, "ended": last.done, **last.detail}

    async def close(self) -> None:
        """End the game; an error is only logged, because the attempt has ended."""
        try:
            await _threaded(self._game.close)
        except ToolUnavailable as error:
            log.warning("%s", error)

    async def _act(self, name: str, arguments: dict[str, Any]) -> str:
        if not self._last.done:  # another call of the same turn may have ended it
            self._last = await _threaded(lambda: self._game.act(name, arguments))
        return self._last.text


async def _threaded(work: Callable[[], T]) -> T:
    def alone() -> T:
        try:
            return work()
        except CallRefused:
            raise
        except Exception as error:  # whatever a package raises, the attempt is void and not wrong
            what = f"{type(error).__name__}: {error}"
            raise ToolUnavailable(f"the game failed: {what}") from error

    return await asyncio.get_running_loop().run_in_executor(_ONE_AT_A_TIME, alone)


def package(name: str, install: str) -> Any:
    """Import the package `name`. Raises SourceMissing, which says how to `install` it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SourceMissing(
            f"the package {name} is not usable here ({error}): {install}"
        ) from error
