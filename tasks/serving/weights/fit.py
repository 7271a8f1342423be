"""Whether a model fits its GPUs, and how much KV cache remains.

In: the size of the weights, config.json, GPUs and context. Out: `Fit`, with the arithmetic as a
sentence. `KvNeed` counts the cache in blocks of tokens as vLLM 0.32 allocates them: exactly for
multi-head and grouped-query attention. Latent attention (MLA) is estimated by its vector.
Everything else (layers with a window or a state, caches whose dtype the checkpoint chooses) is
counted in full, an upper bound that refuses no model.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.tensor_files import in_gb

Config = Mapping[str, Any]

BLOCK_TOKENS = 16
"""vLLM's own on a GPU; some kernels take more, which changes the rounding only."""
KV_BYTES = {"fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "nvfp4": 0.5625}
"""Bytes of a number of the cache; 2 for all other dtypes."""
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Fields for the configuration of the text part of models with images or sound."""
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
WIDTH = ("hidden_size", "n_embd", "d_model")
ENCODERS = ("Bert", "Roberta", "XLMRoberta", "NomicBert", "ModernBert", "DistilBert", "MPNet")
"""Beginnings of the names of architectures that read the whole text at once and keep nothing."""
PLAIN_KINDS = frozenset(("full_attention", "attention", "sliding_attention"))
"""Kinds of layers that keep all tokens where the configuration has no window."""
SMALLER_LAYERS = (
    *("attention_chunk_size", "attn_layer_period", "block_configs", "compress_ratios"),
    *("full_attention_interval", "hybrid_override_pattern", "linear_attn_config"),
    "num_kv_shared_layers",
)
"""Fields of families some of whose layers do not keep all tokens."""


@dataclass(frozen=True)
class KvNeed:
    """The KV cache of a model's sequences on each GPU."""

    block_bytes: int
    """Of one block, on a GPU; 0 for a model that keeps nothing."""
    block_tokens: int
    layers: int
    heads: int
    """Query heads, which the GPUs of tensor parallelism must divide evenly."""
    is_upper_bound: bool
    """Whether sequences may take less."""
    estimates: tuple[str, ...]
    """Reasons why the numbers are estimates; empty where they are exact."""

    def sequence_blocks(self, tokens: int) -> int:
        """Return the blocks that a sequence of `tokens` takes on a GPU."""
        return math.ceil(tokens / self.block_tokens) if self.block_bytes else 0

    @property
    def token_bytes(self) -> float:
        """Bytes that one more token takes on a GPU."""
        return self.block_bytes / self.block_tokens


def kv_need(
    config: Config,
    tensor: int = 1,
    pipeline: int = 1,
    kv_cache_dtype: str = "auto",
    block_tokens: int = BLOCK_TOKENS,
) -> KvNeed:
    """Return the KV cache of a sequence on each of the GPUs of tensor and pipeline parallelism.
    `config`: config.json. `block_tokens`: tokens of a block. Raises WeightsError with the field
    that the configuration lacks, or whose value is impossible."""
    try:
        text = text_config(config)
        heads, layers = _count(text, HEADS), _count(text, LAYERS)
        is_encoder = any(str(n).startswith(ENCODERS) for n in config.get("architectures") or [])
        is_upper_bound = not is_encoder and _has_less(text, config)
        notes = ["layers or numbers that take less are counted in full"] * is_upper_bound
        if latent := 0 if is_encoder else text.get("kv_lora_rank") or 0:
            notes.append("latent attention (MLA)")
            numbers = latent + _count(text, ("qk_rope_head_dim",))  # every GPU keeps it whole
        else:
            kv_heads = max(1, (_first(text, KV_HEADS) or heads) // tensor)
            numbers = 2 * kv_heads * (text.get("head_dim") or _count(text, WIDTH) // heads)
        notes += ["the largest part of the pipeline counts"] * (pipeline > 1)
        token_bytes = numbers * math.ceil(layers / pipeline) * KV_BYTES.get(kv_cache_dtype, 2.0)
        block_bytes = 0 if is_encoder else math.ceil(token_bytes * block_tokens)
    except (TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise WeightsError(f"config.json: a field has an impossible value: {error}") from error
    return KvNeed(block_bytes, block_tokens, layers, heads, is_upper_bound, tuple(notes))


def text_config(config: Config) -> Config:
    """The configuration of a model's text part, with the dtype and other fields from around it."""
    inner = next((config[key] for key in NESTED if isinstance(config.get(key), Mapping)), None)
    if inner is None:
        return config
    around = {key: value for key, value in config.items() if key not in NESTED}
    return text_config({**around, **{k: v for k, v in inner.items() if v is not None}})


def _has_less(text: Config, config: Config) -> bool:
    """Whether some layers cache a window, a state or nothing, or the checkpoint reduces its
    cache."""
    kinds = set(text.get("layer_types") or text.get("layers_block_type") or ())
    has_window = text.get("sliding_window") and text.get("use_sliding_window", True) is not False
    if has_window and (not kinds or "sliding_attention" in kinds):
        return True
    quantised = config.get("quantization_config") or {}
    quantised = quantised.get("quantization") or quantised
    has_dtype = quantised.get("kv_cache_scheme") or quantised.get("kv_cache_quant_algo")
    has_fields = any(text.get(name) for name in SMALLER_LAYERS)
    by_layer = isinstance(text.get("num_key_value_heads"), list)
    return bool(kinds - PLAIN_KINDS or has_dtype or has_fields or by_layer)


def _first(text: Config, names: Sequence[str]) -> int | None:
    value = next((text[name] for name in names if text.get(name) is not None), None)
    value = max(value) if isinstance(value, list) else value
    if value is not None and not isinstance(value, int):
        raise TypeError(f"{names[0]} is {value!r}")
    return value


def _count(text: Config, names: Sequence[str]) -> int:
    value = _first(text, names)
    if not value or value < 0:
        raise WeightsError(
            f"config.json has no {names[0]} (model_type {text.get('model_type')!r}), without which "
            "its KV cache cannot be computed; fetch the model's own config.json"
        )
    return value


MEMORY_SHARE = 0.92
"""vLLM 0.32's default of `gpu_memory_utilization`."""
WORKING_BYTES = 5 << 29
"""2.5 GiB: activations, CUDA graphs and libraries. vLLM 0.19 took 0.8 to 2.7 GiB for activations
and 0.3 GiB for the rest on an H100, with models of 2B to 72B parameters (derived from the errors in
llm-d's run matrix of 47 starts). Versions of 2025 took 2.1 to 7.4 GiB for activations
(https://github.com/llm-d/llm-d-benchmark, config_explorer/empirical-vllm-memory-results.md)."""
EXCHANGE_BYTES = 2 << 30
"""More of the rest where several GPUs exchange tensors: 2.1 GiB in that matrix."""
MOST_GPUS = 64


@dataclass(frozen=True)
class Fit:
    """The memory of a model on each of its GPUs, and whether it fits. The properties raise
    WeightsError if the configuration lacks what the arithmetic needs."""

    size: int
    config: Config
    gpu_memory_bytes: int
    """Of each GPU; the smallest counts."""
    context_tokens: int
    """Of one sequence: prompt and answer together."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    kv_cache_dtype: str = "auto"
    memory_share: float = MEMORY_SHARE
    kv_tokens: int | None = None
    """Tokens that the cache shall hold; None: what remains of the memory."""

    @cached_property
    def need(self) -> KvNeed:
        """The KV cache of sequences on each GPU."""
        across = (self.tensor_parallel, self.pipeline_parallel)
        return kv_need(self.config, *across, self.kv_cache_dtype)

    @property
    def weights_bytes(self) -> int:
        """Bytes of weights, on the GPU that holds most layers."""
        part = math.ceil(self.need.layers / self.pipeline_parallel) / self.need.layers
        return math.ceil(self.size * part / self.tensor_parallel)

    @property
    def engine_bytes(self) -> int:
        """Bytes for everything except weights and cache, on each GPU."""
        return WORKING_BYTES + (EXCHANGE_BYTES if self._gpus > 1 else 0)

    @property
    def kv_bytes(self) -> int:
        """Bytes for the cache, on each GPU; negative if the weights alone are too large."""
        if self.kv_tokens is None:
            return self._remaining
        sequence = self.need.sequence_blocks(self.context_tokens)
        return math.ceil(self.kv_tokens / self.context_tokens * sequence) * self.need.block_bytes

    @property
    def blocks(self) -> int:
        """Blocks of the cache."""
        return max(0, self.kv_bytes) // self.need.block_bytes if self.need.block_bytes else 0

    @property
    def tokens(self) -> int:
        """Tokens that the cache holds, in sequences of the whole context."""
        sequence = self.need.sequence_blocks(self.context_tokens)
        return self.blocks * self.context_tokens // sequence if sequence else 0

    @property
    def programs(self) -> int:
        """Sequences of the whole context that the cache holds."""
        return self.tokens // self.context_tokens

    @property
    def fits(self) -> bool:
        """Whether the model fits. An upper bound of a sequence's cache refuses nothing."""
        if not self._divides or self._remaining < 0 or self.kv_bytes > self._remaining:
            return False
        may_fit = self.need.is_upper_bound and self.kv_tokens is None and self.blocks > 0
        return not self.need.block_bytes or self.programs >= 1 or may_fit

    @property
    def text(self) -> str:
        """The arithmetic, and what would fit if this does not."""
        text = self._arithmetic()
        if not self.fits:
            would = " or ".join(self._proposals())
            nothing = f"no number of such GPUs up to {MOST_GPUS} would do; take larger ones"
            text += f"; {would} would fit" if would else f"; {nothing}, or quantised weights"
        notes = "; ".join(self.need.estimates)
        return f"{text} (an estimate: {notes})" if notes else text

    @property
    def _gpus(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def _remaining(self) -> int:
        budget = int(self.memory_share * self.gpu_memory_bytes)
        return budget - self.weights_bytes - self.engine_bytes

    @property
    def _divides(self) -> bool:
        return self.need.heads % self.tensor_parallel == 0

    def _arithmetic(self) -> str:
        if not self._divides:
            asked = f"tensor_parallel: {self.tensor_parallel}"
            return f"does not fit: {self.need.heads} heads cannot be divided by {asked}"
        each = f" on each of {self._gpus} GPUs" if self._gpus > 1 else ""
        weights, cache = f"weights {in_gb(self.weights_bytes)}", f"{in_gb(self.kv_bytes)} of KV"
        share = f"{self.memory_share:g} of a GPU's {in_gb(self.gpu_memory_bytes)}"
        if self._remaining < 0 or self.kv_bytes > self._remaining:
            asked = f" + {cache} for {self.kv_tokens:,} tokens" if self._remaining >= 0 else ""
            return (
                f"does not fit: {weights}{each} + {in_gb(self.engine_bytes)} for the engine's work"
                f"{asked} > {in_gb(int(self.memory_share * self.gpu_memory_bytes))} ({share})"
            )
        if not self.need.block_bytes:
            return f"{weights}{each}, no KV cache"
        holds = f"{weights} + {cache}{each} = {_round(self.tokens):,} tokens"
        if self.programs:
            noun = "program" if self.programs == 1 else "programs"
            return f"{holds}, about {self.programs:,} {noun} of {self.context_tokens:,}"
        one = f"one program has {self.context_tokens:,}"
        return f"{holds}, {one}" if self.fits else f"does not fit: {holds} ({share}), {one}"

    def _proposals(self) -> Iterator[str]:
        for wanted in (2**power for power in range(MOST_GPUS.bit_length())):
            is_other = wanted > self.tensor_parallel or not self._divides
            if is_other and replace(self, tensor_parallel=wanted).fits:
                yield f"tensor_parallel: {wanted}"
                break
        whole = replace(self, kv_tokens=None)
        if self._divides and whole.blocks:
            if self.kv_tokens is not None:
                yield f"kv_tokens: {whole.tokens}"
            else:
                yield f"context_tokens: {whole.blocks * self.need.block_tokens}"


def _round(tokens: int) -> int:
    digits = int(10 ** max(0, len(str(tokens)) - 3))
    return tokens // digits * digits
