"""Experts that a task offers itself: a subset of the file's, at the task's own prices.

In: an agent file, and by alias USD per million tokens. Out: the file as the task shows it, and
experts whose calls cost these prices. The gateway's records keep the prices of its own book; the
attempt's cost, which limits and rewards read, is by the task's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tutti.tasks.agents.context import Message
from tutti.tasks.agents.models.model import ChatModel, Reply
from tutti.tasks.agents.orchestrator.agent_file import (
    AgentFile,
    AgentFileError,
    Expert,
    ShownPrices,
    Tool,
)
from tutti.tasks.agents.orchestrator.consult import Experts

TaskExperts = Mapping[str, Mapping[str, float]]
"""By alias: ``prompt`` and ``completion``, USD per million tokens. Empty: the task offers none of
its own."""


def offered_by_task(file: AgentFile, task_experts: TaskExperts) -> AgentFile:
    """The file with only the task's experts, at its prices; a tool none of whose experts the task
    names keeps its own. Raises AgentFileError for an alias that the file does not have."""
    known = {alias for _, tool in file.tools.given() for alias in tool.experts}
    if unknown := sorted(set(task_experts) - known):
        raise AgentFileError(
            f"the task offers the expert {unknown[0]!r}; the agent's file has {', '.join(known)}"
        )
    tools = {
        name: _restricted(tool, task_experts)
        for name, tool in file.tools.given()
        if set(tool.experts) & set(task_experts)
    }
    return file.model_copy(update={"tools": file.tools.model_copy(update=tools)})


def _restricted(tool: Tool, task_experts: TaskExperts) -> Tool:
    experts = {
        alias: expert.model_copy(update={"prices": ShownPrices.model_validate(task_experts[alias])})
        for alias, expert in tool.experts.items()
        if alias in task_experts
    }
    return tool.model_copy(update={"experts": experts})


def at_task_prices(experts: Experts, task_experts: TaskExperts) -> Experts:
    """The same experts; the calls of those that the task names cost its prices."""

    def made(expert: Expert) -> ChatModel:
        model = experts(expert)
        if expert.alias not in task_experts:
            return model
        return _PricedByTask(model, ShownPrices.model_validate(task_experts[expert.alias]))

    return made


class _PricedByTask:
    def __init__(self, model: ChatModel, prices: ShownPrices) -> None:
        self._model, self._prices = model, prices

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        """The model's reply at the task's price. Raises as the model does."""
        reply = await self._model.complete(messages, tools, step, positions)
        # Every prompt has tokens: 0 are those that the endpoint did not report.
        tokens = reply.prompt_tokens, reply.completion_tokens
        cost = self._prices.cost_usd(*tokens) if reply.prompt_tokens else None
        return replace(reply, cost_usd=cost)
