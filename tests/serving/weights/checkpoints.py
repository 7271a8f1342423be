"""Constructed checkpoints: safetensors, shards of one, GGUF, and a cache of the Hub.

`split_checkpoint` splits any checkpoint of one file, in pure Python.
"""

import hashlib
import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Tensors = Mapping[str, tuple[str, Sequence[int], bytes]]
"""By name: dtype, shape, data."""
CONFIG = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "hidden_size": 32,
}
TENSORS: Tensors = {
    "embed": ("BF16", (4, 8), bytes(range(64))),
    "layer.0": ("F32", (3,), bytes(12)),
    "layer.1": ("F8_E4M3", (5, 1), b"\x07" * 5),
    "scale": ("F32", (), b"\x01\x02\x03\x04"),
}
TENSORS_BYTES = 64 + 12 + 5 + 4


def write_safetensors(path: Path, tensors: Tensors) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [at, at + len(data)],
        }
        at += len(data)
    text = json.dumps(header).encode()
    data = b"".join(data for _, _, data in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def make_checkpoint(folder: Path, tensors: Tensors = TENSORS) -> Path:
    folder.mkdir(parents=True)
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    return folder


def split_checkpoint(folder: Path, out: Path, shards: int) -> Path:
    """Copy a checkpoint of one model.safetensors to `out` as `shards` shards with an index.

    The shards have about equal sizes; all other files are copied. Returns `out`.
    """
    out.mkdir(parents=True)
    for each in folder.iterdir():
        if each.name != "model.safetensors" and each.is_file():
            shutil.copyfile(each, out / each.name)
    with (folder / "model.safetensors").open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        metadata = header.pop("__metadata__", {})
        parts = _parts(sorted(header.items(), key=lambda each: each[1]["data_offsets"]), shards)
        mapping: dict[str, str] = {}
        for number, part in enumerate(parts, start=1):
            name = f"model-{number:05}-of-{shards:05}.safetensors"
            file.seek(8 + length + (part[0][1]["data_offsets"][0] if part else 0))
            _write_part(out / name, part, metadata, file)
            mapping |= {tensor: name for tensor, _ in part}
    size = sum(e["data_offsets"][1] - e["data_offsets"][0] for e in header.values())
    index = {"metadata": {"total_size": size}, "weight_map": mapping}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
    return out


def _parts(tensors: list[tuple[str, Any]], shards: int) -> list[list[tuple[str, Any]]]:
    """Return groups of consecutive tensors of about equal size, none empty if there are enough."""
    total = tensors[-1][1]["data_offsets"][1] if tensors else 0
    parts: list[list[tuple[str, Any]]] = [[]]
    for place, tensor in enumerate(tensors):
        is_full = tensor[1]["data_offsets"][0] >= total * len(parts) / shards
        is_needed_later = len(tensors) - place <= shards - len(parts)
        if parts[-1] and len(parts) < shards and (is_full or is_needed_later):
            parts.append([])
        parts[-1].append(tensor)
    return parts + [[] for _ in range(shards - len(parts))]


def _write_part(path: Path, part: list[tuple[str, Any]], metadata: Any, source: Any) -> None:
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    begin = part[0][1]["data_offsets"][0] if part else 0
    for name, entry in part:
        first, last = entry["data_offsets"]
        header[name] = {**entry, "data_offsets": [first - begin, last - begin]}
    text = json.dumps(header).encode()
    remaining = (part[-1][1]["data_offsets"][1] if part else 0) - begin
    with path.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        while remaining:
            chunk = source.read(min(remaining, 8 << 20))
            out.write(chunk)
            remaining -= len(chunk)


def gguf_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_bytes(
    metadata: Mapping[str, Any], tensors: Mapping[str, tuple[int, Sequence[int], int]]
) -> bytes:
    """Return a GGUF file; `tensors` has by name the type's number, the shape and the data."""
    head, at = b"", 0
    for key, value in metadata.items():
        head += gguf_text(key)
        if isinstance(value, str):
            head += struct.pack("<I", 8) + gguf_text(value)
        elif isinstance(value, list):
            head += struct.pack("<IIQ", 9, 8, len(value))
            head += b"".join(gguf_text(each) for each in value)
        else:
            head += struct.pack("<II", 4, value)
    for name, (kind, shape, size) in tensors.items():
        head += gguf_text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", kind, at)
        at += -(-size // 32) * 32
    start = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)) + head
    return start + bytes(-len(start) % 32) + bytes(at)


def make_cache(cache: Path, name: str, commit: str, folder: Path, branch: str = "main") -> Path:
    """Create a cache of the Hub with the files of `folder` as the snapshot of a commit, and return
    it.

    Blobs of weights are named by their SHA-256, those of small files by Git's hash.
    """
    repository = cache / f"models--{name.replace('/', '--')}"
    for part in ("blobs", "refs", f"snapshots/{commit}"):
        (repository / part).mkdir(parents=True, exist_ok=True)
    (repository / "refs" / branch).write_text(commit)
    for file in folder.iterdir():
        data = file.read_bytes()
        if file.suffix in (".safetensors", ".gguf"):
            blob = hashlib.sha256(data).hexdigest()
        else:
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        (repository / "blobs" / blob).write_bytes(data)
        link = repository / "snapshots" / commit / file.name
        link.symlink_to(f"../../blobs/{blob}")
    return repository / "snapshots" / commit
