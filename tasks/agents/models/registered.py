"""Derives an agent's and a call's settings from a model's entry in the registry.

In: a `Model` of models.yaml. Out: an `Agent` and a `Sampling`.
"""

from dataclasses import replace

from tutti.tasks.agents.loop import Agent
from tutti.tasks.agents.models.model import Sampling
from tutti.tasks.serving import Model


def agent_of(model: Model, agent: Agent, max_tokens: int) -> Agent:
    """`agent` adapted to `model`: its dialect, and a prompt limit that leaves room in the model's
    context for `max_tokens` of answer."""
    room = max(model.context_tokens - max_tokens, 1)
    wanted = agent.context_tokens
    return replace(
        agent, dialect=model.dialect, context_tokens=room if wanted is None else min(room, wanted)
    )


def sampling_of(model: Model, temperature: float, max_tokens: int, seed: int) -> Sampling:
    """The sampling parameters of `model`, with its own fields and their names."""
    return Sampling(
        temperature,
        max_tokens,
        seed,
        more=model.fields,
        max_tokens_field=model.max_tokens_field,
        described=None if model.tools else model.dialect,
        reasoning_field=model.reasoning_field,
    )
