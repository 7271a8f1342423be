"""Tests of whether a model fits, with the arithmetic and fitting alternatives."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.serving.weights.checkpoints import CONFIG, make_checkpoint
from tutti.tasks.serving import WeightsError
from tutti.tasks.serving.weights import Fit, kv_need, read_weights

GIB = 1 << 30
QWEN_BYTES = 16_381_470_720
CONFIGS = {
    path.stem: json.loads(path.read_text())["config"]
    for path in sorted((Path(__file__).parent / "configs").glob("*.json"))
}
QWEN = CONFIGS["qwen3-8b"]


def test_what_fits_is_said_in_one_line() -> None:
    """The line has 48 GiB x 0.92 less weights and 2.5 GiB for the engine, at 147,456 bytes per
    token."""
    fit = Fit(QWEN_BYTES, QWEN, 48 * GIB, 8000)
    assert fit.fits and not fit.need.estimates
    assert fit.kv_bytes == int(0.92 * 48 * GIB) - QWEN_BYTES - 5 * GIB // 2
    assert fit.need.token_bytes == 147_456
    assert fit.blocks == fit.kv_bytes // (16 * 147_456)
    assert fit.tokens == fit.blocks * 16
    assert (
        fit.text == "weights 16.4 GB + 28.4 GB of KV = 192,000 tokens, about 24 programs of 8,000"
    )


def test_weights_that_were_read(tmp_path: Path) -> None:
    """The size of the weights is that of the headers; a small model's size is in MB."""
    weights = read_weights(make_checkpoint(tmp_path / "model"))
    fit = Fit(weights.loaded_bytes, weights.config, 8 * GIB, 100)
    assert fit.weights_bytes == weights.loaded_bytes
    assert fit.need.token_bytes == 2 * 2 * 8 * 2 * 2
    assert "weights 0.0 MB" in fit.text


def test_several_gpus_share_weights_and_heads() -> None:
    fit = Fit(QWEN_BYTES, QWEN, 24 * GIB, 8000, tensor_parallel=4)
    assert fit.weights_bytes == QWEN_BYTES // 4
    assert fit.need.token_bytes == 147_456 / 4
    assert " of KV on each of 4 GPUs = " in fit.text


def test_heads_that_are_fewer_than_gpus_are_kept_by_each() -> None:
    """With 8 KV heads on 16 GPUs, each GPU stores one. A latent vector is stored by each GPU in any
    case."""
    assert kv_need(QWEN, tensor=16).token_bytes == 147_456 / 8
    latent = CONFIGS["deepseek-v3"]
    assert kv_need(latent, tensor=8).token_bytes == kv_need(latent).token_bytes


def test_the_largest_part_of_a_pipeline_counts() -> None:
    """With 36 layers in 5 parts, the largest has 8; the result is marked as an estimate."""
    fit = Fit(QWEN_BYTES, QWEN, 24 * GIB, 8000, pipeline_parallel=5)
    assert fit.need.token_bytes == 147_456 / 36 * 8
    assert fit.weights_bytes == pytest.approx(QWEN_BYTES * 8 / 36, abs=1)
    assert fit.text.endswith("(an estimate: the largest part of the pipeline counts)")


def test_an_fp8_cache_halves() -> None:
    assert kv_need(QWEN, kv_cache_dtype="fp8").token_bytes == 147_456 / 2


def test_an_unknown_cache_dtype_is_counted_in_full() -> None:
    assert kv_need(QWEN, kv_cache_dtype="turboquant_4bit_nc").token_bytes == 147_456


def test_weights_too_large_name_the_gpus_that_would_do() -> None:
    fit = Fit(QWEN_BYTES, QWEN, 16 * GIB, 8000)
    assert not fit.fits and fit.kv_bytes < 0 and fit.tokens == 0
    assert fit.text == (
        "does not fit: weights 16.4 GB + 2.7 GB for the engine's work > 15.8 GB (0.92 of a GPU's "
        "17.2 GB); tensor_parallel: 2 would fit"
    )


def test_a_context_too_long_names_all_that_would_do() -> None:
    fit = Fit(QWEN_BYTES, QWEN, 24 * GIB, 40960)
    assert not fit.fits
    assert "one program has 40,960; tensor_parallel: 2 or context_" in fit.text
    longest = int(fit.text.split("context_tokens: ")[1].split()[0])
    assert Fit(QWEN_BYTES, QWEN, 24 * GIB, longest).fits
    assert not Fit(QWEN_BYTES, QWEN, 24 * GIB, longest + 1).fits


def test_more_tokens_than_there_is_room_for() -> None:
    fit = Fit(QWEN_BYTES, QWEN, 48 * GIB, 8000, kv_tokens=1_000_000)
    assert not fit.fits
    assert "147.5 GB of KV for 1,000,000 tokens > 47.4 GB" in fit.text
    most = int(fit.text.split("kv_tokens: ")[1].split()[0])
    assert replace(fit, kv_tokens=most).fits


def test_tokens_that_are_asked_for_are_what_it_holds() -> None:
    fit = Fit(QWEN_BYTES, QWEN, 48 * GIB, 8000, kv_tokens=80_000)
    assert (fit.fits, fit.tokens, fit.programs) == (True, 80_000, 10)
    assert fit.kv_bytes == 80_000 * 147_456


def test_heads_that_gpus_cannot_share() -> None:
    fit = Fit(QWEN_BYTES, QWEN, 80 * GIB, 8000, tensor_parallel=3)
    assert fit.text == (
        "does not fit: 32 heads cannot be divided by tensor_parallel: 3; tensor_parallel: 1 would "
        "fit"
    )


def test_nothing_would_do() -> None:
    fit = Fit(10**15, QWEN, 24 * GIB, 8000)
    assert "no number of such GPUs up to 64 would do; take larger ones" in fit.text


def test_an_upper_bound_is_said_and_refuses_nothing() -> None:
    """Gemma 3 27B keeps all tokens in 10 of its 62 layers: vLLM can serve it where the bound has no
    room for one program."""
    fit = Fit(54_864_813_280, CONFIGS["gemma-3-27b"], 80 * GIB, 131_072)
    assert fit.need.token_bytes == 62 * 2 * 16 * 128 * 2
    assert (fit.fits, fit.programs) == (True, 0)
    assert fit.text == (
        "weights 54.9 GB + 21.5 GB of KV = 42,200 tokens, one program has 131,072 (an estimate: "
        "layers or numbers that take less are counted in full)"
    )
    small = replace(fit, context_tokens=8000)
    assert small.text.startswith(
        "weights 54.9 GB + 21.5 GB of KV = 42,200 tokens, about 5 programs"
    )
    assert not replace(fit, gpu_memory_bytes=62_556_000_000).fits, "not a block is left"
    asked = replace(fit, kv_tokens=131_072)
    assert "of KV for 131,072 tokens >" in asked.text and "kv_tokens: 42" in asked.text


def test_an_encoder_keeps_nothing() -> None:
    config = {**CONFIG, "architectures": ["XLMRobertaModel"], "num_key_value_heads": 4}
    fit = Fit(10**9, config, 8 * GIB, 512)
    assert fit.fits and not fit.need.estimates and fit.blocks == 0
    assert fit.text == "weights 1.0 GB, no KV cache"


SLIDING_AND_FULL = ["sliding_attention", "full_attention"]
LINEAR = {"kda_layers": [1], "num_heads": 2, "head_dim": 8, "short_conv_kernel_size": 4}


@pytest.mark.parametrize(
    ("fields", "is_upper_bound"),
    [
        ({"sliding_window": 64}, True),  # Mistral 7B: all layers
        ({"sliding_window": 64, "use_sliding_window": False}, False),  # Qwen
        ({"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 1}, True),
        ({"model_type": "gemma2", "sliding_window": 64}, True),
        ({"layer_types": SLIDING_AND_FULL}, False),
        ({"layer_types": SLIDING_AND_FULL, "sliding_window": 9}, True),
        ({"layer_types": ["full_attention"] * 2, "sliding_window": 9}, False),
        ({"layer_types": ["full_attention", "of_a_new_kind"]}, True),
        ({"attention_chunk_size": 8, "no_rope_layers": [1, 0]}, True),
        ({"num_kv_shared_layers": 1}, True),
        ({"hybrid_override_pattern": "M*"}, True),
        ({"layers_block_type": ["mamba", "attention"]}, True),
        ({"attn_layer_period": 2, "attn_layer_offset": 1}, True),
        ({"full_attention_interval": 4}, True),
        ({"compress_ratios": [4, 4]}, True),
        ({"num_key_value_heads": [2, 0]}, True),
        ({"quantization_config": {"quantization": {"kv_cache_quant_algo": "FP8"}}}, True),
    ],
)
def test_layers_that_keep_less_than_all_tokens(
    fields: dict[str, Any], is_upper_bound: bool
) -> None:
    need = kv_need({**CONFIG, **fields})
    assert need.is_upper_bound is is_upper_bound
    assert bool(need.estimates) is is_upper_bound
    assert need.token_bytes == kv_need(CONFIG).token_bytes


def test_a_delta_net_of_kimi() -> None:
    config = {**CONFIG, "linear_attn_config": LINEAR, "kv_lora_rank": 16, "qk_rope_head_dim": 4}
    need = kv_need(config)
    assert need.is_upper_bound and need.token_bytes == 2 * 20 * 2
    assert need.estimates[1] == "latent attention (MLA)"


def test_what_the_configuration_lacks_is_named() -> None:
    with pytest.raises(WeightsError, match=r"no num_attention_heads \(model_type 'x'\)"):
        kv_need({"model_type": "x", "num_hidden_layers": 2})
    with pytest.raises(WeightsError, match="no num_hidden_layers"):
        kv_need({"num_attention_heads": 2})


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_key_value_heads": "x"},
        {"kv_lora_rank": 10**400},
        {"kv_lora_rank": float("nan")},
        {"layer_types": [["full_attention"]] * 2},
        {"quantization_config": "x"},
    ],
)
def test_a_value_that_a_field_cannot_have_is_no_raw_error(wrong: dict[str, Any]) -> None:
    config = {"model_type": "qwen3", "num_hidden_layers": 2, "num_attention_heads": 4}
    with pytest.raises(WeightsError, match="a field has an impossible value: "):
        kv_need(config | {"hidden_size": 32, "head_dim": 8, "qk_rope_head_dim": 3} | wrong)


@given(
    name=st.sampled_from(sorted(CONFIGS)),
    memory=st.integers(1, 200),
    context=st.integers(1, 200_000),
    tensor=st.sampled_from([1, 2, 4, 8]),
)
@example("gemma-3-27b", 155, 24_097, 8)
def test_what_fits_fits_in_more(name: str, memory: int, context: int, tensor: int) -> None:
    """More memory never holds fewer tokens, a longer context never more programs, and the sum never
    exceeds the budget."""
    fit = Fit(20 * GIB, CONFIGS[name], memory * GIB, context, tensor_parallel=tensor)
    more = replace(fit, gpu_memory_bytes=201 * GIB)
    longer = replace(fit, context_tokens=context + 1)
    assert more.tokens >= fit.tokens and more.fits >= fit.fits
    assert longer.programs <= fit.programs
    used = fit.weights_bytes + fit.engine_bytes + fit.kv_bytes
    assert used <= 0.92 * fit.gpu_memory_bytes + 1
    is_upper_bound = fit.need.is_upper_bound
    assert fit.fits == (fit.programs >= 1 or (is_upper_bound and fit.blocks > 0))
