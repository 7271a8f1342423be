"""Files of a checkpoint, and headers of safetensors files, without reading the tensors.

In: a file. Out: the size of each tensor, once the file has the length that its header states. The
format: eight bytes, little-endian, give the length of a JSON object that follows; it names each
tensor's dtype, shape and place in the rest of the file, which they fill without gaps
(https://github.com/huggingface/safetensors, README, "Format").
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from tutti.tasks.platform import explain
from tutti.tasks.serving.errors import WeightsError

SMALL_BYTES = 50_000_000


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Open `path` for reading. Raises WeightsError if it is missing or cannot be read."""
    require_file(path)
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror}") from None


def require_file(path: Path) -> None:
    """Raise WeightsError if there is no file, or only a link to one that is gone."""
    if path.is_file():
        return
    if path.is_symlink():
        raise WeightsError(
            f"{path}: a link to {os.readlink(path)}, which is not there: the download did not end, "
            "or the cache was cleaned; fetch the model again"
        )
    raise WeightsError(f"{path}: no such file; copy or fetch the checkpoint again")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises WeightsError if it is missing or invalid."""
    with opened(path) as file:
        data = file.read()
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{path}: invalid JSON ({error}); fetch the file again") from None
    if not isinstance(content, dict):
        raise WeightsError(f"{path}: a JSON object is expected; fetch the file again")
    return content


def in_gb(size: int) -> str:
    """Format a size in GB (10^9 bytes), or in MB if it is small."""
    return f"{size / 1e9:.1f} GB" if abs(size) >= SMALL_BYTES else f"{size / 1e6:.1f} MB"


LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""
LFS_POINTER = b"version https://git-lfs"
BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Width of a number; the length of a tensor with another dtype is not checked against its shape."""
Natural = Annotated[int, Field(strict=True, ge=0, lt=1 << 63)]


@dataclass(frozen=True)
class TensorEntry:
    """A tensor in a header."""

    dtype: str
    shape: Annotated[list[Natural], Field(max_length=64)]
    data_offsets: Annotated[list[Natural], Field(min_length=2, max_length=2)]


HEADER = TypeAdapter(dict[str, TensorEntry])


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file."""

    bytes: int
    count: int


def read_tensors(path: Path) -> Mapping[str, Tensor]:
    """Return the tensors of a safetensors file by name. Raises WeightsError if the file is missing,
    is not safetensors, or is shorter or longer than its header states."""
    with opened(path) as file:
        size, first = path.stat().st_size, file.read(LENGTH_BYTES)
        if first and LFS_POINTER.startswith(first):
            raise WeightsError(
                f"{path}: a Git LFS pointer instead of the weights; run `git lfs pull` in that "
                "folder"
            )
        length = int.from_bytes(first, "little")
        if len(first) < LENGTH_BYTES or not 2 <= length <= MAX_HEADER_BYTES:
            raise _invalid(path, f"{size:,} bytes, of which its header has {length:,}")
        if size < LENGTH_BYTES + length:
            _check_length(path, size, LENGTH_BYTES + length)
        entries = _entries(path, file.read(length))
    tensors: dict[str, Tensor] = {}
    end = 0
    for name, entry in sorted(entries.items(), key=lambda each: each[1].data_offsets):
        begin, count, bits = entry.data_offsets[0], math.prod(entry.shape), BITS.get(entry.dtype)
        width = entry.data_offsets[1] - begin
        if begin != end or width < 0 or (bits is not None and width * 8 != count * bits):
            raise _invalid(
                path,
                f"tensor {name!r:.80} of {entry.dtype:.20}{entry.shape!s:.80} cannot lie at bytes "
                f"{begin} to {entry.data_offsets[1]}, after {end}",
            )
        tensors[name], end = Tensor(width, count), begin + width
    _check_length(path, size, LENGTH_BYTES + length + end)
    return tensors


def _entries(path: Path, data: bytes) -> dict[str, TensorEntry]:
    try:
        header = json.loads(data)
        if isinstance(header, dict):
            header.pop("__metadata__", None)
        return HEADER.validate_python(header)
    except ValidationError as error:
        raise _invalid(path, f"its header: {explain(error):.300}") from None
    except (ValueError, RecursionError) as error:
        raise _invalid(path, f"its header is no JSON ({error})") from None


def parameters_in(folder: Path) -> int | None:
    """Return the number of parameters in a folder's `model*.safetensors`, by their headers; None
    without such files, or if one is incomplete."""
    files = folder.glob("model*.safetensors")
    try:
        counts = [tensor.count for file in files for tensor in read_tensors(file).values()]
    except WeightsError:
        return None
    return sum(counts) if counts else None


def _check_length(path: Path, size: int, expected: int) -> None:
    if size != expected:
        what = "not downloaded or copied to its end" if size < expected else "damaged"
        least = "at least " if size < expected else ""
        raise WeightsError(
            f"{path}: {size:,} bytes, {least}{expected:,} expected by its header: the file is "
            f"{what}; fetch it again"
        )


def _invalid(path: Path, why: str) -> WeightsError:
    return WeightsError(f"{path}: no safetensors file: {why}; fetch it again or name another")
