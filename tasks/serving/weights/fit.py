"""Whether a model fits its GPUs, and how much KV cache remains.

In: weights (measured, or declared by their number of parameters), config.json, and what is asked
for. Out: `Fit`, with the arithmetic as a sentence. A GPU's memory x the engine's share is divided
into weights, the engine's own work, and KV cache. Weights and KV bytes a token are exact for dense
models; what the engine's work takes is only known once it runs, so tokens are "about".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.files import in_gb
from tutti.tasks.serving.weights.kv_blocks import KvNeed, Parallelism, kv_need
from tutti.tasks.serving.weights.layers import ModelLayers, read_layers, text_config
from tutti.tasks.serving.weights.reading import Weights

MEMORY_SHARE = 0.92
"""vLLM 0.32's default of `gpu_memory_utilization`."""
WORKING_BYTES = 5 << 29
"""2.5 GiB: activations, CUDA graphs and libraries. vLLM 0.19 took 0.8 to 2.7 GiB for activations
and 0.3 GiB for the rest on an H100, with models of 2B to 72B parameters (derived from the errors in
llm-d's run matrix of 47 starts). Versions of 2025 took 2.1 to 7.4 GiB for activations
(https://github.com/llm-d/llm-d-benchmark, config_explorer/empirical-vllm-memory-results.md)."""
EXCHANGE_BYTES = 2 << 30
"""More of the rest where several GPUs exchange tensors: 2.1 GiB in that matrix."""
BATCHED_TOKENS = ((160 << 30, 16384), (70 << 30, 8192), (0, 2048))
"""vLLM 0.32's defaults of `max_num_batched_tokens` for a server, from so many bytes of memory on.
That an A100 of 80 GB has 2,048 is not known here."""
MOST_GPUS = 64
"""Larger parallelism is not proposed."""
UNQUANTISED_BITS = 16.0
DECLARED_BITS = {
    **dict.fromkeys(("float32", "fp32"), 32.0),
    **dict.fromkeys(("bfloat16", "float16", "bf16", "fp16"), 16.0),
    **dict.fromkeys(("fp8", "int8"), 8.0),
    "mxfp4": 4.25,  # 8 bits of a scale for 32 numbers
    "nvfp4": 4.5,  # 8 bits of a scale for 16 numbers
    **dict.fromkeys(("int4", "awq", "gptq"), 4.16),  # 16 and 4 bits for 128 numbers
}


@dataclass(frozen=True)
class DeclaredWeights:
    """Weights that are not here, for planning."""

    params: float
    """Parameters, all experts included."""
    dtype: str = "bfloat16"

    def bytes_in(self, config: Mapping[str, Any]) -> int:
        """What they would take: embeddings, and the last layer where it is another one, stay in 16
        bits when the others are quantised. Raises WeightsError where the dtype is unknown."""
        if self.dtype not in DECLARED_BITS:
            known = ", ".join(DECLARED_BITS)
            raise WeightsError(f"weights in {self.dtype!r}: unknown dtype; known: {known}")
        bits, text = DECLARED_BITS[self.dtype], text_config(config)
        vocabulary = (text.get("vocab_size") or 0) * (text.get("hidden_size") or 0)
        kept = vocabulary * (1 if text.get("tie_word_embeddings") else 2)
        if bits >= UNQUANTISED_BITS or kept > self.params:
            return round(self.params * bits / 8)
        return round(((self.params - kept) * bits + kept * UNQUANTISED_BITS) / 8)


@dataclass(frozen=True)
class FitRequest:
    """What a model is to be served with."""

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
    batched_tokens: int | None = None
    """Most tokens in one step; None: vLLM's default for such GPUs."""
    working_bytes: int | None = None
    """For all but weights and cache, on each GPU; None: as measured elsewhere."""

    @property
    def step_tokens(self) -> int:
        """Most tokens in one step."""
        if self.batched_tokens is not None:
            return self.batched_tokens
        return next(most for least, most in BATCHED_TOKENS if self.gpu_memory_bytes >= least)

    @property
    def engine_bytes(self) -> int:
        """For all but weights and cache, on each GPU."""
        if self.working_bytes is not None:
            return self.working_bytes
        return WORKING_BYTES + (EXCHANGE_BYTES if self.parallelism.gpus > 1 else 0)

    @property
    def parallelism(self) -> Parallelism:
        """How the model is divided."""
        return Parallelism(self.tensor_parallel, self.pipeline_parallel)


@dataclass(frozen=True)
class Fit:
    """What a model takes of each of its GPUs."""

    fits: bool
    exact: bool
    """Whether weights and KV bytes a token are exact; tokens also depend on the engine's work."""
    why: tuple[str, ...]
    """Why they are estimates."""
    weights_bytes: int
    """On each GPU."""
    kv_bytes: int
    """For the cache, on each GPU; negative where the weights alone are too large."""
    token_bytes: float
    """KV cache of one more token of a long sequence, on each GPU."""
    tokens: int
    """That the cache holds, in sequences of the whole context."""
    programs: int
    """Sequences of the whole context that the cache holds."""
    blocks: int
    """Of the cache."""
    groups: int
    """Of layers that take blocks together; 1 for dense models."""
    text: str
    """The arithmetic, and what would fit where this does not."""


def estimate_fit(
    weights: Weights | DeclaredWeights | int, config: Mapping[str, Any], request: FitRequest
) -> Fit:
    """What a model takes of each GPU. `weights` may be their bytes; `config` is config.json.

    Raises WeightsError where the configuration lacks what the arithmetic needs.
    """
    if isinstance(weights, DeclaredWeights):
        size = weights.bytes_in(config)
    else:
        size = weights if isinstance(weights, int) else weights.loaded_bytes
    plan = _Plan(size, config, read_layers(config), request)
    fit = plan.fit()
    notes = fit.why
    if isinstance(weights, DeclaredWeights):
        notes = (*notes, f"weights of {weights.params / 1e9:.3g}B parameters in {weights.dtype}")
    text = fit.text if fit.fits else f"{fit.text}; {_proposal(plan)}"
    if notes:
        text += f" (an estimate: {'; '.join(notes)})"
    return replace(fit, exact=not notes, why=notes, text=text)


@dataclass(frozen=True)
class _Plan:
    """One way of serving a model."""

    size: int
    config: Mapping[str, Any]
    layers: ModelLayers
    request: FitRequest

    @property
    def need(self) -> KvNeed:
        request = self.request
        across, dtype = request.parallelism, request.kv_cache_dtype
        return kv_need(self.config, across, dtype, request.step_tokens)

    @property
    def weights_bytes(self) -> int:
        """On the GPU that holds most layers."""
        stages = self.request.pipeline_parallel
        part = math.ceil(self.layers.layers / stages) / self.layers.layers
        return math.ceil(self.size * part / self.request.tensor_parallel)

    @property
    def budget_bytes(self) -> int:
        return int(self.request.memory_share * self.request.gpu_memory_bytes)

    @property
    def divides(self) -> bool:
        """Whether the heads can be divided among the GPUs."""
        return self.layers.heads % self.request.tensor_parallel == 0

    def fit(self) -> Fit:
        """What it takes, without reasons and proposals."""
        request, need = self.request, self.need
        remaining = self.budget_bytes - self.weights_bytes - request.engine_bytes
        sequence = need.sequence_blocks(request.context_tokens)
        kv_bytes = remaining
        if request.kv_tokens is not None:
            kv_bytes = math.ceil(request.kv_tokens / request.context_tokens * sequence)
            kv_bytes *= need.block_bytes
        blocks = max(0, kv_bytes) // need.block_bytes if need.block_bytes else 0
        programs = blocks // sequence if sequence else 0
        tokens = blocks * request.context_tokens // sequence if sequence else 0
        fits = self.divides and kv_bytes <= remaining and (programs >= 1 or not sequence)
        return Fit(
            fits=fits and remaining >= 0,
            exact=not need.estimates,
            why=need.estimates,
            weights_bytes=self.weights_bytes,
            kv_bytes=kv_bytes,
            token_bytes=need.token_bytes,
            tokens=tokens,
            programs=programs,
            blocks=blocks,
            groups=len(need.groups),
            text=self.text(kv_bytes, remaining, tokens, programs),
        )

    def text(self, kv_bytes: int, remaining: int, tokens: int, programs: int) -> str:
        """The arithmetic."""
        request = self.request
        gpus = request.parallelism.gpus
        each = f" on each of {gpus} GPUs" if gpus > 1 else ""
        weights, work = f"weights {in_gb(self.weights_bytes)}", in_gb(request.engine_bytes)
        share = f"{request.memory_share:g} of a GPU's {in_gb(request.gpu_memory_bytes)}"
        if not self.divides:
            asked = f"tensor_parallel: {request.tensor_parallel}"
            return f"does not fit: {self.layers.heads} heads cannot be divided by {asked}"
        if remaining < 0:
            return (
                f"does not fit: {weights}{each} + {work} for the engine's work > "
                f"{in_gb(self.budget_bytes)} ({share})"
            )
        if kv_bytes > remaining:
            return (
                f"does not fit: {weights}{each} + {work} for the engine's work + {in_gb(kv_bytes)} "
                f"of KV for {request.kv_tokens:,} tokens > {in_gb(self.budget_bytes)} ({share})"
            )
        if not self.need.groups:
            return f"{weights}{each}, no KV cache"
        holds = f"{weights} + {in_gb(kv_bytes)} of KV{each} = {_round(tokens):,} tokens"
        if programs < 1:
            return f"does not fit: {holds} ({share}), one program has {request.context_tokens:,}"
        noun = "program" if programs == 1 else "programs"
        return f"{holds}, about {programs:,} {noun} of {request.context_tokens:,}"


def _proposal(plan: _Plan) -> str:
    """What would fit: more GPUs, a smaller cache, a shorter context."""
    found = [*_more_gpus(plan), *_smaller_cache(plan), *_shorter_context(plan)]
    if found:
        return f"{' or '.join(found)} would fit"
    return "no number of such GPUs up to 64 would do; take larger ones, or quantised weights"


def _more_gpus(plan: _Plan) -> list[str]:
    tensor = plan.request.tensor_parallel
    for wanted in (2**power for power in range(MOST_GPUS.bit_length())):
        other = replace(plan, request=replace(plan.request, tensor_parallel=wanted))
        if (wanted > tensor or not plan.divides) and other.fit().fits:
            return [f"tensor_parallel: {wanted}"]
    return []


def _smaller_cache(plan: _Plan) -> list[str]:
    if plan.request.kv_cache_dtype != "auto" or plan.layers.kv_dtype != "auto":
        return []
    other = replace(plan, request=replace(plan.request, kv_cache_dtype="fp8"))
    return ["kv_cache_dtype: fp8"] if other.fit().fits else []


def _shorter_context(plan: _Plan) -> list[str]:
    """The longest context of which one sequence fits, if the cache is what is too small."""
    low, high = 0, plan.request.context_tokens
    while high - low > 1:
        middle = (low + high) // 2
        request = replace(plan.request, context_tokens=middle, kv_tokens=None)
        low, high = (middle, high) if replace(plan, request=request).fit().fits else (low, middle)
    if plan.request.kv_tokens is not None and low:
        most = replace(plan, request=replace(plan.request, kv_tokens=None)).fit().tokens
        return [f"kv_tokens: {most}"] if most else []
    return [f"context_tokens: {low}"] if low else []


def _round(tokens: int) -> int:
    """Three digits: the rest would pretend to know."""
    digits = int(10 ** max(0, len(str(tokens)) - 3))
    return tokens // digits * digits
