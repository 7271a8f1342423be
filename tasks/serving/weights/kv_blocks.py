"""How much KV cache a sequence takes on each GPU, as vLLM 0.32 hands it out: in blocks.

In: a model's layers, the parallelism, the cache's dtype. Out: `KvNeed`: groups of layers that take
their blocks together, and the size of a block. Layers that keep different things are split into
groups of as many layers, padded (`get_kv_cache_groups` in vLLM's `v1/core/kv_cache_utils.py`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tutti.tasks.serving.weights.layers import (
    MODEL_BYTES,
    AttentionLayers,
    ModelLayers,
    StateLayers,
    config_boundary,
    read_layers,
)

BLOCK_TOKENS = 16
"""vLLM's own on a GPU; some kernels take more, which changes the rounding only."""
STATE_BLOCKS = 2
"""Blocks that a sequence's state takes with prefix caching: the running one and the last kept."""
LIKE_ENOUGH = 1.5
"""Up to this ratio vLLM pads the smaller kind of layers instead of splitting the larger."""
KV_BYTES = {
    "bfloat16": 2.0,
    "float16": 2.0,
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc"), 1.0),
    "nvfp4": 0.5625,  # 4 bits, and 8 of a scale for 16 numbers
}
"""Bytes of a number of the cache."""
PACKED_LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes a token of DeepSeek's sparse latent attention, which packs parts of different widths."""
FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")


@dataclass(frozen=True)
class Parallelism:
    """How a model is divided among GPUs."""

    tensor: int = 1
    pipeline: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor * self.pipeline


@dataclass(frozen=True)
class KvGroup:
    """Layers that take their blocks together."""

    layers: int
    block_tokens: int
    """Tokens that a block of the group holds."""
    window: int | None = None
    """Tokens that are kept at least; None for all."""
    is_state: bool = False
    """Whether a sequence takes a fixed number of blocks."""

    def blocks(self, tokens: int, in_flight_tokens: int) -> int:
        """Blocks that a sequence of `tokens` takes at most."""
        if self.is_state:
            return STATE_BLOCKS
        if self.window is None:
            return math.ceil(tokens / self.block_tokens)
        kept = min(self.window - 1 + in_flight_tokens, tokens)
        return math.ceil(kept / self.block_tokens) + 1


@dataclass(frozen=True)
class KvNeed:
    """The KV cache that sequences of a model take on each GPU."""

    groups: tuple[KvGroup, ...]
    block_bytes: int
    """Of one block, on a GPU."""
    in_flight_tokens: int
    """Tokens in work at once, which layers with a window keep as well."""
    estimates: tuple[str, ...]
    """Why the numbers are estimates; empty where they are exact."""

    def sequence_blocks(self, tokens: int) -> int:
        """Blocks of a GPU that a sequence of `tokens` takes."""
        return sum(group.blocks(tokens, self.in_flight_tokens) for group in self.groups)

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes of a GPU that a sequence of `tokens` takes."""
        return self.sequence_blocks(tokens) * self.block_bytes

    @property
    def token_bytes(self) -> float:
        """Bytes of a GPU that one more token of a long sequence takes."""
        growing = [each for each in self.groups if each.window is None and not each.is_state]
        return sum(self.block_bytes / group.block_tokens for group in growing)


@config_boundary()
def kv_need(
    config: Mapping[str, Any],
    parallelism: Parallelism | None = None,
    kv_cache_dtype: str = "auto",
    batched_tokens: int = 8192,
    block_tokens: int = BLOCK_TOKENS,
) -> KvNeed:
    """What a sequence takes on each GPU.

    `config`: config.json. `batched_tokens`: most tokens in one step. `block_tokens`: tokens of a
    block. Raises WeightsError where the configuration lacks a field.
    """
    across = parallelism or Parallelism()
    layers = read_layers(config)
    notes = list(layers.estimates)
    dtype = layers.kv_dtype if kv_cache_dtype == "auto" else kv_cache_dtype
    pages = [_page(each, across.tensor, dtype) for each in layers.attention]
    if dtype not in ("auto", *KV_BYTES, *PACKED_LATENT_BYTES):
        notes.append(f"kv_cache_dtype {dtype} is counted as {MODEL_BYTES} bytes a number")
    if across.pipeline > 1:
        notes.append("the largest part of the pipeline counts")
    kept = [
        _KeptLayers(math.ceil(each.count / across.pipeline), page, each.window)
        for each, page in zip(layers.attention, pages, strict=True)
    ]
    groups, block_bytes = _groups(layers, kept, across, block_tokens)
    in_flight = (across.pipeline + 1) * batched_tokens  # asynchronous scheduling has one more
    return KvNeed(groups, block_bytes, in_flight, tuple(notes))


def _page(layers: AttentionLayers, tensor: int, dtype: str) -> float:
    """Bytes that one layer keeps of a token on a GPU."""
    if layers.heads == 0 and layers.extra_bytes and dtype in (*FP8, *PACKED_LATENT_BYTES):
        packed = PACKED_LATENT_BYTES.get(dtype, PACKED_LATENT_BYTES["fp8_ds_mla"])
        return packed + layers.extra_bytes
    heads = max(1, layers.heads // tensor)
    return heads * layers.numbers * KV_BYTES.get(dtype, float(MODEL_BYTES)) + layers.extra_bytes


@dataclass(frozen=True)
class _KeptLayers:
    """Layers of a GPU that keep keys and values."""

    count: int
    page: float
    """Bytes a layer and token."""
    window: int | None


def _groups(
    layers: ModelLayers, kept: list[_KeptLayers], across: Parallelism, block: int
) -> tuple[tuple[KvGroup, ...], int]:
    """The groups, and the bytes of a block."""
    if layers.states:
        return _with_states(layers.states, kept, across, block)
    if not kept:
        return (), 0
    if len({each.window for each in kept}) == 1:
        whole = sum(each.count * each.page for each in kept)
        group = KvGroup(sum(each.count for each in kept), block, kept[0].window)
        return (group,), math.ceil(whole * block)
    largest = max(each.page for each in kept)
    size = _group_size([each.count for each in kept])
    groups = []
    for each in kept:
        # Smaller pages get more tokens where that comes out even, else they are padded.
        times = int(largest // each.page) if largest % each.page == 0 else 1
        group = KvGroup(size, block * times, each.window)
        groups += [group] * math.ceil(each.count / size)
    return tuple(groups), math.ceil(size * largest * block)


def _with_states(
    states: tuple[StateLayers, ...], kept: list[_KeptLayers], across: Parallelism, block: int
) -> tuple[tuple[KvGroup, ...], int]:
    """Blocks become as long as it takes for a layer's state to fit into a layer's block."""
    state = max(_state_bytes(each, across.tensor) for each in states)
    count = sum(math.ceil(each.count / across.pipeline) for each in states)
    if not kept:
        return (KvGroup(count, block, is_state=True),), state * count
    page = max(each.page for each in kept)
    tokens = block * math.ceil(state / (block * page))
    size = _group_size([*(each.count for each in kept), count])
    full = [KvGroup(size, tokens)] * sum(math.ceil(each.count / size) for each in kept)
    fixed = [KvGroup(size, tokens, is_state=True)] * math.ceil(count / size)
    return (*full, *fixed), math.ceil(size * page * tokens)


def _state_bytes(layers: StateLayers, tensor: int) -> int:
    """Bytes of one layer's state on a GPU."""
    return math.ceil((layers.conv * MODEL_BYTES + layers.state * layers.state_bytes) / tensor)


def _group_size(counts: list[int]) -> int:
    """Layers of each group."""
    smallest, largest = min(counts), max(counts)
    return largest if largest < LIKE_ENOUGH * smallest else smallest
