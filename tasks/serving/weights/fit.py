"""Whether a model fits its GPUs, and how much KV cache remains.

In: the size of the weights, config.json, GPUs and context. Out: `Fit`, with the arithmetic as a
sentence. A GPU's memory x the engine's share is divided into weights, the engine's own work, and KV
cache. What the engine's work takes is only known once it runs, so tokens are "about".

`KvNeed` counts the cache in blocks of tokens as vLLM 0.32 allocates them. It is exact where every
layer keeps the keys and values of all tokens: multi-head, grouped-query and latent attention (MLA).
Layers with a window or a state are counted as if they kept all tokens too: an upper bound for long
contexts, marked as an estimate.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.tensor_files import in_gb

Config = Mapping[str, Any]

BLOCK_TOKENS = 16
"""vLLM's own on a GPU; some kernels take more, which changes the rounding only."""
MODEL_BYTES = 2
"""Of a number that a model computes with on a GPU: vLLM's `auto` makes float32 16 bits wide too."""
FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
KV_BYTES = {
    "bfloat16": 2.0,
    "float16": 2.0,
    **dict.fromkeys(FP8, 1.0),
    "nvfp4": 0.5625,  # 4 bits, and 8 of a scale for 16 numbers
}
"""Bytes of a number of the cache."""
PACKED_LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes a token of DeepSeek's sparse latent attention, which packs parts of different widths."""
INDEX_QUANT_BLOCK = 128
"""Sparse latent attention keeps a key for its index as FP8, with a scale for so many numbers."""
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where models with images or sound keep the configuration of their text part."""
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
WIDTH = ("hidden_size", "n_embd", "d_model")
ENCODERS = ("Bert", "Roberta", "XLMRoberta", "NomicBert", "ModernBert", "DistilBert", "MPNet")
"""Beginnings of the names of architectures that read the whole text at once and keep nothing."""
FAMILY_DEFAULTS = {
    family: {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}
    for family in ("gemma2", "gemma3_text")
}
"""What the configurations of a family leave out (transformers 5.19, its classes' defaults)."""
PLAIN_KINDS = frozenset(("full_attention", "attention", "sliding_attention"))
"""Kinds of layers that keep all tokens where the configuration has no window."""
SMALLER_LAYERS = (
    *("attention_chunk_size", "attn_layer_period", "compress_ratios", "full_attention_interval"),
    *("hybrid_override_pattern", "linear_attn_config", "num_kv_shared_layers"),
)
"""Fields of families some of whose layers do not keep all tokens."""


@dataclass(frozen=True)
class KvNeed:
    """The KV cache that sequences of a model take on each GPU."""

    block_bytes: int
    """Of one block, on a GPU; 0 for a model that keeps nothing."""
    block_tokens: int
    layers: int
    heads: int
    """Query heads, which the GPUs of tensor parallelism must divide evenly."""
    dtype: str
    """Of the cache: as asked for, or as the checkpoint asks; else `auto`."""
    is_upper_bound: bool
    """Whether sequences may take less, for some layers do not keep all tokens."""
    estimates: tuple[str, ...]
    """Reasons why the numbers are estimates; empty where they are exact."""

    def sequence_blocks(self, tokens: int) -> int:
        """Blocks of a GPU that a sequence of `tokens` takes."""
        return math.ceil(tokens / self.block_tokens) if self.block_bytes else 0

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes of a GPU that a sequence of `tokens` takes."""
        return self.sequence_blocks(tokens) * self.block_bytes

    @property
    def token_bytes(self) -> float:
        """Bytes of a GPU that one more token takes."""
        return self.block_bytes / self.block_tokens


@contextmanager
def config_boundary() -> Iterator[None]:
    """Raises WeightsError where a field of config.json has a value that it cannot have."""
    try:
        yield
    except WeightsError:
        raise
    except (TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise WeightsError(f"config.json: a field has an impossible value: {error}") from error


@config_boundary()
def kv_need(
    config: Config,
    tensor: int = 1,
    pipeline: int = 1,
    kv_cache_dtype: str = "auto",
    block_tokens: int = BLOCK_TOKENS,
) -> KvNeed:
    """What a sequence takes on each of the GPUs of tensor and pipeline parallelism.

    `config`: config.json. `block_tokens`: tokens of a block. Raises WeightsError with the field
    that the configuration lacks.
    """
    text = text_config(config)
    heads, layers = _count(text, HEADS), _count(text, LAYERS)
    dtype = _checkpoint_kv_dtype(config) if kv_cache_dtype == "auto" else kv_cache_dtype
    is_encoder = any(str(name).startswith(ENCODERS) for name in config.get("architectures") or [])
    is_latent = bool(text.get("kv_lora_rank"))
    is_upper_bound = not is_encoder and _has_smaller_layers(text)
    notes = []
    if is_upper_bound:
        notes.append("layers with a window or a state count as full attention, an upper bound")
    notes += ["latent attention (MLA)"] * (is_latent and not is_encoder)
    notes += _weights_notes(config)
    if dtype not in ("auto", *KV_BYTES, *PACKED_LATENT_BYTES):
        notes.append(f"kv_cache_dtype {dtype} is counted as {MODEL_BYTES} bytes a number")
    if pipeline > 1:
        notes.append("the largest part of the pipeline counts")
    token_bytes = 0.0
    if is_latent and not is_encoder:  # every GPU keeps the vector whole
        token_bytes = math.ceil(layers / pipeline) * _latent_bytes(text, dtype)
    elif not is_encoder:
        kept = _kv_heads(text, layers, heads).items()
        of_gpu = sum(max(1, each // tensor) * math.ceil(count / pipeline) for each, count in kept)
        token_bytes = of_gpu * _head_numbers(text, heads) * KV_BYTES.get(dtype, MODEL_BYTES)
    block_bytes = math.ceil(token_bytes * block_tokens)
    return KvNeed(block_bytes, block_tokens, layers, heads, dtype, is_upper_bound, tuple(notes))


def _latent_bytes(text: Config, dtype: str) -> float:
    """Bytes that a layer with latent attention keeps of a token."""
    index = text.get("index_head_dim") or 0
    index_bytes: int = index + index // INDEX_QUANT_BLOCK * 4
    if index and dtype in (*FP8, *PACKED_LATENT_BYTES):
        return PACKED_LATENT_BYTES.get(dtype, PACKED_LATENT_BYTES["fp8_ds_mla"]) + index_bytes
    numbers = text["kv_lora_rank"] + _count(text, ("qk_rope_head_dim",))
    return float(numbers * KV_BYTES.get(dtype, MODEL_BYTES) + index_bytes)


def _head_numbers(text: Config, heads: int) -> int:
    """Numbers that a KV head keeps of a token: its key and its value."""
    width = text.get("head_dim") or _count(text, WIDTH) // heads
    width = max(width, text.get("global_head_dim") or 0)  # Gemma 4
    return int(width + (text.get("v_head_dim") or width))


def text_config(config: Config) -> Config:
    """The configuration of a model's text part, with the dtype and such from around it."""
    inner = next((config[key] for key in NESTED if isinstance(config.get(key), Mapping)), None)
    if inner is None:
        return {**FAMILY_DEFAULTS.get(str(config.get("model_type")), {}), **config}
    around = {key: value for key, value in config.items() if key not in NESTED}
    return text_config({**around, **{k: v for k, v in inner.items() if v is not None}})


def _has_smaller_layers(text: Config) -> bool:
    """Whether some layers keep a window, a state or nothing."""
    kinds = set(text.get("layer_types") or text.get("layers_block_type") or ())
    has_window = text.get("sliding_window") and text.get("use_sliding_window", True) is not False
    if has_window and (not kinds or "sliding_attention" in kinds):
        return True
    return bool(kinds - PLAIN_KINDS) or any(text.get(name) for name in SMALLER_LAYERS)


def _kv_heads(text: Config, layers: int, heads: int) -> Counter[int]:
    """Layers by their number of KV heads, without layers that have none."""
    if blocks := text.get("block_configs"):  # Nemotron's searched architectures
        groups = [block["attention"].get("n_heads_in_group") for block in blocks]
        return Counter(heads // group for group in groups if group)
    if isinstance(by_layer := text.get("num_key_value_heads"), Sequence):
        return Counter(each for each in by_layer if each)
    return Counter({_first(text, KV_HEADS) or heads: layers})


def _weights_notes(config: Config) -> list[str]:
    """Why the weights take another amount once they are loaded."""
    notes = []
    if text_config(config).get("num_nextn_predict_layers"):
        notes.append("its files hold layers for speculation, which are loaded only for that")
    if (config.get("quantization_config") or {}).get("quant_method") == "mxfp4":
        notes.append("vLLM pads MXFP4 weights, by 6 % for gpt-oss-120b")
    return notes


def _checkpoint_kv_dtype(config: Config) -> str:
    """The KV dtype that a quantised checkpoint asks for, as vLLM's `auto` reads it: ModelOpt's."""
    quantised = config.get("quantization_config") or {}
    if not str(quantised.get("quant_method", "")).startswith("modelopt"):
        return "auto"
    inner = quantised.get("quantization") or quantised
    wanted = inner.get("kv_cache_scheme") or inner.get("kv_cache_quant_algo")
    if isinstance(wanted, Mapping):
        return "fp8" if wanted.get("num_bits") == 8 and wanted.get("type") == "float" else "auto"
    return "fp8" if str(wanted).lower() == "fp8" else "auto"


def _first(text: Config, names: Sequence[str]) -> int | None:
    found = next((text[name] for name in names if text.get(name) is not None), None)
    return found if isinstance(found, int) else None


def _count(text: Config, names: Sequence[str]) -> int:
    found = _first(text, names)
    if not found or found < 0:
        raise WeightsError(
            f"config.json has no {names[0]} (model_type {text.get('model_type')!r}), without which "
            "its KV cache cannot be computed; fetch the model's own config.json"
        )
    return found


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
"""Larger parallelism is not proposed."""


@dataclass(frozen=True)
class Fit:
    """What a model takes of each of its GPUs, and whether there is room.

    Its properties raise WeightsError where the configuration lacks what the arithmetic needs.
    """

    size: int
    """Bytes of all weights that are loaded."""
    config: Mapping[str, Any]
    """config.json."""
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
        """The KV cache that sequences take on each GPU."""
        across = (self.tensor_parallel, self.pipeline_parallel)
        return kv_need(self.config, *across, self.kv_cache_dtype)

    @property
    def weights_bytes(self) -> int:
        """Of weights, on the GPU that holds most layers."""
        part = math.ceil(self.need.layers / self.pipeline_parallel) / self.need.layers
        return math.ceil(self.size * part / self.tensor_parallel)

    @property
    def engine_bytes(self) -> int:
        """For all but weights and cache, on each GPU."""
        return WORKING_BYTES + (EXCHANGE_BYTES if self._gpus > 1 else 0)

    @property
    def kv_bytes(self) -> int:
        """For the cache, on each GPU; negative where the weights alone are too large."""
        if self.kv_tokens is None:
            return self._remaining
        sequence = self.need.sequence_blocks(self.context_tokens)
        blocks = math.ceil(self.kv_tokens / self.context_tokens * sequence)
        return blocks * self.need.block_bytes

    @property
    def blocks(self) -> int:
        """Of the cache."""
        return max(0, self.kv_bytes) // self.need.block_bytes if self.need.block_bytes else 0

    @property
    def tokens(self) -> int:
        """That the cache holds, in sequences of the whole context."""
        sequence = self.need.sequence_blocks(self.context_tokens)
        return self.blocks * self.context_tokens // sequence if sequence else 0

    @property
    def programs(self) -> int:
        """Sequences of the whole context that the cache holds."""
        sequence = self.need.sequence_blocks(self.context_tokens)
        return self.blocks // sequence if sequence else 0

    @property
    def fits(self) -> bool:
        """Whether there is room. An upper bound of what one sequence takes refuses nothing."""
        if not self._divides or self._remaining < 0 or self.kv_bytes > self._remaining:
            return False
        may_fit = self.need.is_upper_bound and self.kv_tokens is None and self.blocks > 0
        return not self.need.block_bytes or self.programs >= 1 or may_fit

    @property
    def text(self) -> str:
        """The arithmetic, and what would fit where this does not."""
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
    def _budget(self) -> int:
        return int(self.memory_share * self.gpu_memory_bytes)

    @property
    def _remaining(self) -> int:
        return self._budget - self.weights_bytes - self.engine_bytes

    @property
    def _divides(self) -> bool:
        """Whether the heads can be divided among the GPUs."""
        return self.need.heads % self.tensor_parallel == 0

    def _arithmetic(self) -> str:
        each = f" on each of {self._gpus} GPUs" if self._gpus > 1 else ""
        weights = f"weights {in_gb(self.weights_bytes)}"
        share = f"{self.memory_share:g} of a GPU's {in_gb(self.gpu_memory_bytes)}"
        if not self._divides:
            asked = f"tensor_parallel: {self.tensor_parallel}"
            return f"does not fit: {self.need.heads} heads cannot be divided by {asked}"
        if self._remaining < 0 or self.kv_bytes > self._remaining:
            asked = ""
            if self._remaining >= 0:
                asked = f" + {in_gb(self.kv_bytes)} of KV for {self.kv_tokens:,} tokens"
            return (
                f"does not fit: {weights}{each} + {in_gb(self.engine_bytes)} for the engine's work"
                f"{asked} > {in_gb(self._budget)} ({share})"
            )
        if not self.need.block_bytes:
            return f"{weights}{each}, no KV cache"
        holds = f"{weights} + {in_gb(self.kv_bytes)} of KV{each} = {_round(self.tokens):,} tokens"
        if not self.fits:
            return f"does not fit: {holds} ({share}), one program has {self.context_tokens:,}"
        if not self.programs:
            return f"{holds}, one program has {self.context_tokens:,}"
        noun = "program" if self.programs == 1 else "programs"
        return f"{holds}, about {self.programs:,} {noun} of {self.context_tokens:,}"

    def _proposals(self) -> Iterator[str]:
        """What would fit: more GPUs, a smaller cache, a shorter context."""
        for wanted in (2**power for power in range(MOST_GPUS.bit_length())):
            is_other = wanted > self.tensor_parallel or not self._divides
            if is_other and replace(self, tensor_parallel=wanted).fits:
                yield f"tensor_parallel: {wanted}"
                break
        if self.need.dtype == "auto" and replace(self, kv_cache_dtype="fp8").fits:
            yield "kv_cache_dtype: fp8"
        whole = replace(self, kv_tokens=None)
        if not self._divides or not whole.blocks:
            return
        if self.kv_tokens is not None:
            yield f"kv_tokens: {whole.tokens}"
        else:
            yield f"context_tokens: {whole.blocks * self.need.block_tokens}"


def _round(tokens: int) -> int:
    """Three digits: the rest would pretend to know."""
    digits = int(10 ** max(0, len(str(tokens)) - 3))
    return tokens // digits * digits
