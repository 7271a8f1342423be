"""Tests of an entry's fields in ids: each field is checked, and the hashes equal those from before
the marks."""

import json
from pathlib import Path
from typing import Any

import pytest

from tutti.storage import content_hash
from tutti.tasks.platform.identity import NotInId
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.registry import checkpoint_id
from tutti.tasks.serving.registry.models import VIA_ENDPOINT, VIA_ENGINE, VIA_FIELDS, Model
from tutti.tasks.serving.registry.settings import Device, EngineSettings

STORED = json.loads(Path(__file__).with_name("stored_contents.json").read_text())
"""Hashes of `Model.asked` and `EngineSettings.identity` with one field set, as stores have them."""
MODEL: dict[str, Any] = {
    "endpoint": "http://b:1/v1",
    "api_key_env": "KEY",
    "key_header": "X-Key",
    "api_path": "/v2",
    "query": {"v": "1"},
    "served_name": "other",
    "dialect": "hermes",
    "context_tokens": 128,
    "tools": False,
    "thinking": True,
    "request": {"top_p": 0.5},
    "max_tokens_field": "max_completion_tokens",
    "reasoning_field": "reasoning",
    "prices": {"prompt": 1.0},
    "max_calls": 2,
    "requests_per_minute": 3,
    "tokens_per_minute": 4,
    "metrics": True,
    "record_tokens": True,
}
ENGINE: dict[str, Any] = {
    "server": "sglang",
    "device": "cuda",
    "gpus": 2,
    "tensor_parallel": 2,
    "pipeline_parallel": 2,
    "replicas": 3,
    "dtype": "float16",
    "quantization": "fp8",
    "kv_cache_dtype": "fp8",
    "memory_share": 0.5,
    "kv_tokens": 1024,
    "kv_blocks": 32,
    "max_sequences": 8,
    "max_batched_tokens": 64,
    "tool_parser": "hermes",
    "reasoning_parser": "qwen3",
    "speculative": {"method": "ngram"},
    "kv_offload_gb": 4.0,
    "lora": True,
    "sleep": True,
    "args": {"max-num-seqs": 4},
    "environment": {"A": "b"},
    "start_timeout_s": 9.0,
}
ON_CPU: Device = "cpu"
ON_GPU: Device = "cuda"


def model(**fields: Any) -> Model:
    given = {"provider": "openai", "endpoint": "http://a:1/v1", "context_tokens": 64} | fields
    return Model.model_validate(given)


def mark_of(kind: type[Model] | type[EngineSettings], name: str) -> NotInId | None:
    marks = [each for each in kind.model_fields[name].metadata if isinstance(each, NotInId)]
    assert len(marks) < 2
    return marks[0] if marks else None


def test_every_field_is_walked() -> None:
    """A new field needs a change here, and a mark if it is not to change ids."""
    through_the_engine = {"provider", "checkpoint", "engine"}  # an entry of weights: engine's tests
    assert set(Model.model_fields) == set(MODEL) | through_the_engine
    assert set(EngineSettings.model_fields) == set(ENGINE) | {"chat_template"}
    assert mark_of(Model, "checkpoint") == mark_of(Model, "engine") == VIA_ENGINE


@pytest.mark.parametrize("name", ["", *MODEL])
def test_an_entrys_fields_are_in_ids_as_their_marks_say(name: str) -> None:
    """A field is in the request's content, in the endpoint's id, or in neither; stored ids are
    found again."""
    changed = model(**{name: MODEL[name]}) if name else model()
    assert content_hash(changed.asked) == STORED["model"][name]
    if not name:
        return
    mark = mark_of(Model, name)
    assert (changed.asked != model().asked) == (mark in (None, VIA_FIELDS))
    assert (checkpoint_id(changed) != checkpoint_id(model())) == (mark == VIA_ENDPOINT)


@pytest.mark.parametrize("device", [ON_CPU, ON_GPU])
@pytest.mark.parametrize("name", ["", *ENGINE])
def test_an_engines_settings_are_in_ids_as_their_marks_say(name: str, device: Device) -> None:
    """A setting without a mark changes the content; one that does not affect results does not."""
    plain = EngineSettings()
    changed = EngineSettings.model_validate({name: ENGINE[name]}) if name else plain
    assert content_hash(changed.identity(device)) == STORED["engine"][name][device]
    if not name:
        return
    mark, moved = mark_of(EngineSettings, name), changed.identity(device) != plain.identity(device)
    if mark is None or mark.through is None:
        assert moved == (mark is None)
    stated = EngineSettings.model_validate({name: EngineSettings.model_fields[name].default})
    assert stated.identity(device) == plain.identity(device)


def test_numbers_of_a_request_are_one_however_they_are_written() -> None:
    """JSON has one number type; 1 and 1.0 used to be two models."""
    whole, point = ({"request": {"top_p": n, "more": [n, {"k": n}]}} for n in (1, 1.0))
    assert content_hash(model(**whole).asked) == content_hash(model(**point).asked)
    other = {"request": {"top_p": 1, "more": [1, {"k": True}]}}
    assert content_hash(model(**other).asked) != content_hash(model(**whole).asked)


def test_a_chat_template_is_in_the_id_by_its_content(tmp_path: Path) -> None:
    """An edited template used to reuse the cells, and a moved one did not."""
    first, second = tmp_path / "a.jinja", tmp_path / "b.jinja"
    for file in (first, second):
        file.write_text("{{ messages }}")
    settings, moved = (EngineSettings(chat_template=file) for file in (first, second))
    before = settings.identity(ON_GPU)
    assert before == moved.identity(ON_GPU) != EngineSettings().identity(ON_GPU)
    first.write_text("{{ messages[0] }}")
    assert settings.identity(ON_GPU) != before
    first.unlink()
    with pytest.raises(RegistryError, match=r"engine\.chat_template: .*a\.jinja: No such file"):
        settings.identity(ON_GPU)
