"""Tests of `engine:` of a registry entry: contradictions are refused, and ids are stable."""

import pytest
from pydantic import ValidationError

from tutti.tasks.serving.registry.settings import EngineSettings


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kv_tokens": 4096, "memory_share": 0.5}, "kv_tokens and memory_share both give"),
        ({"gpus": 4, "tensor_parallel": 2}, "tensor_parallel x pipeline_parallel is 2"),
        ({"gpus": 3, "pipeline_parallel": 2}, "cannot be divided into 2 pipeline stages"),
        ({"gpus": ["0", "1"], "replicas": 2}, "replicas need a number of GPUs"),
        ({"device": "cpu", "gpus": 1}, "uses none"),
        ({"device": "cpu", "tensor_parallel": 2}, "are for GPUs"),
        ({"args": {"--max-num-seqs": 4}}, "without leading dashes"),
        ({"environment": {"HF_TOKEN": "x"}}, "a secret stands in no file"),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "1"}}, "is set by tutti"),
        ({"environment": {"TUTTI_HOME": "x"}}, "is set by tutti"),
        ({"server": "tgi"}, "vllm"),
        ({"memory_share": 1.5}, "less than or equal to 1"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        EngineSettings.model_validate(given)
    assert told in str(refusal.value)


def test_all_gpus_of_a_stage_share_its_layers() -> None:
    settings = EngineSettings(gpus=8, pipeline_parallel=2)
    assert (settings.gpu_count, settings.tensor_size, settings.parallel) == (8, 4, 8)
    assert EngineSettings(gpus=("GPU-a", "GPU-b")).tensor_size == 2
    assert EngineSettings().parallel == 1


def test_the_identity_on_the_cpu_is_what_it_was_before_there_were_other_settings() -> None:
    before = {"kv_blocks": 32, "max_sequences": 32, "max_batched_tokens": 2048, "lora": True}
    assert EngineSettings(kv_blocks=32, lora=True).identity("cpu") == before


def test_where_it_runs_is_no_part_of_the_identity_and_how_it_computes_is() -> None:
    """Other GPUs, replicas and timeouts are the same engine; a quantized cache is not."""
    base = EngineSettings(gpus=2)
    assert base.identity("cuda") == EngineSettings(gpus=("0", "3")).identity("cuda")
    assert base.identity("cuda") == EngineSettings(gpus=2, start_timeout_s=9).identity("cuda")
    for changed in ({"kv_cache_dtype": "fp8"}, {"args": {"seed": 1}}, {"sleep": True}):
        settings = EngineSettings.model_validate({"gpus": 2, **changed})
        assert settings.identity("cuda") != base.identity("cuda")
    assert base.identity("cuda") != EngineSettings(gpus=4).identity("cuda")


def test_the_cache_is_whole_blocks() -> None:
    assert EngineSettings(kv_tokens=1000).cache_tokens == 1024
    assert EngineSettings(kv_blocks=10).cache_tokens == 320
    assert EngineSettings().cache_tokens is None
