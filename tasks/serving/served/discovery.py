"""A registry entry for the URL of an OpenAI-compatible endpoint, made by asking the endpoint.

In: the URL, and what the user says of it. Out: the entry, as `models.yaml` has it. The endpoint's
list of models (`/v1/models`) tells the served name and, with vLLM and SGLang, the context length.
"""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tutti.errors import UsageError
from tutti.tasks.serving.errors import EndpointFailed
from tutti.tasks.serving.gateway import Endpoint, EndpointConfig, ProbeFailed
from tutti.tasks.serving.registry.models import PROVIDERS, Model
from tutti.tasks.serving.wire import Answer

CONTEXT_TOKENS = 8192
"""The context length assumed if the endpoint does not report one."""
ENGINES = ("vllm", "sglang")
"""What `owned_by` says of a model that an engine of this kind serves; their lists are complete."""
SHOWN_NAMES = 10
ANTHROPIC_VERSION = (b"anthropic-version", b"2023-06-01")  # required by its own routes


@dataclass(frozen=True)
class EndpointRequest:
    """The user's settings for an endpoint; None means its own value, or a default."""

    url: str
    served_name: str | None = None
    api_key_env: str | None = None
    context_tokens: int | None = None


def is_url(model: str) -> bool:
    """Whether a model is given as an endpoint's URL, not as a registry entry."""
    return model.startswith(("http://", "https://"))


def short_name(text: str) -> str:
    """The text as a name of models and suites: lower case, with hyphens for other characters."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@dataclass(frozen=True)
class DiscoveredEntry:
    """The entry of an endpoint's model, with its served name and context length."""

    fields: dict[str, Any]
    is_context_assumed: bool


async def discover(request: EndpointRequest) -> DiscoveredEntry:
    """Return the entry of the endpoint's model. Raises EndpointFailed if it does not answer,
    UsageError if its list does not identify the model."""
    entry = _address(request)
    listed = await _listed(entry, request)
    served = _served_name(request, list(listed))
    found = listed.get(served, {})
    if found.get("owned_by") in ENGINES and "endpoint" in entry:
        entry["provider"] = found["owned_by"]
        entry["metrics"] = await _has_metrics(entry)
    reported = found.get("max_model_len")
    context = request.context_tokens or (reported if isinstance(reported, int) else None)
    entry |= {"served_name": served, "context_tokens": context or CONTEXT_TOKENS}
    return DiscoveredEntry(entry, context is None)


def _address(request: EndpointRequest) -> dict[str, Any]:
    parts = urlsplit(request.url)
    key = {} if request.api_key_env is None else {"api_key_env": request.api_key_env}
    for name, provider in PROVIDERS.items():
        known = provider.api_key_env and provider.endpoint
        if known and parts.netloc == urlsplit(known).netloc:
            return {"provider": name} | key  # with its own address, path and key
    entry = {"provider": "openai", "endpoint": request.url.rstrip("/")} | key
    path = parts.path.rstrip("/")
    return entry if path.endswith("/v1") or not path else entry | {"api_path": path}


async def not_listed(model: Model) -> str | None:
    """A warning if the model's endpoint lists models, but not this one; None without a usable list.
    The model may still be served, because providers do not list aliases and deployments."""
    try:
        names = list(_models_in(await ask_for_models(_endpoint(model), model.provider)))
    except (ProbeFailed, ValueError):
        return None
    if not names or model.served_name in names:
        return None
    return f"{model.endpoint} does not list {model.served_name!r}; it lists {_some(names)}"


def _models_in(answer: Answer) -> dict[str, dict[str, Any]]:
    """Return the data of each model in an answer to `ask_for_models`, by name. Raises ValueError if
    it is not a list of models."""
    if answer.status != 200:
        raise ValueError(f"HTTP {answer.status}")
    try:
        return {str(each["id"]): dict(each) for each in json.loads(answer.body)["data"]}
    except (KeyError, TypeError) as error:
        raise ValueError(repr(error)) from error


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _model(entry: dict[str, Any]) -> Model:
    return Model.model_validate({"context_tokens": CONTEXT_TOKENS} | entry)


def _endpoint(model: Model) -> Endpoint:
    address = model.endpoint or ""
    config = EndpointConfig.of_model("", model, address, address, "")
    try:
        return Endpoint.make(config)
    except ValueError as error:  # its key is not set
        raise UsageError(str(error)) from error


async def _listed(entry: dict[str, Any], request: EndpointRequest) -> dict[str, dict[str, Any]]:
    try:
        answer = await ask_for_models(_endpoint(_model(entry)), entry["provider"])
    except ProbeFailed as error:
        raise EndpointFailed(f"{request.url} does not answer: {error}") from error
    if answer.status in (401, 403):
        raise EndpointFailed(
            f"{request.url} rejects the key (HTTP {answer.status}); name the variable that holds "
            "it with --api-key-env"
        )
    try:
        return _models_in(answer)
    except ValueError as error:
        if request.served_name is not None:
            return {}
        raise UsageError(
            f"{request.url} has no list of models ({error}); name the model with --served-name"
        ) from error


async def ask_for_models(endpoint: Endpoint, provider: str) -> Answer:
    """Request the endpoint's list of models and close its connections. Raises ProbeFailed if it
    does not answer."""
    # As for messages: the path decides, and this is one of Anthropic's own routes.
    headers = endpoint.authorize([(b"Accept", b"*/*")], own_tokens=False, path=b"/v1/messages")
    if provider == "anthropic":
        headers = [*headers, ANTHROPIC_VERSION]
    try:
        return await endpoint.ask(b"GET", b"/v1/models", headers=headers)
    finally:
        await endpoint.origin.close()


def _served_name(request: EndpointRequest, listed: list[str]) -> str:
    if request.served_name is not None:
        return request.served_name
    if len(listed) == 1:
        return listed[0]
    if not listed:
        raise UsageError(f"{request.url} lists no models; name one with --served-name")
    raise UsageError(
        f"{request.url} serves several models: {_some(listed)}; choose with --served-name"
    )


async def _has_metrics(entry: dict[str, Any]) -> bool:
    endpoint = _endpoint(_model(entry))
    try:
        answers = [await endpoint.ask(b"GET", path) for path in (b"/metrics", b"/health")]
    except ProbeFailed:
        return False
    finally:
        await endpoint.origin.close()
    return all(answer.status == 200 for answer in answers)
