"""Turns of a dialogue that an expert writes, and of a world where an expert makes the moves.

`StrategistTurns` asks the actor anew each turn, while the strategist's conversation only grows, so
that it can be trained on as one sequence. Source: EPO (arXiv 2502.12486).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson

from tutti.storage import Cost, ErrorType, now
from tutti.tasks.agents.models.calls import read_calls
from tutti.tasks.agents.models.context import Message
from tutti.tasks.agents.models.model import (
    ChatModel,
    ContextExceeded,
    Messages,
    ModelCallFailed,
    Positions,
    Reply,
    Schemas,
    restricted,
)
from tutti.tasks.agents.orchestrator.agent_file import CALL_EXPERT, AgentFile, Expert, Tool
from tutti.tasks.agents.orchestrator.escalate import Experts
from tutti.tasks.agents.orchestrator.offer import chosen, offered
from tutti.tasks.agents.tools.tool import Partner, ToolResult, Tools, refused
from tutti.tasks.serving.registry import Dialect

ARGUMENT = "expert"


def offered_expert_tool(tool: Tool) -> dict[str, Any]:
    """The tool ``call_expert`` in OpenAI's function format."""
    return offered(CALL_EXPERT, tool, ARGUMENT)


class ExpertTurns:
    """The model and the tools of one attempt at a dialogue."""

    def __init__(
        self,
        file: AgentFile,
        model: ChatModel,
        tools: Tools,
        experts: Experts,
        dialect: Dialect = "openai",
        dialect_of: Callable[[Expert], Dialect] = lambda expert: "openai",
    ) -> None:
        """`dialect` is the form of the orchestrator's calls if the endpoint does not parse them,
        `dialect_of` that of an expert's. Raises ValueError for a file without the tool
        ``call_expert``."""
        if file.tools.call_expert is None:
            raise ValueError(f"the agent file has no tool `{CALL_EXPERT}`, which dialogues need")
        self._tool = file.tools.call_expert
        self._model, self._tools, self._experts = model, tools, experts
        self._dialect, self._dialect_of = dialect, dialect_of
        self._schema = offered_expert_tool(self._tool)
        self._why = ""

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        return [*self._tools.schemas, self._schema]

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Run one of the environment's tools; an invalid `call_expert` is answered with its error.
        Raises ToolUnavailable."""
        if name == CALL_EXPERT:
            return refused(self._why)
        return await self._tools.use(name, arguments)

    async def complete(
        self, messages: Messages, tools: Schemas, step: int, positions: Positions = None
    ) -> Reply:
        """The message of the orchestrator, or of the expert that it calls. Raises ModelCallFailed;
        ContextExceeded if the orchestrator's own prompt is too long."""
        reply = await self._model.complete(messages, tools, step, positions)
        call = self._call(reply)
        if call is None:
            return reply
        try:
            expert = chosen(CALL_EXPERT, self._tool, ARGUMENT, call["arguments"])
            return await self._turn(expert, call["arguments"], reply, messages, step, positions)
        except ValueError as error:
            self._why = str(error)
        except ContextExceeded as error:
            self._why = f"the expert cannot read so much: {error}"[:300]
        return reply

    def _call(self, reply: Reply) -> Mapping[str, Any] | None:
        calls = (
            reply.message.get("tool_calls")
            or read_calls(reply.message["content"], self._dialect, reply.call_id).calls
        )
        functions = (call["function"] for call in calls)
        return next((f for f in functions if f["name"] == CALL_EXPERT), None)

    async def _turn(
        self,
        expert: Expert,
        arguments: str,
        own: Reply,
        messages: Sequence[Message],
        step: int,
        positions: Sequence[int] | None,
    ) -> Reply:
        """The expert's turn, with the cost of both calls. Its token counts are
        those of the orchestrator's call, from which the loop learns the length of its prompts."""
        started_at = now()
        turn = await self._experts(expert).complete(messages, self._tools.schemas, step, positions)
        message = turn.message
        read = read_calls(message["content"], self._dialect_of(expert), turn.call_id)
        if read.calls and not message.get("tool_calls"):
            message = message | {"content": read.content, "tool_calls": list(read.calls)}
        text = f"{expert.alias} writes the turn"
        run = ToolResult(text, "ok", started_at, now(), cost_usd=turn.cost_usd)
        own = _with_run(own, (CALL_EXPERT, arguments, run))
        return replace(own, message=message, call_id=turn.call_id)


def _with_run(reply: Reply, run: tuple[str, str, ToolResult]) -> Reply:
    """The reply with a tool run that led to it, and with its cost."""
    cost = Cost()
    cost.add(reply.cost_usd)
    cost.add(run[2].cost_usd)
    return replace(reply, cost_usd=cost.usd, runs=(run,))


ACT = "act"


@dataclass(frozen=True)
class MoveTask:
    """The task of an actor."""

    messages: Sequence[Message]
    moves: Sequence[str]
    """The legal moves, of which it is to write one."""


Actor = Callable[[MoveTask], Awaitable[str]]
"""Makes a move. Raises ModelCallFailed."""


class StrategyWorld(Tools, Partner, Protocol):
    """A world in which an actor can make the moves, by strategies."""

    def direct(self, actor: Actor, structured: bool) -> Sequence[str]:
        """Let an actor make the moves and a strategist read the messages; return the known
        strategies. `actor` is for the other parties of the world that models play."""
        ...

    def move_task(self, strategy: str) -> MoveTask:
        """Return the actor's task under a strategy, a known one or any other text."""
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
        return self._world.schemas

    async def use(self, name: str, arguments: str) -> ToolResult:
        return await self._world.use(name, arguments)

    async def begin(self) -> str | None:
        return await self._world.begin()

    async def reply(self, said: str) -> str | ToolResult | None:
        return await self._world.reply(self._move)

    def over(self) -> bool:
        return self._world.over()

    async def complete(
        self, messages: Messages, tools: Schemas, step: int, positions: Positions = None
    ) -> Reply:
        """Return the strategist's message, after which the actor has moved. The cost is that of
        both calls. Raises ModelCallFailed; ContextExceeded if the strategist's own prompt is too
        long."""
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
        arguments = orjson.dumps({"strategy": strategy, "moves": list(task.moves)}).decode()
        return _with_run(reply, (ACT, arguments, run))

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
