"""Files of a checkpoint, and headers of safetensors files, without reading the tensors.

In: a file. Out: the size of each tensor, once the file is proven as long as its header says. The
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
from typing import Any, BinaryIO

from tutti.tasks.serving.errors import WeightsError

SMALL_BYTES = 50_000_000


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """`path`, open for reading. Raises WeightsError where it is missing or cannot be read."""
    require_file(path)
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror}") from None


def require_file(path: Path) -> None:
    """Raises WeightsError where there is no file, or only a link to one that is gone."""
    if path.is_file():
        return
    if path.is_symlink():
        raise WeightsError(
            f"{path}: a link to {os.readlink(path)}, which is not there: the download did not end, "
            "or the cache was cleaned; fetch the model again"
        )
    raise WeightsError(f"{path}: no such file; copy or fetch the checkpoint again")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises WeightsError where it is missing or invalid."""
    with opened(path) as file:
        data = file.read()
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{path}: invalid JSON ({error}); fetch the file again") from None
    if not isinstance(found, dict):
        raise WeightsError(f"{path}: a JSON object is expected; fetch the file again")
    return found


def in_gb(size: int) -> str:
    """A size in GB (10^9 bytes), or in MB where it is small."""
    return f"{size / 1e9:.1f} GB" if abs(size) >= SMALL_BYTES else f"{size / 1e6:.1f} MB"


LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""
MAX_DIMENSIONS = 64
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


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file."""

    bytes: int
    count: int
    """Of its numbers."""


def read_tensors(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a safetensors file by name.

    Raises WeightsError where the file is missing, is none, or is shorter or longer than its header
    says.
    """
    with opened(path) as file:
        size = path.stat().st_size
        header, start = _header(path, file, size)
    tensors: dict[str, Tensor] = {}
    places: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end, count = _place(path, name, entry)
        tensors[name] = Tensor(end - begin, count)
        places.append((begin, end, name))
    filled = 0
    for begin, end, name in sorted(places):
        if begin != filled:
            raise _invalid(path, f"tensor {name!r} begins at byte {begin}, expected at {filled}")
        filled = end
    _check_length(path, size, start + filled)
    return tensors


def parameters_in(folder: Path) -> int | None:
    """The numbers in a folder's `model*.safetensors`, by their headers; None without such files, or
    where one is not whole."""
    files = folder.glob("model*.safetensors")
    try:
        counts = [tensor.count for file in files for tensor in read_tensors(file).values()]
    except WeightsError:
        return None
    return sum(counts) if counts else None


def _header(path: Path, file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The JSON object, and where the tensors' data begin."""
    first = file.read(LENGTH_BYTES)
    if LFS_POINTER.startswith(first) and first:
        raise WeightsError(
            f"{path}: a Git LFS pointer instead of the weights; run `git lfs pull` in that folder"
        )
    if len(first) < LENGTH_BYTES:
        raise _invalid(path, f"it has only {size} bytes")
    length = int.from_bytes(first, "little")
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise _invalid(path, f"it says its header has {length:,} bytes")
    if size < LENGTH_BYTES + length:
        _check_length(path, size, LENGTH_BYTES + length)
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise _invalid(path, f"its header is no JSON ({error})") from None
    if not isinstance(header, dict):
        raise _invalid(path, "its header is no JSON object")
    return header, LENGTH_BYTES + length


def _place(path: Path, name: str, entry: Any) -> tuple[int, int, int]:
    """Where a tensor's data begin and end, and how many numbers they are, checked against its
    shape."""
    try:
        begin, end = entry["data_offsets"]
        dtype, shape = entry["dtype"], entry["shape"]
        known = type(dtype) is str and all(type(each) is int for each in (begin, end, *shape))
    except (TypeError, KeyError, ValueError):
        known = False
    if not known:
        raise _invalid(path, f"tensor {name!r:.80} has no dtype, shape and data_offsets")
    bits = BITS.get(dtype)
    # A shape of larger numbers is none, and their product would take minutes.
    whole = 0 <= begin <= end and len(shape) <= MAX_DIMENSIONS
    count = math.prod(shape) if whole and all(0 <= each < 1 << 63 for each in shape) else -1
    if count < 0 or (bits is not None and (end - begin) * 8 != count * bits):
        what = f"{dtype:.20}{shape!s:.80} cannot lie at bytes {begin!s:.20} to {end!s:.20}"
        raise _invalid(path, f"tensor {name!r:.80}: {what}")
    return begin, end, count


def _check_length(path: Path, size: int, expected: int) -> None:
    if size < expected:
        raise WeightsError(
            f"{path}: {size:,} bytes, at least {expected:,} expected: the file was not downloaded "
            "or copied to its end; fetch it again"
        )
    if size > expected:
        raise WeightsError(
            f"{path}: {size:,} bytes, {expected:,} expected by its header: the file is damaged; "
            "fetch it again"
        )


def _invalid(path: Path, why: str) -> WeightsError:
    return WeightsError(f"{path}: no safetensors file: {why}; fetch it again or name another")
