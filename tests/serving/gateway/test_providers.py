"""Tests of each provider's request as sent by the gateway: address, key and body, with the key
never shown."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.conftest import Bench
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import COMPLETION, answering, raw_engine, whole
from tutti.tasks.agents.models.client import Client
from tutti.tasks.agents.models.model import (
    CallOrigin,
    GatewayModel,
    ModelCallFailed,
    Reply,
    sampling_of,
)
from tutti.tasks.serving.gateway.endpoints.endpoint import (
    SHORTEST_SECRET,
    Endpoint,
    EndpointConfig,
    PrefixedOrigin,
)
from tutti.tasks.serving.registry.models import PROVIDERS, Model

KEY = "sk-0123456789-never-shown"
TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
BEARER = {"authorization": f"Bearer {KEY}"}

# What an entry says besides provider, context and (where the provider has none) endpoint; the path
# that the provider documents; the key's header; fields that must be there, those that must not.
CASES: list[tuple[dict[str, Any], str, dict[str, str], dict[str, Any], set[str]]] = [
    ({"provider": "vllm", "endpoint": "X/v1", "thinking": False}, "/v1", BEARER,
     {"max_tokens": 64, "chat_template_kwargs": {"enable_thinking": False}}, set()),
    ({"provider": "sglang", "endpoint": "X", "thinking": True}, "/v1", BEARER,
     {"max_tokens": 64, "chat_template_kwargs": {"enable_thinking": True}}, set()),
    ({"provider": "openai", "thinking": True, "request": {"temperature": None}}, "/v1", BEARER,
     {"max_completion_tokens": 64, "reasoning_effort": "medium"}, {"max_tokens", "temperature"}),
    ({"provider": "openai", "endpoint": "X/v1"}, "/v1", BEARER,
     {"max_tokens": 64, "temperature": 0.5, "seed": 4}, {"reasoning_effort"}),
    ({"provider": "openai", "endpoint": "X", "api_path": "/v1beta/openai/"}, "/v1beta/openai",
     BEARER, {"max_tokens": 64}, set()),
    ({"provider": "azure", "endpoint": "X"}, "/openai/v1", {"api-key": KEY},
     {"max_completion_tokens": 64, "model": "served"}, {"max_tokens"}),
    ({"provider": "azure", "endpoint": "X/openai/v1/", "thinking": False}, "/openai/v1",
     {"api-key": KEY}, {"reasoning_effort": "none"}, set()),
    ({"provider": "anthropic", "thinking": True, "request": {"temperature": 1}}, "/v1", BEARER,
     {"max_tokens": 64, "thinking": {"type": "adaptive"}, "temperature": 1}, set()),
    ({"provider": "together", "thinking": False}, "/v1", BEARER,
     {"reasoning": {"enabled": False}}, set()),
    ({"provider": "nebius", "request": {"top_p": 0.9}}, "/v1", BEARER, {"top_p": 0.9}, set()),
    ({"provider": "litellm", "api_key_env": "MY_KEY"}, "/v1", BEARER, {"max_tokens": 64}, set()),
    ({"provider": "litellm", "api_key_env": None}, "/v1", {}, {}, set()),
]  # fmt: skip


def model_at(url: str, **said: Any) -> tuple[Model, EndpointConfig]:
    """Return an entry and its endpoint; a provider's own address is replaced by `url`."""
    if "endpoint" in said:
        said = said | {"endpoint": said["endpoint"].replace("X", url)}
    if said["provider"] in ("vllm", "sglang") or "endpoint" in said:
        said = {"api_key_env": "MY_KEY"} | said
    model = Model(**{"context_tokens": 4096, "served_name": "served"} | said)
    there = model.endpoint if "endpoint" in said else url
    assert there is not None
    return model, EndpointConfig.of_model("served", model, there, "outside", "served")


async def ask(bench: Bench, model: Model) -> Reply:
    url = f"http://127.0.0.1:{bench.gateway.server.port}"
    sampling = sampling_of(model, temperature=0.5, max_tokens=64, seed=3)
    async with Client(url) as client:
        made = GatewayModel(client, "served", CallOrigin("attempt:1", "cell:1"), sampling)
        return await made.complete([{"role": "user", "content": "hello"}], [TOOL], 1)


def test_every_provider_is_shown() -> None:
    assert {said["provider"] for said, *_ in CASES} == set(PROVIDERS)


@pytest.mark.parametrize(("said", "path", "key", "there", "absent"), CASES)
async def test_a_providers_request(
    said: dict[str, Any],
    path: str,
    key: dict[str, str],
    there: dict[str, Any],
    absent: set[str],
    make_raw: MakeRaw,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Path, key and body follow the provider's documentation; tools are included."""
    async with raw_engine() as engine:
        names = {each.api_key_env for each in PROVIDERS.values() if each.api_key_env}
        for name in {*names, "MY_KEY"}:
            monkeypatch.setenv(name, f"{KEY}\n")
        model, config = model_at(engine.url, **said)
        bench = await make_raw(engine, endpoint=config.model_dump(exclude_unset=True))
        reply = await ask(bench, model)
        assert reply.message["content"] == "hi"
        (asked,) = engine.asked
        assert asked.path == f"{path}/chat/completions"
        sent = {name: asked.headers[name] for name in asked.headers if name in
                ("authorization", "api-key", "x-api-key")}  # fmt: skip
        assert sent == key
        body = asked.json()
        assert body.items() >= there.items()
        assert not absent & body.keys()
        assert body["model"] == "served" and body["tools"] == [TOOL]
        await no_key_shown(bench)


async def no_key_shown(bench: Bench) -> None:
    """Check that the key is neither in the gateway's status nor in its records."""
    for view in ("/engines", "/state", "/health", "/metrics"):
        assert KEY not in await (await bench.client.get(view)).text()
    for table in ("calls", "messages", "gateway_events", "artifacts"):
        assert KEY not in str(await bench.rows(f"select * from {table}"))
    assert KEY not in repr(list(bench.gateway.pools.all_endpoints()))


@pytest.mark.parametrize("status", [200, 401])
async def test_a_key_that_the_endpoint_repeats_is_shown_to_nobody(
    status: int, make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that quotes the rejected key would put it into the attempts' table and reports;
    control characters of an error page would reach the terminal."""
    monkeypatch.setenv("MY_KEY", KEY)
    async with raw_engine() as engine:
        said = f"Incorrect \x1b[2J API key provided: Bearer {KEY}".encode()
        engine.reply = answering(whole(said, status))
        model, config = model_at(engine.url, provider="openai", endpoint="X")
        bench = await make_raw(engine, endpoint=config.model_dump(exclude_unset=True))
        with pytest.raises(ModelCallFailed) as failed:
            await ask(bench, model)
        assert "API key provided: Bearer ***" in str(failed.value)
        assert KEY not in str(failed.value) and "\x1b" not in str(failed.value)
        await no_key_shown(bench)
        engine.probed = answering(whole(said, status))
        forwarded = await bench.client.get("/v1/models")
        assert KEY not in await forwarded.text()


@given(body=st.binary(max_size=80), key=st.text("ab1", min_size=1, max_size=40))
def test_without_its_key_a_body_keeps_its_length(body: bytes, key: str) -> None:
    """The response's Content-Length stays correct; a key that is only a placeholder is an ordinary
    word."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_KEY", key)
        config = EndpointConfig(url="http://127.0.0.1:1", api_key_env="MY_KEY")
        shown = Endpoint.make(config).without_key(said := body + key.encode() + body)
    assert len(shown) == len(said)
    assert (key.encode() in shown) == (len(key) < SHORTEST_SECRET)


async def test_azures_deployments_have_the_version_in_the_query(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    entry = """
        provider: azure
        api_path: /openai/deployments/my-gpt
        query: {api-version: 2024-10-21}
        max_tokens_field: max_tokens
        context_tokens: 128000
    """
    async with raw_engine() as engine:
        said = yaml.safe_load(entry) | {"endpoint": engine.url}  # the version is a date in YAML
        model = Model(**said)
        config = EndpointConfig.of_model("served", model, engine.url, "outside", "served")
        bench = await make_raw(engine, endpoint=config.model_dump(exclude_unset=True))
        headers = {"api-key": "the client's own"}
        await bench.chat(path="/v1/chat/completions?a=1", headers=headers)
        (asked,) = engine.asked
    start = "/openai/deployments/my-gpt/chat/completions"
    assert asked.path == f"{start}?a=1&api-version=2024-10-21"
    assert asked.headers["api-key"] == KEY


async def test_claude_is_asked_natively_with_its_own_header(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One entry serves both protocols; a vLLM with a key accepts messages with a bearer token."""
    for name in ("ANTHROPIC_API_KEY", "MY_KEY"):
        monkeypatch.setenv(name, KEY)
    found = []
    for said in ({"provider": "anthropic"}, {"provider": "vllm", "endpoint": "X"}):
        async with raw_engine() as engine:
            _, config = model_at(engine.url, **said)
            bench = await make_raw(engine, endpoint=config.model_dump(exclude_unset=True))
            headers = {"x-api-key": "the client's own", "anthropic-version": "2023-06-01"}
            await bench.chat(path="/v1/messages", headers=headers)
            sent = engine.asked[0].headers
            assert sent["anthropic-version"] == "2023-06-01"
            found.append((sent.get("x-api-key"), sent.get("authorization")))
            await bench.gateway.stop(grace_s=0.0)
    assert found == [(KEY, None), (None, f"Bearer {KEY}")]


@pytest.mark.parametrize("thought", ["reasoning_content", "reasoning"])
async def test_what_a_model_thought_is_recorded_for_harnesses_too(raw: Bench, thought: str) -> None:
    said = json.loads(json.dumps(COMPLETION))
    said["choices"][0]["message"][thought] = "let me see"
    raw.engine.reply = answering(whole(said))
    await raw.chat("p")
    rows = await raw.rows("select role, reasoning from messages order by position")
    assert [(row["role"], row["reasoning"]) for row in rows] == [
        ("user", None),
        ("assistant", "let me see"),
    ]


@given(
    path=st.from_regex(rb"/v1/[a-z/_]{1,20}(\?[a-z=&]{1,9})?", fullmatch=True),
    begins=st.sampled_from(["/v1", "/openai/v1", "/api/paas/v4/", "/"]),
    query=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)
def test_a_path_keeps_its_end_wherever_the_api_begins(
    path: bytes, begins: str, query: dict[str, str]
) -> None:
    """The part below /v1 is appended to the API's base path, with one question mark and no
    spaces."""
    config = EndpointConfig(url="http://h", api_path=begins, query=query)
    there = PrefixedOrigin(config).there(path)
    assert there.startswith(begins.rstrip("/").encode() + path.removeprefix(b"/v1"))
    assert there.count(b"?") <= 1 and b" " not in there
    assert PrefixedOrigin(config).there(b"/metrics").startswith(b"/metrics")


def test_a_plain_endpoint_costs_nothing_more() -> None:
    """The hot path has no translation step where there is nothing to translate."""
    plain = Endpoint.make(EndpointConfig(url="http://h/v1"))
    assert type(plain.origin) is not PrefixedOrigin
