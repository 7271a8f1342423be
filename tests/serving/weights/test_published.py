"""Tests of estimates against published figures of real models; `configs/` names the source of each
figure.

KV cache: blocks and tokens are compared with vLLM 0.32's own arithmetic.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tutti.tasks.platform.project import POCKET
from tutti.tasks.serving.weights import Fit, kv_need

MODELS = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "configs").glob("*.json"))
}
GIB = 1 << 30


def test_each_figure_has_its_source() -> None:
    assert len(MODELS) >= 12
    for model in MODELS.values():
        assert all("https://" in each["source"] for each in (model, *weighed(model)))


def weighed(model: dict[str, Any]) -> list[dict[str, Any]]:
    return [model["weights"]] if "weights" in model else []


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if "vllm" in model])
def test_kv_cache(name: str) -> None:
    """The blocks and tokens equal those that vLLM computes for these layers; where it groups layers
    of several kinds, at most as many tokens."""
    model, vllm = MODELS[name], MODELS[name]["vllm"]
    need = kv_need(model["config"], kv_cache_dtype="bfloat16", block_tokens=vllm["block_tokens"])
    blocks = vllm["kv_bytes"] // need.block_bytes
    tokens = blocks / need.sequence_blocks(vllm["context_tokens"]) * vllm["context_tokens"]
    assert need.is_upper_bound == (vllm["groups"] > 1)
    if need.is_upper_bound:
        assert 0 < int(tokens) < vllm["tokens"]
    else:
        assert (blocks, int(tokens)) == (vllm["blocks"], vllm["tokens"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3-8b", 36 * 2 * 8 * 128 * 2),
        ("qwen3-1.7b", 28 * 2 * 8 * 128 * 2),
        ("llama-3.3-70b-fp8", 80 * 2 * 8 * 128 * 2),
        ("qwen3-235b-a22b-fp8", 94 * 2 * 4 * 128 * 2),
        ("deepseek-v3", 61 * (512 + 64) * 2),
        ("deepseek-v3.2", 61 * (512 + 64) * 2),  # without the index's keys
        ("gpt-oss-120b", 36 * 2 * 8 * 64 * 2),  # 18 of its layers have a window
        ("gemma-3-27b", 62 * 2 * 16 * 128 * 2),  # 52 have a window
        ("nemotron-3-nano-30b", 52 * 2 * 2 * 128 * 2),  # 6 have attention
        ("qwen3.6-27b-nvfp4", 64 * 2 * 4 * 256 * 2),  # 48 have a state; it asks for FP8 itself
    ],
)
def test_bytes_of_a_token(name: str, expected: int) -> None:
    assert kv_need(MODELS[name]["config"]).token_bytes == expected


def test_the_pocket() -> None:
    """vLLM has 2,048 blocks of 128 tokens in 1 GiB for the pocket model, which is shipped with the
    project."""
    need = kv_need(json.loads((POCKET / "config.json").read_text()), block_tokens=128)
    assert GIB // need.block_bytes == 2048
    assert need.token_bytes == 4 * 2 * 4 * 64 * 2


def test_exact_and_estimated() -> None:
    """Latent attention, windows and states are marked as estimates, dense models are not."""
    estimated = {name for name, model in MODELS.items() if kv_need(model["config"]).estimates}
    assert estimated == {
        *("deepseek-v3", "deepseek-v3.2", "gpt-oss-120b", "gemma-3-27b"),
        *("nemotron-3-nano-30b", "nemotron-super-49b", "qwen3.6-27b-nvfp4"),
    }


def test_a_quantised_model_on_two_gpus() -> None:
    """The model is Llama 3.3 70B in FP8: vLLM measured 33.88 GiB on each GPU, and 1 GiB of KV cache
    holds 6,553 tokens there."""
    model = MODELS["llama-3.3-70b-fp8"]
    weights = model["weights"]["bytes"]
    fit = Fit(weights, model["config"], 80 * GIB, 16000, tensor_parallel=2)
    assert fit.weights_bytes == pytest.approx(33.88 * GIB, rel=0.001)
    assert fit.need.token_bytes == 80 * 2 * 4 * 128 * 2
    assert not fit.need.estimates


def test_qwen3_32b_awq_on_two_gpus() -> None:
    """8,192 tokens take 1.00 GiB of each GPU, as vLLM says when it refuses them."""
    config = MODELS["qwen3-32b-awq"]["config"]
    need = kv_need(config, tensor=2)
    assert need.sequence_blocks(8192) * need.block_bytes == GIB
