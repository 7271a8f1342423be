"""Headers of GGUF files: their metadata, and the size of each tensor.

In: a file. Out: its metadata (long arrays left out) and its tensors, once the file is proven to
reach as far as its tensors. The format is that of ggml's docs/gguf.md, versions 2 and 3; the sizes
of quantised blocks are those of gguf-py's GGML_QUANT_SIZES (0.19).
"""

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.tensor_files import Tensor, opened

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""By a type's number, its letter for `struct`."""
STRING, ARRAY = 8, 9
MAX_STRING_BYTES = 64 << 20
MAX_KEPT_ITEMS = 4096
"""Longer arrays are those of the vocabulary; the others hold one value a layer."""
MAX_DIMENSIONS = 8
ALIGNMENT = 32
PART = re.compile(r"^(?P<name>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf$")
BLOCKS = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    6: (32, 22),  # Q5_0
    7: (32, 24),  # Q5_1
    8: (32, 34),  # Q8_0
    9: (32, 40),  # Q8_1
    10: (256, 84),  # Q2_K
    11: (256, 110),  # Q3_K
    12: (256, 144),  # Q4_K
    13: (256, 176),  # Q5_K
    14: (256, 210),  # Q6_K
    15: (256, 292),  # Q8_K
    16: (256, 66),  # IQ2_XXS
    17: (256, 74),  # IQ2_XS
    18: (256, 98),  # IQ3_XXS
    19: (256, 50),  # IQ1_S
    20: (32, 18),  # IQ4_NL
    21: (256, 110),  # IQ3_S
    22: (256, 82),  # IQ2_S
    23: (256, 136),  # IQ4_XS
    24: (1, 1),  # I8
    25: (1, 2),  # I16
    26: (1, 4),  # I32
    27: (1, 8),  # I64
    28: (1, 8),  # F64
    29: (256, 56),  # IQ1_M
    30: (1, 2),  # BF16
    34: (256, 54),  # TQ1_0
    35: (256, 66),  # TQ2_0
    39: (32, 17),  # MXFP4
    40: (64, 36),  # NVFP4
    41: (128, 18),  # Q1_0
}
"""By a type's number: the numbers of a block, and its bytes."""


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says of itself."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def read_gguf(path: Path) -> GgufHeader:
    """The header of a GGUF file. Raises WeightsError where it is none, or ends too soon."""
    with opened(path) as file:
        return _Reader(path, file, path.stat().st_size).header()


def parts_of(path: Path) -> list[Path]:
    """All parts of a model in several files, of which `path` is one; else `path` alone."""
    found = PART.match(path.name)
    if found is None:
        return [path]
    name, parts = found["name"], int(found["parts"])
    return [path.with_name(f"{name}-{k:05}-of-{parts:05}.gguf") for k in range(1, parts + 1)]


def config_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config.json that GGUF metadata imply, by the names that transformers uses."""
    family = metadata.get("general.architecture")
    if not isinstance(family, str):
        return {}
    names = {
        "num_hidden_layers": "block_count",
        "hidden_size": "embedding_length",
        "num_attention_heads": "attention.head_count",
        "num_key_value_heads": "attention.head_count_kv",
        "head_dim": "attention.key_length",
        "v_head_dim": "attention.value_length",
        "kv_lora_rank": "attention.kv_lora_rank",
        "qk_rope_head_dim": "rope.dimension_count",
        "sliding_window": "attention.sliding_window",
        "max_position_embeddings": "context_length",
        "vocab_size": "vocab_size",
    }
    found = {ours: metadata.get(f"{family}.{theirs}") for ours, theirs in names.items()}
    found = {name: value for name, value in found.items() if value is not None}
    if "kv_lora_rank" not in found:
        found.pop("qk_rope_head_dim", None)  # without latent attention it is another thing
    return {"model_type": family, **found} if found else {}


class _Reader:
    """Reads one header, refusing what ends too soon."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path, self.file, self.size = path, file, size

    def header(self) -> GgufHeader:
        if self.take(4) != MAGIC:
            raise self.invalid("it does not begin with GGUF")
        (version,) = self.numbers("I")
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise self.invalid(f"its version is {version}, known are {known}")
        tensors, keys = self.numbers("QQ")
        metadata = {}
        for _ in range(keys):
            key = self.string()
            metadata[key] = self.value(*self.numbers("I"))
        return GgufHeader(metadata, self.tensors(tensors, metadata))

    def tensors(self, count: int, metadata: Mapping[str, Any]) -> Mapping[str, Tensor]:
        found: dict[str, Tensor] = {}
        last = 0
        for _ in range(count):
            name = self.string()
            (dimensions,) = self.numbers("I")
            if dimensions > MAX_DIMENSIONS:
                raise self.invalid(f"tensor {name!r} has {dimensions} dimensions")
            shape = self.numbers("Q" * dimensions)
            kind, offset = self.numbers("IQ")
            if kind not in BLOCKS:
                raise self.invalid(f"tensor {name!r} has the unknown type {kind}")
            block, size = BLOCKS[kind]
            found[name] = Tensor(math.prod(shape) // block * size, math.prod(shape))
            last = max(last, offset + found[name].bytes)
        align = metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(align, int) or align < 1:
            raise self.invalid(f"general.alignment is {align!r}")
        start = -(-self.file.tell() // align) * align
        self.reaches(start + last if count else self.file.tell())
        return found

    def value(self, kind: int) -> Any:
        """One value; None for an array that is too long to be kept."""
        if kind in SCALARS:
            return self.numbers(SCALARS[kind])[0]
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            raise self.invalid(f"a value has the unknown type {kind}")
        items, count = self.numbers("IQ")
        if items == ARRAY:
            raise self.invalid("an array of arrays")
        if items in SCALARS and count > MAX_KEPT_ITEMS:
            self.skip(count * struct.calcsize(f"<{SCALARS[items]}"))
            return None
        kept = [self.value(items) for _ in range(count)]
        return kept if count <= MAX_KEPT_ITEMS else None

    def string(self) -> str:
        (length,) = self.numbers("Q")
        if length > MAX_STRING_BYTES:
            raise self.invalid(f"a text in its header has {length:,} bytes")
        return self.take(length).decode(errors="replace")

    def numbers(self, form: str) -> tuple[Any, ...]:
        form = f"<{form}"
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def take(self, count: int) -> bytes:
        self.reaches(self.file.tell() + count)
        return self.file.read(count)

    def skip(self, count: int) -> None:
        self.reaches(self.file.tell() + count)
        self.file.seek(count, 1)

    def reaches(self, expected: int) -> None:
        if self.size < expected:
            raise WeightsError(
                f"{self.path}: {self.size:,} bytes, at least {expected:,} expected: the file was "
                "not downloaded or copied to its end; fetch it again"
            )

    def invalid(self, why: str) -> WeightsError:
        return WeightsError(f"{self.path}: no GGUF file: {why}; fetch it again or name another")
