"""Tests of models.yaml: errors name file, field and value."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.weights.checkpoints import make_checkpoint, write_safetensors
from tutti.tasks.serving.errors import RegistryError
from tutti.tasks.serving.registry import Dialect
from tutti.tasks.serving.registry.models import (
    PROVIDERS,
    Model,
    Prices,
    checkpoint_id,
    pick_model,
    pick_models,
    read_registry,
)

GOOD: dict[str, Any] = {"provider": "openai", "endpoint": "http://h/v1", "context_tokens": 1024}
SERVED: dict[str, Any] = {
    "provider": "vllm",
    "checkpoint": "weights/a",
    "context_tokens": 1024,
    "engine": {"kv_blocks": 64},
}


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    (tmp_path / "deployments").mkdir()
    return tmp_path / "deployments" / "models.yaml"


def write(path: Path, **models: Any) -> Path:
    path.write_text(yaml.safe_dump({"models": models}))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(RegistryError) as failure:
        read_registry(path)
    message = str(failure.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_entries_are_read_and_relative_checkpoints_belong_to_the_project(registry: Path) -> None:
    elsewhere = SERVED | {"checkpoint": "/weights/b"}
    models = read_registry(write(registry, a=SERVED, b=elsewhere, c=GOOD))
    assert models["a"].checkpoint == registry.parent.parent / "weights" / "a"
    assert models["b"].checkpoint == Path("/weights/b")
    assert models["c"].checkpoint is None


def test_our_own_registry_is_valid() -> None:
    path = Path(__file__).resolve().parents[2] / "deployments" / "models.yaml"
    assert "pocket" in read_registry(path)


def test_a_missing_file_says_how_to_name_one(registry: Path) -> None:
    assert "no such file; name one with --models" in refusal(registry)


def test_a_file_that_is_not_yaml_says_where(registry: Path) -> None:
    registry.write_text("models:\n  a: {provider: vllm\n  b: [")
    assert re.search("line 3: not YAML", refusal(registry))


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "models: Field required"), ("- a\n- b\n", "valid dict"), ("models: 3\n", "valid dict")],
)
def test_a_file_of_another_shape_is_refused(registry: Path, text: str, said: str) -> None:
    registry.write_text(text)
    assert said in refusal(registry)


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"colour": "red"}, "models.m.colour", "'red'"),
        ({"context_tokens": 3}, "models.m.context_tokens", "3"),
        ({"provider": "abacus"}, "models.m.provider", "'abacus'"),
        ({"prices": {"prompt": -1}}, "models.m.prices.prompt", "-1"),
        ({"checkpoint": "weights"}, "models.m", "either `endpoint` or `checkpoint`"),
        ({"provider": "vllm", "endpoint": None}, "models.m", "either `endpoint` or `checkpoint`"),
        ({"provider": "azure", "endpoint": None}, "models.m", "either `endpoint` or `checkpoint`"),
        ({"provider": ["vllm"]}, "models.m.provider", "string"),
        ({"dialect": "klingon"}, "models.m.dialect", "'klingon'"),
        ({"api_path": "v1"}, "models.m.api_path", "'v1'"),
        (
            {"request": {"tools": [], "model": "x"}},
            "models.m.request",
            "model, tools: set per request",
        ),
        (
            {"thinking": True, "request": {"reasoning_effort": "low"}},
            "models.m",
            "`thinking` and `request` both set reasoning_effort",
        ),
        ({"max_tokens_field": "limit"}, "models.m.max_tokens_field", "'limit'"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(
    registry: Path, change: dict[str, Any], field: str, value: str
) -> None:
    message = refusal(write(registry, m=GOOD | change))
    assert f"{field}: " in message
    assert value in message


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({"provider": "opneai"}, sorted(PROVIDERS)),
        ({"dialect": "xml"}, get_args(Dialect)),
        ({"reasoning_field": "thoughts"}, ["reasoning_content", "reasoning"]),
    ],
)
def test_an_unknown_name_lists_the_known(
    registry: Path, change: dict[str, Any], known: list[str]
) -> None:
    message = refusal(write(registry, m=GOOD | change))
    assert all(name in message for name in known)


@pytest.mark.parametrize(
    "change",
    [
        {"api_key": "sk-secret"},
        {"api_key_env": "sk-secret"},
        {"headers": {"Authorization": "sk-secret"}},
        {"endpoint": "http://user:sk-secret@h/v1"},
        {"token": "sk-secret", "context_tokens": "many"},
        {"key": "sk-secret", "checkpoint": "weights"},
    ],
)
def test_a_key_that_somebody_wrote_into_the_file_is_not_shown(
    registry: Path, change: dict[str, Any]
) -> None:
    message = refusal(write(registry, m=GOOD | change))
    assert "sk-secret" not in message and f"models.m.{next(iter(change))}" in message


@pytest.mark.parametrize(
    ("said", "endpoint", "key"),
    [
        ({"provider": "openai"}, "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ({"provider": "anthropic"}, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
        ({"provider": "azure", "endpoint": "https://r"}, "https://r", "AZURE_OPENAI_API_KEY"),
        ({"provider": "together", "api_key_env": "OTHER"}, "https://api.together.ai/v1", "OTHER"),
        ({"provider": "openai", "endpoint": "http://h/v1"}, "http://h/v1", None),
        ({"provider": "anthropic", "endpoint": "http://h/v1"}, "http://h/v1", None),
        ({"provider": "litellm"}, "http://127.0.0.1:4000/v1", None),
    ],
)
def test_a_providers_key_goes_to_its_own_address_only(
    registry: Path, said: dict[str, Any], endpoint: str, key: str | None
) -> None:
    """An entry with another endpoint must name its key; OpenAI's key is sent to no other address by
    default."""
    (model,) = read_registry(write(registry, m=said | {"context_tokens": 4096})).values()
    assert (model.endpoint, model.api_key_env) == (endpoint, key)


def test_an_endpoint_is_known_by_its_address_and_the_models_name(registry: Path) -> None:
    """Two models of one endpoint differ; keys and limits have no effect."""
    other = GOOD | {"api_key_env": "A_KEY", "max_calls": 3, "requests_per_minute": 60}
    models = read_registry(write(registry, a=GOOD, b=GOOD, c=other | {"served_name": "a"}))
    a, b, c = (checkpoint_id(models[name]) for name in "abc")
    assert a == c != b
    route = GOOD | {"api_path": "/openai/deployments/a", "served_name": "a"}
    assert checkpoint_id(Model(**route)) != a


@pytest.mark.parametrize(
    "change",
    [
        {"dialect": "llama"},
        {"context_tokens": 2048},
        {"tools": False},
        {"thinking": True},
        {"request": {"top_p": 0.5}},
        {"reasoning_field": "reasoning"},
    ],
)
def test_what_decides_answers_is_in_what_cells_are_known_by(change: dict[str, Any]) -> None:
    """A sweep after a change of the entry makes new cells; a new key or price does not."""
    assert Model(**GOOD | change).asked != Model(**GOOD).asked
    same = {"api_key_env": "K", "max_calls": 9, "prices": {"prompt": 1}}
    assert Model(**GOOD | same).asked == Model(**GOOD).asked


def test_weights_need_engine_settings(registry: Path) -> None:
    message = refusal(write(registry, m=SERVED | {"engine": None}))
    assert "needs `engine` settings" in message
    message = refusal(write(registry, m=SERVED | {"engine": {"kv_blocks": 1}}))
    assert "models.m.engine.kv_blocks" in message


def test_an_unknown_model_lists_the_known(registry: Path) -> None:
    write(registry, zebra=GOOD, ant=GOOD)
    with pytest.raises(RegistryError, match=re.escape("no model 'ent'; known: ant, zebra")):
        pick_model(registry, "ent")
    with pytest.raises(RegistryError, match="no model 'bee' or 'cow'; known: ant, zebra"):
        pick_models(registry, ["bee", "ant", "cow"])
    assert pick_model(registry, "ant").endpoint == "http://h/v1"


def test_a_checkpoint_without_weights_says_what_makes_them(tmp_path: Path) -> None:
    model = Model(**SERVED | {"checkpoint": tmp_path})
    with pytest.raises(RegistryError, match=r"no weights there.*tutti train"):
        checkpoint_id(model)


def test_a_checkpoint_id_is_its_content(tmp_path: Path) -> None:
    """A moved checkpoint has the same id, other weights have another, and a readme has no
    effect."""
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        make_checkpoint(folder)
    (folders[1] / "README.md").write_text("read me")
    write_safetensors(folders[2] / "model.safetensors", {"other": ("F32", (1,), b"data")})
    a, b, c = (checkpoint_id(Model(**SERVED | {"checkpoint": folder})) for folder in folders)
    assert a == b != c
    assert a.startswith("checkpoint:")


def test_a_call_costs_what_its_tokens_cost() -> None:
    """Prices are per million tokens; cached prompt tokens have their own price and are not charged
    twice."""
    prices = Prices(prompt=2.0, cached=0.5, completion=10.0)
    assert prices.cost_usd(1_000_000, 0, 0) == 2.0
    assert prices.cost_usd(1_000_000, 1_000_000, 0) == 0.5
    assert prices.cost_usd(1_000, 400, 100) == pytest.approx((600 * 2 + 400 * 0.5 + 1000) / 1e6)
    assert Prices().cost_usd(10**9, 0, 10**9) == 0.0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_cache_that_costs_less_never_makes_a_call_dearer(a: int, b: int, out: int) -> None:
    """More cached tokens of the same prompt never increase the cost, which is never negative."""
    prices = Prices(prompt=2.0, cached=0.5, completion=10.0)
    prompt, cached = max(a, b), min(a, b)
    assert 0 <= prices.cost_usd(prompt, cached, out) <= prices.cost_usd(prompt, 0, out)


@pytest.mark.parametrize(
    ("checkpoint", "hub_id"),
    [
        ("Qwen/Qwen3-8B@main", "Qwen/Qwen3-8B@main"),
        ("checkpoints/Qwen3-8B", None),
        ("/weights/a@b/c", None),
    ],
)
def test_a_checkpoint_with_a_revision_is_one_of_the_hub(
    registry: Path, checkpoint: str, hub_id: str | None
) -> None:
    entry = pick_model(write(registry, m=SERVED | {"checkpoint": checkpoint}), "m")
    assert entry.hub_id == hub_id


def test_a_short_commit_is_refused_when_the_file_is_read(registry: Path) -> None:
    short = write(registry, m=SERVED | {"checkpoint": "Qwen/Qwen3-8B@a1b2c3d"})
    with pytest.raises(RegistryError, match="is no whole commit"):
        read_registry(short)
