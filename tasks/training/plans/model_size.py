"""The number of weights of a checkpoint, and the memory that its training needs.

Weights are counted in the headers of the safetensors files if there are any, else by `config.json`,
else by a table of published configurations. The memory is an estimate of the peak of a step,
without the allocator and the libraries. Needs no torch.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tutti.tasks.serving.weights import parameters_in, read_json
from tutti.tasks.training.jobs.settings import CHUNK_ELEMENTS, Learning, LoraSettings
from tutti.tasks.training.objectives import reads_reference

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
"""Norms of a layer as wide as its hidden states, by the type of a model."""
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
    layers: int
    hidden: int
    vocabulary: int
    matrices: Mapping[str, tuple[int, int]]
    """The projections of a layer: name to (inputs, outputs)."""

    def adapter_parameters(self, lora: LoraSettings) -> int:
        """Weights of an adapter: rank x (inputs + outputs) of each matrix that it changes. Source:
        arXiv 2106.09685, 4.1. Raises KeyError for a target that is not a projection."""
        a_layer = sum(lora.rank * sum(self.matrices[name]) for name in lora.targets)
        return self.layers * a_layer


def size_of_checkpoint(folder: Path) -> ModelSize | None:
    """Return the sizes of a checkpoint; None if its name is unknown and its folder is missing or
    has no configuration with them. Raises WeightsError for a configuration that is not JSON."""
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
    with suppress(KeyError, TypeError, ArithmeticError):  # of another kind of model
        return _size(config, source, counted)
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


class MemoryPart(NamedTuple):
    """A part of the memory of a training."""

    what: str
    size_bytes: int
    arithmetic: str


def memory_parts(
    size: ModelSize,
    parameters: int,
    job: Learning,
    tokens: int,
    adapter: int | None = None,
) -> list[MemoryPart]:
    """Return the parts of a training's memory, for micro-batches of at most `tokens` ids.

    `parameters` counts the weights of the base, `adapter` those of an adapter, if one is trained.
    Weights are float32; `trainer/model.py` has the reason. Activations: Korthikanti et al., arXiv
    2205.05198, eq. 1: s b h (34 + 5 a s / h) bytes per layer, without the second term, the
    attention scores, which our kernels do not store; with checkpointing, 2 s b h per layer and one
    complete layer. In float32 everything is doubled. Logits are those of a chunk
    (`CHUNK_ELEMENTS`).
    """
    trained = parameters if adapter is None else adapter
    half, reference = job.dtype != "float32", reads_reference(job.objective, job.objective_settings)
    weights = [("weights", parameters, FLOAT32, "float32")]
    if adapter is not None:
        weights.append(("adapter", adapter, FLOAT32, "float32"))
    weights += [
        ("gradients", trained, FLOAT32, "float32"),
        ("AdamW", trained, ADAMW, "two moments"),
    ]
    if half:
        weights.append(("weights, cast", parameters, BFLOAT16, "autocast's bfloat16 copies"))
    if reference and adapter is None:
        weights.append(("reference", parameters, FLOAT32, "the base, frozen"))
    width = 1 if half else 2
    layer, boundary = width * A_LAYER, width * A_BOUNDARY
    rows = min(tokens, max(1, CHUNK_ELEMENTS // size.vocabulary))
    if job.gradient_checkpointing:
        activations, more = boundary * size.layers + layer, f" + {boundary} B a layer"
    else:
        activations, more = layer * size.layers, f" x {size.layers} layers"
    return [
        *(
            MemoryPart(what, n * each, f"{n:,} x {each} B ({why})")
            for what, n, each, why in weights
        ),
        MemoryPart(
            "activations",
            activations * tokens * size.hidden,
            f"{tokens:,} tokens x {size.hidden:,} x {layer} B{more}",
        ),
        MemoryPart(
            "logits",
            2 * FLOAT32 * rows * size.vocabulary,
            f"{rows:,} tokens x {size.vocabulary:,} x 4 B, and their gradient",
        ),
    ]
