"""What is known of each provider: its address, where its key is, and how a request is put to it.

In: the `provider` of a registry entry. Out: what the entry need not say. A provider that has an
OpenAI-compatible API is one line of `PROVIDERS`; one that has none is reached through LiteLLM's
proxy, which the user starts, and which is an endpoint like any.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ThinkingSwitch:
    """The fields of a request that turn thinking on and off."""

    on: Mapping[str, Any]
    off: Mapping[str, Any]


# Qwen's switch, and that of most chat templates: the engine hands it to the template.
TEMPLATE = ThinkingSwitch(
    {"chat_template_kwargs": {"enable_thinking": True}},
    {"chat_template_kwargs": {"enable_thinking": False}},
)
EFFORT = ThinkingSwitch({"reasoning_effort": "medium"}, {"reasoning_effort": "none"})
CLAUDE = ThinkingSwitch({"thinking": {"type": "adaptive"}}, {"thinking": {"type": "disabled"}})
REASONING = ThinkingSwitch({"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}})


@dataclass(frozen=True)
class Provider:
    """What entries of one provider have in common."""

    thinking: ThinkingSwitch
    endpoint: str | None = None
    """Its base URL; None where each entry has its own."""
    api_key_env: str | None = None
    """The environment variable that its own documentation names."""
    key_header: str = "Authorization"
    """The header that carries the key; empty for the gateway's rule by path."""
    api_path: str = "/v1"
    """What its paths begin with."""
    metrics: bool = False
    """An engine: it has /metrics and /health."""
    max_tokens_field: str = "max_tokens"
    """What it calls the limit of an answer."""


NEWER = "max_completion_tokens"  # the reasoning models of both refuse the older name

PROVIDERS: dict[str, Provider] = {
    "vllm": Provider(TEMPLATE, metrics=True),
    "sglang": Provider(TEMPLATE, metrics=True),
    "openai": Provider(EFFORT, "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "azure": Provider(
        EFFORT,
        api_key_env="AZURE_OPENAI_API_KEY",
        key_header="api-key",
        api_path="/openai/v1",
        max_tokens_field=NEWER,
    ),
    # A bearer token for its OpenAI-compatible chat, x-api-key for its own messages.
    "anthropic": Provider(
        CLAUDE, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", key_header=""
    ),
    "together": Provider(REASONING, "https://api.together.ai/v1", "TOGETHER_API_KEY"),
    "nebius": Provider(TEMPLATE, "https://api.tokenfactory.nebius.com/v1", "NEBIUS_API_KEY"),
    "litellm": Provider(EFFORT, "http://127.0.0.1:4000/v1"),
}
