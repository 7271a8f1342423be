"""The model registry: `models.yaml`, validated.

In: the file. Out: a `Model` for each entry, completed with the defaults of its provider. A provider
with an OpenAI-compatible API is a line of `PROVIDERS`; others are reached through LiteLLM's proxy.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from tutti.storage import content_hash
from tutti.tasks.platform import (
    NOT_IN_ID,
    PASSWORD,
    NotInId,
    Strict,
    identity_of,
    plain_numbers,
    read_document,
)
from tutti.tasks.serving.errors import RegistryError
from tutti.tasks.serving.registry.settings import EngineSettings
from tutti.tasks.serving.weights import HubId, hub_weights_here, resolve_hub, weights_id

ThinkingSwitch = tuple[dict[str, Any], dict[str, Any]]

# Qwen's switch, used by most chat templates: the engine passes it to the template.
TEMPLATE = (
    {"chat_template_kwargs": {"enable_thinking": True}},
    {"chat_template_kwargs": {"enable_thinking": False}},
)
EFFORT = ({"reasoning_effort": "medium"}, {"reasoning_effort": "none"})
CLAUDE = ({"thinking": {"type": "adaptive"}}, {"thinking": {"type": "disabled"}})
REASONING = ({"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}})


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
    metrics: bool = False
    max_tokens_field: str = "max_tokens"


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


Dialect = Literal["openai", "hermes", "llama", "json"]
"""``openai``: the endpoint parses calls itself; text is text."""


ADDRESS = re.compile(r"https?://[^/\s]+")
VIA_ENDPOINT, VIA_ENGINE = NotInId("the endpoint's id"), NotInId("the engine's id")
VIA_FIELDS = NotInId("`Model.fields`")
RESERVED = frozenset(("model", "messages", "tools", "stream"))


ApiPath = Annotated[str, Field(pattern="^/"), AfterValidator(lambda path: path.rstrip("/"))]


class Prices(Strict):
    """USD per million tokens."""

    prompt: float = Field(0.0, ge=0)
    cached: float = Field(0.0, ge=0)
    completion: float = Field(0.0, ge=0)

    @property
    def is_free(self) -> bool:
        """Whether calls are free, whatever their tokens."""
        return not (self.prompt or self.cached or self.completion)

    def cost_usd(self, prompt: int, cached: int, completion: int) -> float:
        """Cost of one call; cached prompt tokens have their own price."""
        fresh = (prompt - cached) * self.prompt
        return (fresh + cached * self.cached + completion * self.completion) / 1e6


def _known_provider(name: str) -> str:
    if name not in PROVIDERS:
        raise ValueError(f"no provider {name!r}; known: {', '.join(sorted(PROVIDERS))}")
    return name


def _as_written(value: Any) -> Any:
    """Convert to text: YAML reads Azure's versions as dates, and numbers as numbers."""
    return str(value) if isinstance(value, date | int | float) else value


class Model(Strict):
    """One registry entry, completed with the provider's defaults."""

    provider: Annotated[str, AfterValidator(_known_provider), VIA_FIELDS]
    endpoint: Annotated[str | None, VIA_ENDPOINT] = Field(
        None, description="base URL of an endpoint that others serve"
    )
    api_key_env: Annotated[str | None, NOT_IN_ID] = Field(
        None, pattern="^[A-Z][A-Z0-9_]*$", description="environment variable that holds the key"
    )
    key_header: Annotated[str, NOT_IN_ID] = Field(
        "", pattern="^[A-Za-z0-9-]*$", description="header that carries it"
    )
    api_path: Annotated[ApiPath, VIA_ENDPOINT] = Field(
        "/v1", description="what the API's paths begin with"
    )
    query: Annotated[dict[str, Annotated[str, BeforeValidator(_as_written)]], VIA_ENDPOINT] = Field(
        {}, description="sent with each request: Azure's api-version"
    )
    served_name: Annotated[str | None, VIA_ENDPOINT] = Field(
        None, description="the model's name at its endpoint"
    )
    checkpoint: Annotated[Path | None, VIA_ENGINE] = Field(
        None, description="weights that tutti serves: a folder, or NAME@REVISION of the Hub"
    )
    dialect: Dialect = Field("openai", description="how calls are written, if not parsed there")
    context_tokens: int = Field(ge=64, description="prompt and answer together")
    tools: bool = Field(True, description="whether requests may have `tools`; else told as text")
    thinking: Annotated[bool | None, VIA_FIELDS] = Field(
        None, description="on or off; left out, as the model does it"
    )
    request: Annotated[dict[str, Any], VIA_FIELDS] = Field(
        {}, description="more fields of a request; null takes one out"
    )
    max_tokens_field: Annotated[Literal["max_tokens", "max_completion_tokens"], NOT_IN_ID] = (
        "max_tokens"
    )
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = Field(
        None, description="earlier reasoning is sent back in it; left out, it is not sent back"
    )
    prices: Annotated[Prices | None, NOT_IN_ID] = Field(
        None, description="left out, those of deployments/prices.yaml"
    )
    max_calls: Annotated[int | None, NOT_IN_ID] = Field(
        None, ge=1, description="most calls in flight at the endpoint"
    )
    requests_per_minute: Annotated[int | None, NOT_IN_ID] = Field(
        None, ge=1, description="the provider's limit"
    )
    tokens_per_minute: Annotated[int | None, NOT_IN_ID] = Field(
        None, ge=1, description="the provider's limit; prompts and answers together"
    )
    metrics: Annotated[bool, NOT_IN_ID] = Field(
        False, description="an engine, with /metrics and /health"
    )
    record_tokens: Annotated[bool, NOT_IN_ID] = Field(
        False, description="keep the answers' token ids and log probabilities, for training"
    )
    engine: Annotated[EngineSettings | None, VIA_ENGINE] = None

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, given: Any) -> Any:
        name = given.get("provider") if isinstance(given, Mapping) else None
        if not isinstance(name, str) or name not in PROVIDERS:
            return given
        provider = PROVIDERS[name]
        own_address = given.get("endpoint") is None and provider.endpoint is not None
        filled: dict[str, Any] = {
            "key_header": provider.key_header,
            "api_path": provider.api_path,
            "metrics": provider.metrics,
            "max_tokens_field": provider.max_tokens_field,
        }
        engine = given.get("engine")
        if isinstance(engine, Mapping) and engine.get("server") == "llama.cpp":
            filled["metrics"] = False  # its /metrics says nothing of its cache
        if own_address and given.get("checkpoint") is None:
            given = {**given, "endpoint": provider.endpoint}
            if name == "openai":
                # other servers with its API may not support it yet; its key is sent to no other
                # endpoint unless named
                filled["max_tokens_field"] = NEWER
        if own_address or provider.endpoint is None:  # a key goes to nobody else by itself
            filled["api_key_env"] = provider.api_key_env
        return {**given, **{name: each for name, each in filled.items() if name not in given}}

    @field_validator("endpoint")
    @classmethod
    def _no_password(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not ADDRESS.match(endpoint):
            raise ValueError("not an http(s) URL")
        if endpoint is not None and PASSWORD.search(endpoint):
            raise ValueError("a password in a URL ends up in tables; name `api_key_env`")
        return endpoint

    @field_validator("request")
    @classmethod
    def _own_fields(cls, request: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(RESERVED & request.keys()):
            raise ValueError(f"{', '.join(taken)}: set per request and not allowed here; remove it")
        return request

    @model_validator(mode="after")
    def _one_source(self) -> "Model":
        if (self.endpoint is None) == (self.checkpoint is None):
            raise ValueError("give either `endpoint` or `checkpoint`")
        if self.checkpoint is not None and self.engine is None:
            raise ValueError("a model with a `checkpoint` needs `engine` settings")
        if self.checkpoint is not None and self.provider != "vllm":
            raise ValueError("a `checkpoint` is served by tutti: `provider: vllm`")
        if twice := sorted(self._switch.keys() & self.request.keys()):
            raise ValueError(f"`thinking` and `request` both set {', '.join(twice)}")
        return self

    @property
    def hub_id(self) -> str | None:
        """The weights' name and revision on the Hub, as ``Qwen/Qwen3-8B@main``; None: a folder."""
        text = str(self.checkpoint)
        is_path = self.checkpoint is None or self.checkpoint.is_absolute()
        return None if is_path or "@" not in text else text

    @property
    def _switch(self) -> Mapping[str, Any]:
        if self.thinking is None:
            return {}
        switch = PROVIDERS[self.provider].thinking
        return switch[0] if self.thinking else switch[1]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields added to each request; a field that is None is removed."""
        return {**self._switch, **self.request}

    @property
    def asked(self) -> dict[str, Any]:
        """The settings that determine its answers besides weights and prompt, for ids."""
        return identity_of(self) | {"fields": plain_numbers(self.fields)}


class _Registry(Strict):
    models: dict[str, Model]


def read_registry(path: Path) -> dict[str, Model]:
    """All entries of `path`; relative checkpoints are resolved against its project folder. Raises
    RegistryError with file, line, field and value."""
    try:
        registry = read_document(path, RegistryError).check(_Registry)
    except FileNotFoundError:
        raise RegistryError(f"{path}: no such file; name one with --models") from None
    root = path.resolve().parent.parent
    return {name: _resolved(name, model, root) for name, model in registry.models.items()}


def pick_models(path: Path, names: Iterable[str]) -> dict[str, Model]:
    """Return the named entries. Raises RegistryError that lists the unknown and the known names."""
    models, wanted = read_registry(path), list(names)
    if unknown := [name for name in wanted if name not in models]:
        missing = " or ".join(map(repr, unknown))
        raise RegistryError(f"{path}: no model {missing}; known: {', '.join(sorted(models))}")
    return {name: models[name] for name in wanted}


def pick_model(path: Path, name: str) -> Model:
    """Return one entry. Raises RegistryError that lists the known names."""
    return pick_models(path, [name])[name]


def checkpoint_id(model: Model) -> str:
    """Return the content id of a served checkpoint: its weights, configuration and tokenizer.
    Raises WeightsError if the weights are missing or incomplete."""
    folder = model.checkpoint
    if folder is None:
        address: list[Any] = [model.endpoint, model.served_name]
        if model.query or model.api_path != "/v1":
            address += [model.api_path, model.query]
        return f"endpoint:{content_hash(address)}"
    return weights_id(weights_folder(model))


def weights_folder(model: Model) -> Path:
    """The folder of an entry's weights, or its GGUF file; those of a hub id are fetched if they are
    not in the cache, after their size was told on stderr. Raises WeightsError with what to do."""
    assert model.checkpoint is not None, "an entry of weights has one"
    return model.checkpoint if model.hub_id is None else resolve_hub(model.hub_id)


def weights_here(model: Model) -> Path | None:
    """Return the folder as `weights_folder` does, without downloads: None for a hub id that the
    cache does not have completely."""
    return model.checkpoint if model.hub_id is None else hub_weights_here(model.hub_id)


def _resolved(name: str, model: Model, root: Path) -> Model:
    """Fill in the entry's own name as its name at the endpoint, and resolve its weights under
    `root`."""
    if model.checkpoint is None:
        return model.model_copy(update={"served_name": model.served_name or name})
    if model.hub_id is not None:
        HubId.parse(model.hub_id)
        return model
    return model.model_copy(update={"checkpoint": root / model.checkpoint})
