"""The tools and experts offered to a sample's orchestrator, and the parsing of its choice.

Each drawn feature has a random stream of its own, named by seed, task and feature, so that another
alias or another range in the file changes no other draw.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from tutti.tasks.agents.models.model import ChatModel, Messages, Positions, Reply, Schemas
from tutti.tasks.agents.orchestrator.agent_file import (
    AgentFile,
    AgentFileError,
    Draw,
    Expert,
    Range,
    ShownPrices,
    Tool,
)
from tutti.tasks.agents.orchestrator.escalate import Experts
from tutti.tasks.agents.tools.tool import arguments_of


def offered(name: str, tool: Tool, argument: str, strict: bool = False) -> dict[str, Any]:
    """The tool in OpenAI's function format. Its one argument names an expert; skills, prices and
    latency of each are described, its model is not. `strict`: an engine with support decodes valid
    arguments only."""
    lines = [tool.description]
    for alias, e in tool.experts.items():
        lines.append(
            f"- {alias}: {e.skills[0]} {e.prices.prompt:.4g} USD per million tokens read,"
            f" {e.prices.completion:.4g} per million written; about {e.latency_s:.4g} s."
        )
    value = {"type": "string", "enum": list(tool.experts), "description": "the expert to ask"}
    parameters: dict[str, Any] = {"type": "object", "properties": {argument: value}}
    parameters |= {"required": [argument]} | ({"additionalProperties": False} if strict else {})
    function = {"name": name, "description": "\n".join(lines), "parameters": parameters}
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


def chosen(name: str, tool: Tool, argument: str, arguments: str) -> Expert:
    """The expert that a call names; `arguments` is the model's JSON text. Raises ValueError that
    says what is invalid."""
    alias = arguments_of(arguments).get(argument)
    if not isinstance(alias, str):
        raise ValueError(f"{name} needs the argument {argument!r}, the name of an expert")
    if alias not in tool.experts:
        known = ", ".join(tool.experts)
        raise ValueError(f"{name} has no expert {alias!r}; there are: {known}")
    return tool.experts[alias]


TaskExperts = Mapping[str, Mapping[str, float]]
"""By alias: ``prompt`` and ``completion``, USD per million tokens. Empty: the task offers none of
its own."""


def offered_by_task(file: AgentFile, task_experts: TaskExperts) -> AgentFile:
    """The file with only the task's experts, at its prices; a tool with no expert named by the task
    keeps its own experts. Raises AgentFileError for an alias that the file does not have."""
    known = {alias for _, tool in file.tools.given() for alias in tool.experts}
    if unknown := sorted(set(task_experts) - known):
        raise AgentFileError(
            f"the task offers the expert {unknown[0]!r}; the agent's file has {', '.join(known)}"
        )
    tools = {}
    for name, tool in file.tools.given():
        experts = {
            alias: expert.model_copy(update={"prices": ShownPrices.model_validate(prices)})
            for alias, expert in tool.experts.items()
            if (prices := task_experts.get(alias)) is not None
        }
        if experts:
            tools[name] = tool.model_copy(update={"experts": experts})
    return file.model_copy(update={"tools": file.tools.model_copy(update=tools)})


def at_task_prices(experts: Experts, task_experts: TaskExperts) -> Experts:
    """Return the same experts; calls of those that the task names have the task's prices."""

    def priced(expert: Expert) -> ChatModel:
        model, prices = experts(expert), task_experts.get(expert.alias)
        return model if prices is None else _PricedByTask(model, ShownPrices(**prices))

    return priced


class _PricedByTask:
    def __init__(self, model: ChatModel, prices: ShownPrices) -> None:
        self._model, self._prices = model, prices

    async def complete(
        self, messages: Messages, tools: Schemas, step: int, positions: Positions = None
    ) -> Reply:
        reply = await self._model.complete(messages, tools, step, positions)
        # Every prompt has tokens: 0 are those that the endpoint did not report.
        tokens = reply.prompt_tokens, reply.completion_tokens
        cost = self._prices.cost_usd(*tokens) if reply.prompt_tokens else None
        return replace(reply, cost_usd=cost)


def drawn(file: AgentFile, seed: int, task_id: str) -> AgentFile:
    """Return the file randomised for one sample: the same for the same seed and task; unchanged
    without ``draw``."""
    if file.draw is None:
        return file
    base = f"{seed}/{task_id}"
    tools = {name: _of_tool(tool, file.draw, base, name) for name, tool in file.tools.given()}
    return file.model_copy(update={"tools": file.tools.model_copy(update=tools)})


def _of_tool(tool: Tool, draw: Draw, base: str, name: str) -> Tool:
    aliases, experts = list(tool.experts), list(tool.experts.values())
    if draw.models:
        Random(f"{base}/models/{name}").shuffle(experts)
    behind = dict(zip(aliases, experts, strict=True))
    if draw.least is not None and draw.least < len(aliases):
        stream = Random(f"{base}/least/{name}")
        there = set(stream.sample(aliases, stream.randint(draw.least, len(aliases))))
        behind = {alias: expert for alias, expert in behind.items() if alias in there}
    return tool.model_copy(
        update={"experts": {each: _expert(e, each, draw, base) for each, e in behind.items()}}
    )


def _expert(expert: Expert, alias: str, draw: Draw, base: str) -> Expert:
    price = _factor(draw.prices, f"{base}/prices/{expert.model}")
    prices = ShownPrices.model_construct(
        prompt=expert.prices.prompt * price, completion=expert.prices.completion * price
    )
    latency_s = expert.latency_s * _factor(draw.latency, f"{base}/latency/{expert.model}")
    words = Random(f"{base}/skills/{expert.model}/{alias}").choice(expert.skills)
    shown = {"alias": alias, "prices": prices, "latency_s": latency_s, "skills": (words,)}
    return expert.model_copy(update=shown)


def _factor(between: Range, stream: str) -> float:
    """Draw log-uniformly: half the price is as likely as twice."""
    low, high = map(math.log, between)
    return math.exp(Random(stream).uniform(low, high))
