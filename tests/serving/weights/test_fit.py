"""Whether a model fits, with the arithmetic and what would fit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.serving.weights.checkpoints import CONFIG, make_checkpoint
from tutti.tasks.serving import WeightsError
from tutti.tasks.serving.weights import (
    DeclaredWeights,
    FitRequest,
    Parallelism,
    estimate_fit,
    kv_need,
    read_weights,
)
from tutti.tasks.serving.weights.layers import read_layers

GIB = 1 << 30
QWEN_BYTES = 16_381_470_720
CONFIGS = {
    path.stem: json.loads(path.read_text())["config"]
    for path in sorted((Path(__file__).parent / "configs").glob("*.json"))
}
QWEN = CONFIGS["qwen3-8b"]


def test_what_fits_is_said_in_one_line() -> None:
    """48 GiB x 0.92 less weights and 2.5 GiB for the engine, at 147,456 bytes a token."""
    fit = estimate_fit(QWEN_BYTES, QWEN, FitRequest(48 * GIB, 8000))
    assert fit.fits and fit.exact and not fit.why
    assert fit.kv_bytes == int(0.92 * 48 * GIB) - QWEN_BYTES - 5 * GIB // 2
    assert fit.token_bytes == 147_456
    assert fit.blocks == fit.kv_bytes // (16 * 147_456)
    assert fit.tokens == fit.blocks * 16
    assert (
        fit.text == "weights 16.4 GB + 28.4 GB of KV = 192,000 tokens, about 24 programs of 8,000"
    )


def test_weights_that_were_read(tmp_path: Path) -> None:
    """Their bytes are the headers'; a small model has its size in MB."""
    weights = read_weights(make_checkpoint(tmp_path / "model"))
    fit = estimate_fit(weights, weights.config, FitRequest(8 * GIB, 100))
    assert fit.weights_bytes == weights.bytes
    assert fit.token_bytes == 2 * 2 * 8 * 2 * 2
    assert "weights 0.0 MB" in fit.text


def test_several_gpus_share_weights_and_heads() -> None:
    fit = estimate_fit(QWEN_BYTES, QWEN, FitRequest(24 * GIB, 8000, tensor_parallel=4))
    assert fit.weights_bytes == QWEN_BYTES // 4
    assert fit.token_bytes == 147_456 / 4
    assert " of KV on each of 4 GPUs = " in fit.text


def test_heads_that_are_fewer_than_gpus_are_kept_by_each() -> None:
    """8 KV heads on 16 GPUs: one each. A latent vector is kept by each in any case."""
    assert kv_need(QWEN, Parallelism(tensor=16)).token_bytes == 147_456 / 8
    latent = CONFIGS["deepseek-v3"]
    assert kv_need(latent, Parallelism(tensor=8)).token_bytes == kv_need(latent).token_bytes


def test_the_largest_part_of_a_pipeline_counts() -> None:
    """36 layers in 5 parts: 8 in the largest; said to be an estimate."""
    request = FitRequest(24 * GIB, 8000, pipeline_parallel=5)
    fit = estimate_fit(QWEN_BYTES, QWEN, request)
    assert fit.token_bytes == 147_456 / 36 * 8
    assert fit.weights_bytes == pytest.approx(QWEN_BYTES * 8 / 36, abs=1)
    assert not fit.exact
    assert fit.text.endswith("(an estimate: the largest part of the pipeline counts)")


def test_an_fp8_cache_halves() -> None:
    assert kv_need(QWEN, kv_cache_dtype="fp8").token_bytes == 147_456 / 2
    packed = kv_need(CONFIGS["deepseek-v3.2"], kv_cache_dtype="fp8").token_bytes
    assert packed == 61 * (656 + 132)


def test_an_unknown_cache_dtype_is_counted_in_full_and_said() -> None:
    need = kv_need(QWEN, kv_cache_dtype="turboquant_4bit_nc")
    assert need.token_bytes == 147_456
    assert need.estimates == ("kv_cache_dtype turboquant_4bit_nc is counted as 2 bytes a number",)


def test_weights_too_large_name_the_gpus_that_would_do() -> None:
    fit = estimate_fit(QWEN_BYTES, QWEN, FitRequest(16 * GIB, 8000))
    assert not fit.fits and fit.kv_bytes < 0 and fit.tokens == 0
    assert fit.text == (
        "does not fit: weights 16.4 GB + 2.7 GB for the engine's work > 15.8 GB (0.92 of a GPU's "
        "17.2 GB); tensor_parallel: 2 would fit"
    )


def test_a_context_too_long_names_all_that_would_do() -> None:
    """More GPUs, half the bytes, or the longest context of which one sequence fits."""
    fit = estimate_fit(QWEN_BYTES, QWEN, FitRequest(24 * GIB, 40960))
    assert not fit.fits
    assert (
        "one program has 40,960; tensor_parallel: 2 or kv_cache_dtype: fp8 or context_" in fit.text
    )
    longest = int(fit.text.split("context_tokens: ")[1].split()[0])
    assert estimate_fit(QWEN_BYTES, QWEN, FitRequest(24 * GIB, longest)).fits
    assert not estimate_fit(QWEN_BYTES, QWEN, FitRequest(24 * GIB, longest + 1)).fits


def test_more_tokens_than_there_is_room_for() -> None:
    """The proposal is what would fit."""
    request = FitRequest(48 * GIB, 8000, kv_tokens=1_000_000)
    fit = estimate_fit(QWEN_BYTES, QWEN, request)
    assert not fit.fits
    assert "147.5 GB of KV for 1,000,000 tokens > 47.4 GB" in fit.text
    most = int(fit.text.split("kv_tokens: ")[1].split()[0])
    assert estimate_fit(QWEN_BYTES, QWEN, replace(request, kv_tokens=most)).fits


def test_tokens_that_are_asked_for_are_what_it_holds() -> None:
    fit = estimate_fit(QWEN_BYTES, QWEN, FitRequest(48 * GIB, 8000, kv_tokens=80_000))
    assert (fit.fits, fit.tokens, fit.programs) == (True, 80_000, 10)
    assert fit.kv_bytes == 80_000 * 147_456


def test_heads_that_gpus_cannot_share() -> None:
    fit = estimate_fit(QWEN_BYTES, QWEN, FitRequest(80 * GIB, 8000, tensor_parallel=3))
    assert fit.text == (
        "does not fit: 32 heads cannot be divided by tensor_parallel: 3; tensor_parallel: 1 would "
        "fit"
    )


def test_nothing_would_do() -> None:
    fit = estimate_fit(10**15, QWEN, FitRequest(24 * GIB, 8000))
    assert "no number of such GPUs up to 64 would do; take larger ones" in fit.text


def test_declared_weights_are_for_planning() -> None:
    """Quantised ones keep their embeddings in 16 bits; the text says where the size is from."""
    plain = DeclaredWeights(8.19e9)
    assert plain.bytes_in(QWEN) == 16_380_000_000
    kept = 2 * 151_936 * 4096
    quantised = DeclaredWeights(8.19e9, "fp8")
    assert quantised.bytes_in(QWEN) == 8_190_000_000 + kept
    tied = {**QWEN, "tie_word_embeddings": True}
    assert quantised.bytes_in(tied) == 8_190_000_000 + kept // 2
    fit = estimate_fit(quantised, QWEN, FitRequest(24 * GIB, 8000))
    assert not fit.exact
    assert fit.text.endswith("(an estimate: weights of 8.19B parameters in fp8)")
    with pytest.raises(WeightsError, match="weights in 'int3': unknown dtype; known: float32"):
        DeclaredWeights(1e9, "int3").bytes_in(QWEN)


@pytest.mark.parametrize(("memory", "tokens"), [(24, 2048), (80, 8192), (180, 16384)])
def test_tokens_in_work_are_kept_by_layers_with_a_window(memory: int, tokens: int) -> None:
    """By vLLM's defaults for such GPUs, twice: asynchronous scheduling has a second batch."""
    request = FitRequest(memory * GIB, 100_000)
    assert request.step_tokens == tokens
    config = {**CONFIG, "sliding_window": 64}
    fit = estimate_fit(10**9, config, request)
    blocks = (64 - 1 + 2 * tokens + 15) // 16 + 1
    assert fit.programs == fit.blocks // blocks
    assert replace(request, batched_tokens=100).step_tokens == 100


def test_an_encoder_keeps_nothing() -> None:
    """An embedding model that reads the whole text at once."""
    config = {**CONFIG, "architectures": ["XLMRobertaModel"], "num_key_value_heads": 4}
    fit = estimate_fit(10**9, config, FitRequest(8 * GIB, 512))
    assert fit.fits and fit.exact and fit.groups == 0
    assert fit.text == "weights 1.0 GB, no KV cache"


@pytest.mark.parametrize(
    ("fields", "windows", "kinds"),
    [
        ({"sliding_window": 64}, [64], [2]),  # Mistral 7B: all layers
        ({"sliding_window": 64, "use_sliding_window": False}, [None], [2]),  # Qwen
        (
            {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 1},
            [None, 64],
            [1, 1],
        ),
        ({"model_type": "gemma2", "sliding_window": 64}, [None, 64], [1, 1]),
        ({"layer_types": ["sliding_attention", "full_attention"]}, [None], [2]),
        (
            {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 9},
            [None, 9],
            [1, 1],
        ),
        ({"attention_chunk_size": 8, "no_rope_layers": [1, 0]}, [None, 8], [1, 1]),
        ({"num_kv_shared_layers": 1}, [None], [1]),
        ({"num_key_value_heads": [2, 0]}, [None], [1]),
    ],
)
def test_kinds_of_layers(
    fields: dict[str, Any], windows: list[int | None], kinds: list[int]
) -> None:
    """By the fields that families use."""
    found = read_layers({**CONFIG, **fields}).attention
    assert [each.window for each in found] == windows
    assert [each.count for each in found] == kinds


@pytest.mark.parametrize(
    "fields",
    [
        {"hybrid_override_pattern": "M*"},
        {"layers_block_type": ["mamba", "attention"]},
        {"attn_layer_period": 2, "attn_layer_offset": 1},
    ],
)
def test_layers_with_a_state_of_unknown_size_are_said(fields: dict[str, Any]) -> None:
    """The layers with attention are counted all the same."""
    layers = read_layers({**CONFIG, **fields})
    assert [each.count for each in layers.attention] == [1]
    assert "which is not counted" in layers.estimates[0]


def test_a_delta_net_of_kimi() -> None:
    """Latent attention in one layer, a state in the other."""
    linear = {"kda_layers": [1], "num_heads": 2, "head_dim": 8, "short_conv_kernel_size": 4}
    config = {**CONFIG, "linear_attn_config": linear, "kv_lora_rank": 16, "qk_rope_head_dim": 4}
    layers = read_layers(config)
    assert [(each.count, each.heads, each.numbers) for each in layers.attention] == [(1, 0, 20)]
    (state,) = layers.states
    assert (state.conv, state.state, state.state_bytes) == (3 * 16 * 3, 16 * 8, 4)


def test_defaults_that_a_family_leaves_out() -> None:
    """Gemma 3 4B's text part names neither heads nor their width."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34}
    layers = read_layers({"model_type": "gemma3", "text_config": {**text, "sliding_window": 1024}})
    assert [(each.count, each.window) for each in layers.attention] == [(5, None), (29, 1024)]
    assert {(each.heads, each.numbers) for each in layers.attention} == {(4, 512)}


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
    step=st.sampled_from([2048, 8192, 16384]),
)
@example("gemma-3-27b", 155, 24_097, 8, 8192)
def test_what_fits_fits_in_more(
    name: str, memory: int, context: int, tensor: int, step: int
) -> None:
    """More memory never holds fewer tokens, nor a longer context more programs; and what is in the
    budget is never more than the budget. In steps of as many tokens: the engine's default is larger
    on larger GPUs, and a layer with a window keeps those of a step as well."""
    request = FitRequest(memory * GIB, context, tensor_parallel=tensor, batched_tokens=step)
    fit = estimate_fit(20 * GIB, CONFIGS[name], request)
    more = estimate_fit(20 * GIB, CONFIGS[name], replace(request, gpu_memory_bytes=201 * GIB))
    longer = estimate_fit(20 * GIB, CONFIGS[name], replace(request, context_tokens=context + 1))
    assert more.tokens >= fit.tokens and more.fits >= fit.fits
    assert longer.programs <= fit.programs
    used = fit.weights_bytes + request.engine_bytes + fit.kv_bytes
    assert used <= 0.92 * request.gpu_memory_bytes + 1
    assert fit.fits == (fit.programs >= 1)
