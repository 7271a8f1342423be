"""What each layer of a model keeps for a sequence, from its config.json.

In: the configuration. Out: the layers that keep keys and values (all of them, of a window, or as
one latent vector), and those that keep a state of fixed size. Where the configuration does not say
it exactly, the reason is noted and the numbers are estimates. Formulas: vLLM 0.32,
`v1/kv_cache_interface.py`, `model_executor/layers/mamba/mamba_utils.py` and the models' own files.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tutti.tasks.serving.errors import WeightsError

Config = Mapping[str, Any]

NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where models with images or sound keep the configuration of their text part."""
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
WIDTH = ("hidden_size", "n_embd", "d_model")
CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
ENCODERS = ("Bert", "Roberta", "XLMRoberta", "NomicBert", "ModernBert", "DistilBert", "MPNet")
"""Beginnings of the names of architectures that read the whole text at once and keep nothing."""
FULL, SLIDING, CHUNKED, STATE, NONE = "full", "sliding", "chunked", "state", "none"
KINDS = {
    "full_attention": FULL,
    "attention": FULL,
    "sliding_attention": SLIDING,
    "chunked_attention": CHUNKED,
    "linear_attention": STATE,
    "mamba": STATE,
    "mamba2": STATE,
    "conv": STATE,
    "recurrent": STATE,
    "mlp": NONE,
    "moe": NONE,
}
NEMOTRON_KINDS = {"*": FULL, "M": STATE, "-": NONE, "E": NONE}
WINDOW_PATTERNS = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3_text": 6,
    "gemma3n_text": 5,
    "cohere2": 4,
}
"""By family: of 6, every sixth layer sees all tokens. For configurations that do not say it."""
FAMILY_DEFAULTS = {
    family: {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}
    for family in ("gemma2", "gemma3_text")
}
"""What the configurations of a family leave out (transformers 5.19, its classes' defaults)."""
LLAMA4_PATTERN = 4
MODEL_BYTES = 2
"""Of a number that a model computes with on a GPU: vLLM's `auto` makes float32 16 bits wide too."""
INDEX_QUANT_BLOCK = 128
"""Sparse latent attention keeps a key for its index as FP8, with a scale for so many numbers."""


@dataclass(frozen=True)
class AttentionLayers:
    """Layers that keep keys and values of each token."""

    count: int
    heads: int
    """KV heads, divided among the GPUs of tensor parallelism; 0 for a latent vector, which every
    GPU keeps whole."""
    numbers: int
    """Numbers a head and token: key and value."""
    window: int | None = None
    """The tokens that are kept; None for all."""
    extra_bytes: int = 0
    """Bytes a token beside these numbers, of whatever dtype they are."""


@dataclass(frozen=True)
class StateLayers:
    """Layers that keep a state, however long the sequence."""

    count: int
    conv: int
    """Numbers of the convolution's state, in the model's dtype."""
    state: int
    """Numbers of the recurrent state."""
    state_bytes: int
    """Bytes of one of these."""


@dataclass(frozen=True)
class ModelLayers:
    """All that a model keeps for a sequence."""

    attention: tuple[AttentionLayers, ...]
    states: tuple[StateLayers, ...]
    layers: int
    heads: int
    """Query heads, which the GPUs of tensor parallelism must divide evenly."""
    kv_dtype: str
    """`auto`, or what the checkpoint asks for."""
    context_tokens: int | None
    estimates: tuple[str, ...]
    """Why the numbers are estimates; empty where they are exact."""


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
def read_layers(config: Config) -> ModelLayers:
    """The layers of a model. Raises WeightsError with the field that config.json lacks."""
    text = text_config(config)
    heads = _count(text, HEADS)
    kinds, notes = layer_kinds(text)
    attention = _attention(text, kinds, heads)
    states, more = _states(text, kinds.count(STATE))
    notes += more
    if any(each.window for each in attention):
        notes.append("layers with a window keep the last tokens only")
    if any(each.heads == 0 for each in attention):
        notes.append("latent attention (MLA)")
    if _is_encoder(config):
        attention, states, notes = (), (), []
    notes += _weights_notes(config)
    return ModelLayers(
        attention=attention,
        states=states,
        layers=len(kinds),
        heads=heads,
        kv_dtype=_checkpoint_kv_dtype(config),
        context_tokens=_first(text, CONTEXT),
        estimates=tuple(notes),
    )


def _weights_notes(config: Config) -> list[str]:
    """Why the weights take another amount once they are loaded."""
    notes = []
    if text_config(config).get("num_nextn_predict_layers"):
        notes.append("its files hold layers for speculation, which are loaded only for that")
    if (config.get("quantization_config") or {}).get("quant_method") == "mxfp4":
        notes.append("vLLM pads MXFP4 weights, by 6 % for gpt-oss-120b")
    return notes


def text_config(config: Config) -> Config:
    """The configuration of a model's text part, with the dtype and such from around it."""
    inner = next((config[key] for key in NESTED if isinstance(config.get(key), Mapping)), None)
    if inner is None:
        return {**FAMILY_DEFAULTS.get(str(config.get("model_type")), {}), **config}
    around = {key: value for key, value in config.items() if key not in NESTED}
    return text_config({**around, **{k: v for k, v in inner.items() if v is not None}})


def layer_kinds(text: Config) -> tuple[list[str], list[str]]:
    """The kind of each layer, and what of it is guessed."""
    notes: list[str] = []
    pattern = text.get("hybrid_override_pattern")
    if text.get("compress_ratios"):
        notes.append("its compressed attention is counted in full")
        return [FULL] * _count(text, LAYERS), notes
    named = text.get("layer_types") or text.get("layers_block_type")
    if isinstance(pattern, str):
        kinds = [NEMOTRON_KINDS.get(letter, FULL) for letter in pattern]
    elif isinstance(named, Sequence) and not isinstance(named, str):
        if unknown := sorted({str(name) for name in named} - KINDS.keys()):
            notes.append(f"layers of the kind {', '.join(unknown)} are counted as full attention")
        kinds = [KINDS.get(name, FULL) for name in named]
    else:
        kinds = [_kind_by_place(text, layer) for layer in range(_count(text, LAYERS))]
    if not _has_window(text):
        kinds = [FULL if kind == SLIDING else kind for kind in kinds]
    shared = text.get("num_kv_shared_layers") or 0
    return kinds[: len(kinds) - shared] + [NONE] * shared, notes


def _kind_by_place(text: Config, layer: int) -> str:
    """A layer's kind where the configuration has a rule instead of a list."""
    if linear := text.get("linear_attn_config"):  # Kimi: counts from 1
        return STATE if layer + 1 in linear.get("kda_layers", ()) else FULL
    if interval := text.get("full_attention_interval"):
        return FULL if (layer + 1) % interval == 0 else STATE
    if period := text.get("attn_layer_period"):
        return FULL if layer % period == text.get("attn_layer_offset", 0) else STATE
    if text.get("attention_chunk_size"):
        without = text.get("no_rope_layers")  # 0 where a layer has no positions and sees all
        if isinstance(without, Sequence) and len(without) > layer:
            return CHUNKED if without[layer] else FULL
        return FULL if (layer + 1) % LLAMA4_PATTERN == 0 else CHUNKED
    if not _has_window(text):
        return FULL
    family = str(text.get("model_type"))
    named = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern")
    pattern = named if isinstance(named, int) else WINDOW_PATTERNS.get(family)
    if pattern:
        return FULL if (layer + 1) % pattern == 0 else SLIDING
    if "use_sliding_window" in text:  # Qwen2: only the layers above
        return SLIDING if layer >= text.get("max_window_layers", 0) else FULL
    return SLIDING


def _has_window(text: Config) -> bool:
    return bool(text.get("sliding_window")) and text.get("use_sliding_window", True) is not False


def _attention(text: Config, kinds: Sequence[str], heads: int) -> tuple[AttentionLayers, ...]:
    if blocks := text.get("block_configs"):
        return _unlike(text, (_searched_heads(block, heads) for block in blocks), heads)
    if isinstance(by_layer := text.get("num_key_value_heads"), Sequence):
        return _unlike(text, by_layer, heads)
    windows = {
        FULL: None,
        SLIDING: text.get("sliding_window"),
        CHUNKED: text.get("attention_chunk_size"),
    }
    found = []
    for kind, window in windows.items():
        if count := kinds.count(kind):
            found.append(replace(_one_layer(text, kind, heads), count=count, window=window))
    return tuple(found)


def _one_layer(text: Config, kind: str, heads: int) -> AttentionLayers:
    """What a layer of this kind keeps of a token."""
    if rank := text.get("kv_lora_rank"):
        index = text.get("index_head_dim") or 0
        scales = index // INDEX_QUANT_BLOCK * 4
        rotary = _count(text, ("qk_rope_head_dim",))
        return AttentionLayers(1, 0, rank + rotary, extra_bytes=index + scales)
    kv_heads, width = _first(text, KV_HEADS) or heads, _head_width(text, heads)
    if kind == FULL:  # Gemma 4 has other heads in these
        kv_heads = text.get("num_global_key_value_heads") or kv_heads
        width = text.get("global_head_dim") or width
    return AttentionLayers(1, kv_heads, width + (text.get("v_head_dim") or width))


def _unlike(text: Config, by_layer: Iterable[int], heads: int) -> tuple[AttentionLayers, ...]:
    """Layers with different numbers of KV heads; those with none keep nothing."""
    width = _head_width(text, heads)
    counted = sorted(Counter(by_layer).items())
    return tuple(AttentionLayers(n, kv_heads, 2 * width) for kv_heads, n in counted if kv_heads)


def _searched_heads(block: Config, heads: int) -> int:
    """KV heads of a layer of Nemotron's searched architectures, some of which have no attention."""
    group = block["attention"].get("n_heads_in_group")
    return heads // group if group else 0


def _head_width(text: Config, heads: int) -> int:
    return text.get("head_dim") or _count(text, WIDTH) // heads


def _states(text: Config, count: int) -> tuple[tuple[StateLayers, ...], list[str]]:
    """Layers with a state, by the fields of their family."""
    if not count:
        return (), []
    note = "some layers keep a state of fixed size"
    if "linear_num_value_heads" in text:  # gated delta net: Qwen3-Next, Qwen3.5
        keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
        values = text["linear_num_value_heads"] * text["linear_value_head_dim"]
        conv = (2 * keys + values) * (text["linear_conv_kernel_dim"] - 1)
        state = values * text["linear_key_head_dim"]
        width = 4 if text.get("mamba_ssm_dtype") == "float32" else MODEL_BYTES
        return (StateLayers(count, conv, state, width),), [note]
    if linear := text.get("linear_attn_config"):  # Kimi's delta attention: keys as wide as values
        values = linear["num_heads"] * linear["head_dim"]
        conv = 3 * values * (linear["short_conv_kernel_size"] - 1)
        return (StateLayers(count, conv, values * linear["head_dim"], 4),), [note]
    mamba = _mamba2(text)
    if mamba is None:
        return (), [f"{note}, which is not counted: its family's fields are not known here"]
    heads, width, groups, size, kernel = mamba
    conv = (heads * width + 2 * groups * size) * (kernel - 1)
    default = "float32" if text.get("model_type") == "nemotron_h" else "auto"
    dtype = text.get("mamba_ssm_cache_dtype", default)
    bytes_ = 4 if dtype == "float32" else MODEL_BYTES
    return (StateLayers(count, conv, heads * width * size, bytes_),), [note]


def _mamba2(text: Config) -> tuple[int, int, int, int, int] | None:
    """Heads, their width, groups, state size and kernel by the names of either family."""
    families = (
        ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel"),
        ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"),
    )
    for names in families:
        values = [text.get(name) for name in names]
        if all(isinstance(value, int) for value in values):
            heads, width, groups, size, kernel = (int(value or 0) for value in values)
            return heads, width, groups, size, kernel
    return None


def _is_encoder(config: Config) -> bool:
    names = config.get("architectures") or []
    return any(str(name).startswith(ENCODERS) for name in names)


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
