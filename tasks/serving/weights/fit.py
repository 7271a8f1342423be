"""Whether a model fits its GPUs, and how much KV cache remains.

In: the size of the weights, config.json, GPUs and context. Out: `Fit`, with the arithmetic as a
sentence. A GPU's memory x the engine's share is divided into weights, the engine's own work, and KV
cache. What the engine's work takes is only known once it runs, so tokens are "about".
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tutti.tasks.serving.weights.files import in_gb
from tutti.tasks.serving.weights.kv_cache import KvNeed, kv_need

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
