"""The files of a checkpoint and the sizes of its tensors, from headers only, never the data.

In: a folder (or a GGUF file). Out: `Weights`. It refuses faults that a server would detect only
after minutes: a missing shard, a link whose file is gone, an incomplete download, no configuration,
no tokenizer or another model's.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.fit import text_config
from tutti.tasks.serving.weights.tensor_files import (
    Tensor,
    opened,
    read_json,
    read_tensors,
    require_file,
)

SINGLE, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
TOKENIZERS = (
    *("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"),
    *("tiktoken.model", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model.v3"),
)
"""One of these holds the vocabulary; families with their own code have `*.tiktoken`."""
LAYER = re.compile(r"^model\.layers\.(\d+)\.")
MAX_NAMED = 4
OTHER_FORMS = {
    "adapter_model.safetensors": "a LoRA adapter's weights; name its base model's folder",
    "pytorch_model.bin": "weights in pickles; convert them with save_pretrained",
    "pytorch_model.bin.index.json": "weights in pickles; convert them with save_pretrained",
    "consolidated.safetensors": "Mistral's own form; take the repository's model-*.safetensors",
}
SCALARS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""By a type's number, its letter for `struct`."""
STRING, ARRAY = 8, 9
MAX_KEPT_ITEMS = 4096
"""Longer arrays are those of the vocabulary; the others hold one value a layer."""
PART = re.compile(r"^(?P<name>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf$")
CONFIG_FIELDS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
}
"""Fields of a config.json, by the names that transformers uses, and their names in metadata."""


@dataclass(frozen=True)
class Weights:
    """A complete checkpoint."""

    folder: Path
    files: tuple[Path, ...]
    form: Literal["safetensors", "gguf"]
    config: Mapping[str, Any]
    """config.json; for GGUF the fields of one that its metadata imply."""
    loaded_bytes: int
    """The tensors' data that a server keeps: without a last layer beside embeddings that stand for
    it, and without layers that only speculation uses. For GGUF the files' bytes."""


def read_weights(folder: Path) -> Weights:
    """Read the checkpoint in `folder`, or the GGUF file (or part of one) that it names. Raises
    WeightsError that names the file and what to do."""
    try:
        if folder.suffix == ".gguf" and not folder.is_dir():
            return _gguf(folder)
        if not folder.is_dir():
            raise WeightsError(f"{folder}: no such folder; name the folder of a checkpoint")
        if _exists(folder / SINGLE) or _exists(folder / INDEX):
            return _safetensors(folder)
        ggufs = sorted(folder.glob("*.gguf"))
        models = {part["name"] if (part := PART.match(f.name)) else f.name for f in ggufs}
        if len(models) > 1:
            raise WeightsError(
                f"{folder}: {len(models)} models in GGUF form ({_some(f.name for f in ggufs)}); "
                "name the file instead of the folder"
            )
        if not ggufs:
            raise _no_weights(folder)
        return _gguf(ggufs[0])
    except OSError as error:
        raise WeightsError(
            f"{error.filename or folder}: cannot be read: {error.strerror}"
        ) from None


def require_trainable(folder: Path) -> None:
    """Check that a folder has complete weights in safetensors, one file or shards. Raises
    WeightsError with what to do."""
    if read_weights(folder).form == "gguf":
        raise WeightsError(
            f"{folder}: weights in GGUF form can be served, not trained; name the model that they "
            "were converted from"
        )


def _exists(path: Path) -> bool:
    """Whether the path exists, possibly as a link whose file is gone."""
    return path.exists() or path.is_symlink()


def _safetensors(folder: Path) -> Weights:
    if not _exists(folder / CONFIG):
        raise WeightsError(f"{folder}: no {CONFIG}; copy it from where the weights are from")
    config = read_json(folder / CONFIG)
    _require_tokenizer(folder, config)
    mapping = _index(folder)
    names = sorted(set(mapping.values())) or [SINGLE]
    if _exists(folder / SINGLE) and names != [SINGLE]:
        raise WeightsError(
            f"{folder}: both {SINGLE} and {INDEX}, which names {_some(names)}; remove the one that "
            "is not this model's"
        )
    if missing := [name for name in names if not _exists(folder / name)]:
        raise WeightsError(
            f"{folder}: {_some(missing)} missing, which {INDEX} names ({len(missing)} of "
            f"{len(names)} files); fetch or copy them again"
        )
    files = tuple(folder / name for name in names)
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors.update(read_tensors(file))
    if absent := sorted(mapping.keys() - tensors.keys()):
        raise WeightsError(
            f"{folder / INDEX}: {_some(absent)} in none of the files ({len(absent)} of "
            f"{len(mapping)} tensors); index and weights are not of one model: fetch both again"
        )
    loaded = sum(each.bytes for name, each in tensors.items() if not _is_idle(name, config))
    return Weights(folder, files, "safetensors", config, loaded)


def _index(folder: Path) -> Mapping[str, str]:
    path = folder / INDEX
    if not _exists(path):
        return {}
    mapping = read_json(path).get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise WeightsError(f"{path}: no weight_map; fetch the file again")
    for name in mapping.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise WeightsError(
                f"{path}: weight_map names {name!r}, which is no file of this folder; fetch the "
                "file again"
            )
    return mapping


def _gguf(file: Path) -> Weights:
    parts = parts_of(file)
    missing = [each.name for each in parts if not _exists(each)]
    if missing and len(parts) > 1:
        raise WeightsError(
            f"{file.parent}: {_some(missing)} missing ({len(missing)} of {len(parts)} parts); "
            "fetch or copy them again"
        )
    metadata = [read_gguf(each) for each in parts]
    size = sum(each.stat().st_size for each in parts)
    return Weights(file.parent, tuple(parts), "gguf", config_of(metadata[0]), size)


def _is_idle(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a server leaves a tensor out, as vLLM 0.32 does without speculation."""
    if name.startswith("lm_head."):
        return config.get("tie_word_embeddings") is True
    layers, layer = config.get("num_hidden_layers"), LAYER.match(name)
    if layer is None or not isinstance(layers, int) or not config.get("num_nextn_predict_layers"):
        return False
    return int(layer[1]) >= layers


def _require_tokenizer(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise WeightsError if there is no vocabulary, or one with an id for which the model has no
    embedding: a server would start, and fail or answer nonsense at the first such token.

    A smaller vocabulary is right, because embeddings are padded. Added tokens are ignored: some
    families have some above the embeddings that no prompt uses.
    """
    present = [folder / name for name in TOKENIZERS if _exists(folder / name)]
    present += sorted(folder.glob("*.tiktoken"))
    if not present:
        raise WeightsError(
            f"{folder}: no tokenizer (tokenizer.json, tokenizer.model or a vocabulary); copy it "
            "from where the weights are from"
        )
    for each in present:
        require_file(each)
    path, embeddings = folder / TOKENIZERS[0], text_config(config).get("vocab_size")
    if path not in present or not isinstance(embeddings, int):
        return
    state = path.stat()
    largest = _largest_id(path, state.st_size, state.st_mtime_ns)
    if largest >= embeddings:
        raise WeightsError(
            f"{path}: token ids up to {largest:,}, and {folder / CONFIG} has {embeddings:,} "
            "embeddings (vocab_size): not of one model; copy the tokenizer from where the weights "
            "are from"
        )


@lru_cache(maxsize=64)
def _largest_id(path: Path, size: int, changed_ns: int) -> int:
    """Return the largest id of a tokenizer.json; -1 in an unknown form. It is read once per state
    of the file, which may have 30 MB."""
    model = read_json(path).get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if isinstance(vocabulary, Mapping):
        return max((each for each in vocabulary.values() if isinstance(each, int)), default=-1)
    return len(vocabulary) - 1 if isinstance(vocabulary, list) else -1


def _no_weights(folder: Path) -> WeightsError:
    looked = f"neither {SINGLE}, {INDEX} nor a .gguf file"
    for name, what in OTHER_FORMS.items():
        if (folder / name).exists():
            return WeightsError(f"{folder}: {looked}; {name} holds {what}")
    others = sorted(each.name for each in folder.glob("*.safetensors"))
    if others:
        return WeightsError(
            f"{folder}: {looked}, only {_some(others)}; rename a single file to {SINGLE}, or copy "
            "the index too"
        )
    return WeightsError(f"{folder}: no weights there: {looked}; `tutti train pocket` makes some")


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - MAX_NAMED} more" if len(every) > MAX_NAMED else ""
    return ", ".join(every[:MAX_NAMED]) + more


def read_gguf(path: Path) -> dict[str, Any]:
    """Return the metadata of a GGUF file, without long arrays. Whether the tensors' data are
    complete is left to the server, which checks it at once when it starts (ggml's docs/gguf.md,
    versions 2 and 3). Raises WeightsError if it is not a GGUF file, or its header is truncated."""
    with opened(path) as file:
        reader = _Reader(file, path.stat().st_size)
        try:
            return reader.metadata()
        except ValueError as error:
            raise WeightsError(
                f"{path}: no GGUF file: {error}; fetch it again or name another"
            ) from None


def parts_of(path: Path) -> list[Path]:
    """Return all parts of a model in several files, of which `path` is one; else only `path`."""
    part = PART.match(path.name)
    if part is None:
        return [path]
    name, parts = part["name"], int(part["parts"])
    return [path.with_name(f"{name}-{k:05}-of-{parts:05}.gguf") for k in range(1, parts + 1)]


def config_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a config.json that GGUF metadata imply."""
    family = metadata.get("general.architecture")
    fields = {ours: metadata.get(f"{family}.{name}") for ours, name in CONFIG_FIELDS.items()}
    fields = {"model_type": family} | fields
    return {name: value for name, value in fields.items() if value is not None}


class _Reader:
    """Reader of one header. Its methods raise ValueError if it is invalid or truncated."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size

    def metadata(self) -> dict[str, Any]:
        magic, version, tensors, keys = self.numbers("4sIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError("it does not begin with GGUF and version 2 or 3")
        metadata = {}
        for _ in range(keys):
            key = self.value(STRING)
            metadata[key] = self.value(*self.numbers("I"))
        if not tensors:
            raise ValueError("no tensors (a vocabulary only)")
        return metadata

    def value(self, kind: int) -> Any:
        """Return one value; None for an array that is too long to store."""
        if kind in SCALARS:
            return self.numbers(SCALARS[kind])[0]
        if kind == STRING:
            return self.take(*self.numbers("Q")).decode(errors="replace")
        items, count = self.numbers("IQ") if kind == ARRAY else (kind, 0)
        if items not in (*SCALARS, STRING):
            raise ValueError(f"a value has the unknown type {items}")
        if items in SCALARS and count > MAX_KEPT_ITEMS:
            self.take(count * struct.calcsize(f"<{SCALARS[items]}"))
            return None
        values = [self.value(items) for _ in range(count)]
        return values if count <= MAX_KEPT_ITEMS else None

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))

    def take(self, count: int) -> bytes:
        if self.file.tell() + count > self.size:
            raise ValueError(f"it has {self.size:,} bytes and ends within its header")
        return self.file.read(count)
