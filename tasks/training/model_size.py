"""How many weights a checkpoint has, and the memory that its training needs, with the arithmetic.

In: a checkpoint's folder, or only its name, and what is trained. Out: a `ModelSize`, and
`MemoryPart`s in bytes. Weights are counted in the headers of the safetensors files where there are
any, else by `config.json`, else by a table of published configurations. The memory is an estimate:
of what a step holds at its highest, without what the allocator and the libraries take. Needs no
torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.tasks.serving.weights import parameters_in, read_json
from tutti.tasks.training.settings import CHUNK_ELEMENTS, LoraSettings

Config = Mapping[str, Any]

KNOWN: dict[str, Config] = {
    "Qwen3-8B": {
        "model_type": "qwen3", "tie_word_embeddings": False, "vocab_size": 151936,
        "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    },
    "Qwen2.5-32B": {
        "model_type": "qwen2", "tie_word_embeddings": False, "vocab_size": 152064,
        "hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64,
        "num_attention_heads": 40, "num_key_value_heads": 8,
    },
    "Meta-Llama-3-8B-Instruct": {
        "model_type": "llama", "tie_word_embeddings": False, "vocab_size": 128256,
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8,
    },
    "Mistral-7B-Instruct-v0.3": {
        "model_type": "mistral", "tie_word_embeddings": False, "vocab_size": 32768,
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8,
    },
    "gemma-2-2b-it": {
        "model_type": "gemma2", "tie_word_embeddings": True, "vocab_size": 256000,
        "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    },
}  # fmt: skip
"""By the name of a checkpoint's folder: what is read of its config.json. Source: the config.json of
Qwen/Qwen3-8B, Qwen/Qwen2.5-32B, meta-llama/Meta-Llama-3-8B-Instruct,
mistralai/Mistral-7B-Instruct-v0.3 and google/gemma-2-2b-it on the Hugging Face hub."""
NORMS = {"llama": 2, "mistral": 2, "qwen2": 2, "qwen3": 2, "gemma2": 4}
"""Norms of a layer as wide as its hidden states, by the type of a model whose weights can be
counted by its configuration."""
FLOAT32, BFLOAT16 = 4, 2
ADAMW = 8
"""Bytes of a trained weight: two moments in float32."""
A_LAYER = 34
"""Bytes of a token and hidden unit that a layer keeps for its gradient, in 16 bits."""
A_BOUNDARY = 2
"""Those of a layer's input, which is all that gradient checkpointing keeps of it."""


@dataclass(frozen=True)
class ModelSize:
    """The sizes of a decoder."""

    parameters: int | None
    """All weights; None where neither its files nor its configuration say."""
    source: str
    """Where they were counted."""
    layers: int
    hidden: int
    vocabulary: int
    matrices: Mapping[str, tuple[int, int]]
    """The projections of a layer: name to (inputs, outputs)."""

    def adapter_parameters(self, lora: LoraSettings) -> int:
        """Weights of an adapter: rank x (inputs + outputs) of each matrix that it changes.

        Source: arXiv 2106.09685, 4.1. Raises KeyError for a target that is no projection.
        """
        a_layer = sum(lora.rank * sum(self.matrices[name]) for name in lora.targets)
        return self.layers * a_layer


def size_of_checkpoint(folder: Path) -> ModelSize | None:
    """The sizes of a checkpoint; None where its folder is not there, or has no configuration that
    says them, and its name is not known. Raises WeightsError for a configuration that is no JSON.
    """
    file = folder / "config.json"
    if file.is_file():
        config: Config = read_json(file)
        source = str(file)
    elif folder.name in KNOWN:
        config, source = KNOWN[folder.name], f"the published configuration of {folder.name}"
    else:
        return None
    counted = parameters_in(folder)
    if counted is not None:
        source = "the headers of its safetensors files"
    try:
        return _size(config, source, counted)
    except (KeyError, TypeError, ArithmeticError):  # a configuration of another kind of model
        return None


def _size(config: Config, source: str, counted: int | None) -> ModelSize:
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or hidden // heads
    queries, keys = heads * head, (config.get("num_key_value_heads") or heads) * head
    matrices = {
        "q_proj": (hidden, queries),
        "k_proj": (hidden, keys),
        "v_proj": (hidden, keys),
        "o_proj": (queries, hidden),
        "gate_proj": (hidden, wide),
        "up_proj": (hidden, wide),
        "down_proj": (wide, hidden),
    }
    layers, vocabulary = config["num_hidden_layers"], config["vocab_size"]
    if counted is None and (kind := config.get("model_type")) in NORMS:
        more = {"qwen3": 2 * head, "qwen2": queries + 2 * keys}  # norms of heads; biases
        a_layer = sum(inputs * outputs for inputs, outputs in matrices.values())
        a_layer += NORMS[kind] * hidden + more.get(kind, 0)
        tables = 1 if config.get("tie_word_embeddings") else 2  # embeddings, and the head
        counted = layers * a_layer + tables * vocabulary * hidden + hidden
    return ModelSize(counted, source, layers, hidden, vocabulary, matrices)


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
