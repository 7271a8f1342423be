"""Which files make a checkpoint, and how large its tensors are: headers only, never the data.

In: a folder (or a GGUF file). Out: `Weights`. Refused is what a server would only find after
minutes: a missing shard, a link whose file is gone, a file that was not downloaded to its end, no
configuration, no tokenizer or another model's.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.fit import text_config
from tutti.tasks.serving.weights.gguf_files import PART, config_of, parts_of, read_gguf
from tutti.tasks.serving.weights.tensor_files import Tensor, read_json, read_tensors, require_file

SINGLE, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
TOKENIZERS = (
    *("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"),
    *("tiktoken.model", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model.v3"),
)
"""One of these holds the vocabulary; families with their own code have `*.tiktoken`."""
LAYER = re.compile(r"^model\.layers\.(\d+)\.")
MAX_NAMED = 4
"""Files or tensors that a message names."""


@dataclass(frozen=True)
class Weights:
    """A checkpoint whose files are all there."""

    folder: Path
    files: tuple[Path, ...]
    """The files with tensors, by name."""
    form: Literal["safetensors", "gguf"]
    config: Mapping[str, Any]
    """config.json; for GGUF the fields of one that its metadata imply."""
    loaded_bytes: int
    """The tensors' data that a server keeps: without a last layer beside embeddings that stand for
    it, and without layers that only speculation uses."""


def read_weights(folder: Path) -> Weights:
    """The checkpoint in `folder`, or the GGUF file (or part of one) that it names.

    Raises WeightsError that names the file and what to do.
    """
    try:
        return _read(folder)
    except OSError as error:
        raise WeightsError(
            f"{error.filename or folder}: cannot be read: {error.strerror}"
        ) from None


def require_trainable(folder: Path) -> None:
    """See that a folder has whole weights in safetensors, one file or shards.

    Raises WeightsError with what to do.
    """
    if read_weights(folder).form == "gguf":
        raise WeightsError(
            f"{folder}: weights in GGUF form can be served, not trained; name the model that they "
            "were converted from"
        )


def _read(folder: Path) -> Weights:
    if folder.suffix == ".gguf" and not folder.is_dir():
        return _gguf(folder.parent, parts_of(folder))
    if not folder.is_dir():
        raise WeightsError(f"{folder}: no such folder; name the folder of a checkpoint")
    if _is_there(folder / SINGLE) or _is_there(folder / INDEX):
        return _safetensors(folder)
    ggufs = sorted(each for each in folder.glob("*.gguf"))
    if not ggufs:
        raise _no_weights(folder)
    models = {(found["name"] if (found := PART.match(each.name)) else each.name) for each in ggufs}
    if len(models) > 1:
        raise WeightsError(
            f"{folder}: {len(models)} models in GGUF form ({_some(each.name for each in ggufs)}); "
            "name the file instead of the folder"
        )
    return _gguf(folder, parts_of(ggufs[0]))


def _is_there(path: Path) -> bool:
    """Whether it is there, be it as a link whose file is gone."""
    return path.exists() or path.is_symlink()


def _safetensors(folder: Path) -> Weights:
    config = read_json(_required(folder, CONFIG, "copy it from where the weights are from"))
    _require_tokenizer(folder, config)
    mapping = _index(folder)
    names = sorted(set(mapping.values())) or [SINGLE]
    if _is_there(folder / SINGLE) and names != [SINGLE]:
        raise WeightsError(
            f"{folder}: both {SINGLE} and {INDEX}, which names {_some(names)}; remove the one that "
            "is not this model's"
        )
    files = tuple(folder / name for name in names)
    missing = [each.name for each in files if not _is_there(each)]
    if missing:
        raise WeightsError(
            f"{folder}: {_some(missing)} missing, which {INDEX} names ({len(missing)} of "
            f"{len(files)} files); fetch or copy them again"
        )
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors.update(read_tensors(file))
    if absent := sorted(mapping.keys() - tensors.keys()):
        raise WeightsError(
            f"{folder / INDEX}: {_some(absent)} in none of the files ({len(absent)} of "
            f"{len(mapping)} tensors); index and weights are not of one model: fetch both again"
        )
    return _weights(folder, files, "safetensors", config, tensors)


def _index(folder: Path) -> Mapping[str, str]:
    """The file of each tensor by the index; empty without one."""
    path = folder / INDEX
    if not _is_there(path):
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


def _gguf(folder: Path, files: list[Path]) -> Weights:
    missing = [each.name for each in files if not _is_there(each)]
    if missing and len(files) > 1:
        raise WeightsError(
            f"{folder}: {_some(missing)} missing ({len(missing)} of {len(files)} parts); fetch or "
            "copy them again"
        )
    headers = [read_gguf(each) for each in files]
    tensors = {name: each for header in headers for name, each in header.tensors.items()}
    wanted = headers[0].metadata.get("split.tensors.count")
    if len(files) > 1 and isinstance(wanted, int) and wanted != len(tensors):
        raise WeightsError(
            f"{files[0]}: {wanted} tensors in all parts by its header, {len(tensors)} found; the "
            "parts are not of one model: fetch them again"
        )
    if not tensors:
        raise WeightsError(f"{files[0]}: no tensors (a vocabulary only); name a model's file")
    return _weights(folder, tuple(files), "gguf", config_of(headers[0].metadata), tensors)


def _weights(
    folder: Path,
    files: tuple[Path, ...],
    form: Literal["safetensors", "gguf"],
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
) -> Weights:
    loaded = sum(each.bytes for name, each in tensors.items() if not _is_idle(name, config))
    return Weights(folder, files, form, config, loaded)


def _is_idle(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a server leaves a tensor out, as vLLM 0.32 does without speculation."""
    if name.startswith("lm_head."):
        return config.get("tie_word_embeddings") is True
    layers, layer = config.get("num_hidden_layers"), LAYER.match(name)
    if layer is None or not isinstance(layers, int) or not config.get("num_nextn_predict_layers"):
        return False
    return int(layer[1]) >= layers


def _required(folder: Path, name: str, fix: str) -> Path:
    path = folder / name
    if not _is_there(path):
        raise WeightsError(f"{folder}: no {name}; {fix}")
    require_file(path)
    return path


def _require_tokenizer(folder: Path, config: Mapping[str, Any]) -> None:
    """Raises WeightsError where there is no vocabulary, or one with an id that the model has no
    embedding for: a server would start, and fail or answer nonsense at the first such token.

    A smaller vocabulary is right, for embeddings are padded. Added tokens are left out: families
    have some above the embeddings that no prompt uses.
    """
    found = [folder / name for name in TOKENIZERS if _is_there(folder / name)]
    found += sorted(folder.glob("*.tiktoken"))
    if not found:
        raise WeightsError(
            f"{folder}: no tokenizer (tokenizer.json, tokenizer.model or a vocabulary); copy it "
            "from where the weights are from"
        )
    for each in found:
        require_file(each)
    path, embeddings = folder / TOKENIZERS[0], text_config(config).get("vocab_size")
    if path not in found or not isinstance(embeddings, int):
        return
    state = path.stat()
    largest = _largest_id(path, state.st_size, state.st_mtime_ns)
    if largest is not None and largest >= embeddings:
        raise WeightsError(
            f"{path}: token ids up to {largest:,}, and {folder / CONFIG} has {embeddings:,} "
            "embeddings (vocab_size): not of one model; copy the tokenizer from where the weights "
            "are from"
        )


@lru_cache(maxsize=64)
def _largest_id(path: Path, size: int, changed_ns: int) -> int | None:
    """The largest id of a tokenizer.json; None in a form that is not known. Read once a state of
    the file, for it may have 30 MB."""
    model = read_json(path).get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if isinstance(vocabulary, Mapping):
        ids = [each for each in vocabulary.values() if isinstance(each, int)]
        return max(ids, default=None)
    return len(vocabulary) - 1 if isinstance(vocabulary, list) else None


def _no_weights(folder: Path) -> WeightsError:
    looked = f"neither {SINGLE}, {INDEX} nor a .gguf file"
    present = {each.name for each in folder.iterdir()}
    for name, what in (
        ("adapter_model.safetensors", "a LoRA adapter's weights; name its base model's folder"),
        ("pytorch_model.bin", "weights in pickles; convert them with save_pretrained"),
        ("pytorch_model.bin.index.json", "weights in pickles; convert them with save_pretrained"),
        (
            "consolidated.safetensors",
            "Mistral's own form; take the repository's model-*.safetensors",
        ),
    ):
        if name in present:
            return WeightsError(f"{folder}: {looked}; {name} holds {what}")
    others = sorted(name for name in present if name.endswith(".safetensors"))
    if others:
        return WeightsError(
            f"{folder}: {looked}, only {_some(others)}; rename a single file to {SINGLE}, or copy "
            "the index too"
        )
    return WeightsError(f"{folder}: no weights there: {looked}; `tutti train pocket` makes some")


def _some(names: Iterable[str]) -> str:
    """The first of some names, and how many more."""
    every = list(names)
    more = f" and {len(every) - MAX_NAMED} more" if len(every) > MAX_NAMED else ""
    return ", ".join(every[:MAX_NAMED]) + more
