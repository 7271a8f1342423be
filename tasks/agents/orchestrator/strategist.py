"""Strategist and actor: the measured model names a strategy, another model makes the move.

In: the file's tool ``act``, the strategist's model, a world with strategies. Out:
`StrategistTurns`, a model, a set of tools and a partner for the agent loop. Each turn the
strategist's message is the strategy, so that its conversation only grows and can be trained on as
one sequence. The actor is asked anew each turn, by the world's description of what the strategy
allows; its call has the role ``expert`` and is the tool run ``act``. Source of the design: EPO
(arXiv 2502.12486), where a trained model writes strategies and a frozen one acts.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson

from tutti.storage import Cost, ErrorType, now
from tutti.tasks.agents.context import Message
from tutti.tasks.agents.environment import Partner
from tutti.tasks.agents.models.model import (
    ChatModel,
    ContextExceeded,
    ModelCallFailed,
    Reply,
    restricted,
)
from tutti.tasks.agents.orchestrator.agent_file import AgentFile
from tutti.tasks.agents.orchestrator.consult import Experts
from tutti.tasks.agents.tools import ToolResult, Tools

ACT = "act"


@dataclass(frozen=True)
class MoveTask:
    """What an actor is asked."""

    messages: Sequence[Message]
    moves: Sequence[str]
    """The legal moves, of which it is to write one."""


Actor = Callable[[MoveTask], Awaitable[str]]
"""Makes a move. Raises ModelCallFailed."""


class StrategyWorld(Tools, Partner, Protocol):
    """A world whose moves an actor can make, by strategies."""

    def direct(self, actor: Actor, structured: bool) -> Sequence[str]:
        """Be told moves by an actor and speak to a strategist; returns the known strategies.

        `actor` is for the other parties of the world that models play.
        """
        ...

    def move_task(self, strategy: str) -> MoveTask:
        """What the actor is asked under a strategy, a known one or any other text."""
        ...


class StrategistTurns:
    """The model, the tools and the partner of one attempt."""

    def __init__(
        self,
        file: AgentFile,
        model: ChatModel,
        world: StrategyWorld,
        experts: Experts,
        other_experts: Experts,
    ) -> None:
        """`other_experts` reaches the actor for other parties. Raises ValueError for a file without
        the tool ``act``."""
        if file.tools.act is None:
            raise ValueError(f"the agent file has no tool `{ACT}`, which strategies need")
        self._tool = file.tools.act
        self._experts, self._world = experts, world
        structured = self._tool.structured_strategies
        strategies = world.direct(self._actor_of(other_experts), structured)
        self._model = restricted(model, strategies) if structured else model
        self._step, self._move = 0, ""

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        """The world's tools."""
        return self._world.schemas

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Run one of the world's tools. Raises ToolUnavailable."""
        return await self._world.use(name, arguments)

    async def begin(self) -> str | None:
        """The world's first message."""
        return await self._world.begin()

    async def reply(self, said: str) -> str | ToolResult | None:
        """The world's answer to the actor's move. Raises the errors of models that it calls."""
        return await self._world.reply(self._move)

    def over(self) -> bool:
        """Whether the world has ended the episode."""
        return self._world.over()

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        """The strategist's message, after which the actor has made its move.

        The cost is that of both calls. Raises ModelCallFailed; ContextExceeded
        if the strategist's own prompt is too long.
        """
        self._step, self._move = step, ""
        reply = await self._model.complete(messages, tools, step, positions)
        strategy: str = (reply.message["content"] or "").strip()
        if not strategy:
            return reply  # no strategy, so no move: the world refuses it
        started_at = now()
        task = self._world.move_task(strategy)
        acted = await self._ask(self._experts, task)
        self._move = acted.message["content"] or ""
        run = ToolResult(self._move, "ok", started_at, now(), cost_usd=acted.cost_usd)
        cost = Cost()
        cost.add(reply.cost_usd)
        cost.add(acted.cost_usd)
        arguments = orjson.dumps({"strategy": strategy, "moves": list(task.moves)}).decode()
        return replace(reply, cost_usd=cost.usd, runs=((ACT, arguments, run),))

    def _actor_of(self, experts: Experts) -> Actor:
        async def act(task: MoveTask) -> str:
            acted = await self._ask(experts, task)
            return acted.message["content"] or ""

        return act

    async def _ask(self, experts: Experts, task: MoveTask) -> Reply:
        model = experts(self._tool.actor)
        if self._tool.structured_moves:
            model = restricted(model, task.moves)
        try:
            return await model.complete(task.messages, (), self._step)
        except ContextExceeded as error:  # the actor's: no limit of the strategist
            text = f"the actor cannot read so much: {error}"
            raise ModelCallFailed(text, error_type=ErrorType.TOOL_CONTEXT_EXCEEDED) from error
