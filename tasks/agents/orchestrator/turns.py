"""Experts in dialogues: the orchestrator acts itself, or has an expert write the turn.

In: the file's tool ``call_expert``, the orchestrator's model, the tools of the environment. Out:
`ExpertTurns`, a model and a set of tools for the agent loop. An expert receives the unchanged
conversation and the environment's tools; its message, with its calls, is the turn. The
orchestrator's own call is recorded in `tool_runs`; other calls beside it are not carried out. An
invalid call is answered like any malformed call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tutti.storage import Cost, now
from tutti.tasks.agents.context import Message
from tutti.tasks.agents.models.calls import read_calls
from tutti.tasks.agents.models.model import ChatModel, ContextExceeded, Reply
from tutti.tasks.agents.orchestrator.agent_file import CALL_EXPERT, AgentFile, Expert, Tool
from tutti.tasks.agents.orchestrator.consult import Experts
from tutti.tasks.agents.orchestrator.offer import chosen, offered
from tutti.tasks.agents.tools import ToolResult, Tools, refused
from tutti.tasks.serving import Dialect

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
        """The environment's tools, which may change, and `call_expert`."""
        return [*self._tools.schemas, self._schema]

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Run one of the environment's tools; an invalid `call_expert` is answered with its error.
        Raises ToolUnavailable."""
        if name == CALL_EXPERT:
            return refused(self._why)
        return await self._tools.use(name, arguments)

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        """The message of the orchestrator, or of the expert that it calls.

        Raises ModelCallFailed; ContextExceeded if the orchestrator's own prompt is too long.
        """
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
        """The first `call_expert` of the message."""
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
        run = ToolResult(
            f"{expert.alias} writes the turn",
            "ok",
            started_at,
            now(),
            cost_usd=turn.cost_usd,
        )
        cost = Cost()
        cost.add(own.cost_usd)
        cost.add(turn.cost_usd)
        return replace(
            own,
            message=message,
            call_id=turn.call_id,
            cost_usd=cost.usd,
            runs=((CALL_EXPERT, arguments, run),),
        )
