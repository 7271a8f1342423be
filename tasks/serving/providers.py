"""Defaults of each provider: its address, the variable of its key, and the form of its requests.

In: the `provider` of a registry entry. Out: defaults for the entry. A provider with an
OpenAI-compatible API is one line of `PROVIDERS`; others are reached through LiteLLM's proxy, which
the user starts and configures as an ordinary endpoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ThinkingSwitch:
    """The request fields that turn thinking on and off."""

    on: Mapping[str, Any]
    off: Mapping[str, Any]


# Qwen's switch, used by most chat templates: the engine passes it to the template.
TEMPLATE = ThinkingSwitch(
    {"chat_template_kwargs": {"enable_thinking": True}},
    {"chat_template_kwargs": {"enable_thinking": False}},
)
EFFORT = ThinkingSwitch({"reasoning_effort": "medium"}, {"reasoning_effort": "none"})
CLAUDE = ThinkingSwitch({"thinking": {"type": "adaptive"}}, {"thinking": {"type": "disabled"}})
REASONING = ThinkingSwitch({"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}})


@dataclass(frozen=True)
class Provider:
    """The defaults of one provider's entries."""

    thinking: ThinkingSwitch
    endpoint: str | None = None
    """Its base URL; None if each entry has its own."""
    api_key_env: str | None = None
    """The environment variable named in its documentation."""
    key_header: str = "Authorization"
    """The header that carries the key; empty: chosen by path."""
    api_path: str = "/v1"
    """The path prefix of its API."""
    metrics: bool = False
    """Whether it is an engine with /metrics and /health."""
    max_tokens_field: str = "max_tokens"
    """The name of its field for the most output tokens."""


NEWER = "max_completion_tokens"  # the reasoning models of both reject the older name

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
    # Its OpenAI-compatible chat takes a bearer token, its own messages take x-api-key.
    "anthropic": Provider(
        CLAUDE, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", key_header=""
    ),
    "together": Provider(REASONING, "https://api.together.ai/v1", "TOGETHER_API_KEY"),
    "nebius": Provider(TEMPLATE, "https://api.tokenfactory.nebius.com/v1", "NEBIUS_API_KEY"),
    "litellm": Provider(EFFORT, "http://127.0.0.1:4000/v1"),
}
