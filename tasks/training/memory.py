"""The memory that a training needs, part by part, with its arithmetic.

In: a model's sizes and what is trained. Out: `MemoryPart`s, in bytes. It is an estimate: of what a
step holds at its highest, without what the allocator and the libraries take.
"""

from dataclasses import dataclass

from tutti.tasks.training.model_size import ModelSize
from tutti.tasks.training.settings import CHUNK_ELEMENTS

FLOAT32, BFLOAT16 = 4, 2
ADAMW = 8
"""Bytes of a trained weight: two moments in float32."""
A_LAYER = 34
"""Bytes of a token and hidden unit that a layer keeps for its gradient, in 16 bits."""
A_BOUNDARY = 2
"""Those of a layer's input, which is all that gradient checkpointing keeps of it."""


@dataclass(frozen=True)
class MemoryPart:
    """A part of the memory."""

    what: str
    size_bytes: int
    arithmetic: str


@dataclass(frozen=True)
class TrainedModel:
    """What a step holds."""

    size: ModelSize
    parameters: int
    """All weights of the base."""
    adapter: int | None
    """Weights of the adapter; None where all weights are trained."""
    reference: bool
    """Whether the objective reads the base's log probabilities."""
    tokens: int
    """The longest micro-batch."""
    half: bool = True
    """Whether the arithmetic is in bfloat16."""
    checkpointing: bool = False
    """Whether activations are computed again for the gradient."""


def memory_parts(model: TrainedModel) -> list[MemoryPart]:
    """The parts of a training's memory. Weights are float32: `trainer/model.py` says why."""
    base, adapter = model.parameters, model.adapter
    trained = base if adapter is None else adapter
    parts = [_each("weights", base, FLOAT32, "float32")]
    if adapter is not None:
        parts.append(_each("adapter", adapter, FLOAT32, "float32"))
    parts.append(_each("gradients", trained, FLOAT32, "float32"))
    parts.append(_each("AdamW", trained, ADAMW, "two moments"))
    if model.half:
        parts.append(_each("weights, cast", base, BFLOAT16, "autocast's bfloat16 copies"))
    if model.reference and adapter is None:
        parts.append(_each("reference", base, FLOAT32, "the base, frozen"))
    return [*parts, _activations(model), _logits(model)]


def _each(what: str, weights: int, size: int, why: str) -> MemoryPart:
    return MemoryPart(what, weights * size, f"{weights:,} x {size} B ({why})")


def _activations(model: TrainedModel) -> MemoryPart:
    """Source: Korthikanti et al., arXiv 2205.05198, eq. 1: s b h (34 + 5 a s / h) bytes a layer, of
    which the second term is the attention scores, which no kernel of ours keeps; with
    checkpointing, 2 s b h a layer and one layer whole. In float32 all is twice that."""
    size, tokens = model.size, model.tokens
    width = 1 if model.half else 2
    a_layer = f"{tokens:,} tokens x {size.hidden:,} x {width * A_LAYER} B"
    if not model.checkpointing:
        total = width * A_LAYER * tokens * size.hidden * size.layers
        return MemoryPart("activations", total, f"{a_layer} x {size.layers} layers")
    kept = width * A_BOUNDARY * size.layers
    total = (kept + width * A_LAYER) * tokens * size.hidden
    return MemoryPart("activations", total, f"{a_layer} + {width * A_BOUNDARY} B a layer")


def _logits(model: TrainedModel) -> MemoryPart:
    """Logits of a chunk and their gradient, in float32 (`CHUNK_ELEMENTS`)."""
    vocabulary = model.size.vocabulary
    rows = min(model.tokens, max(1, CHUNK_ELEMENTS // vocabulary))
    arithmetic = f"{rows:,} tokens x {vocabulary:,} x 4 B, and their gradient"
    return MemoryPart("logits", 2 * FLOAT32 * rows * vocabulary, arithmetic)
