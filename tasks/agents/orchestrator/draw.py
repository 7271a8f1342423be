"""What a sample's orchestrator sees: aliases, prices, latencies, descriptions, drawn by its seed.

An orchestrator that always saw the same prices behind the same aliases would memorise them. Each
feature has a random stream of its own, named by seed, task and feature, so that another alias or
another range in the file changes no other draw. A model has one factor, whatever its aliases.
"""

import math
from random import Random

from tutti.tasks.agents.orchestrator.agent_file import (
    AgentFile,
    Draw,
    Expert,
    Range,
    ShownPrices,
    Tool,
)


def drawn(file: AgentFile, seed: int, task_id: str) -> AgentFile:
    """The file randomised for one sample: the same for the same seed and task; unchanged without
    ``draw``."""
    if file.draw is None:
        return file
    base = f"{seed}/{task_id}"
    tools = {
        name: _of_tool(tool, file.draw, base, name) if tool else None
        for name, tool in (
            (name, getattr(file.tools, name)) for name in type(file.tools).model_fields
        )
    }
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
    told = {"alias": alias, "prices": prices, "latency_s": latency_s, "skills": (words,)}
    return expert.model_copy(update=told)


def _factor(between: Range, stream: str) -> float:
    """Log-uniform: half the price is as likely as twice."""
    low, high = map(math.log, between)
    return math.exp(Random(stream).uniform(low, high))
