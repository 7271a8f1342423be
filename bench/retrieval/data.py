"""Made-up vectors for the retrieval bench: clustered, as embeddings are, and seeded.

In: how many. Out: ``vectors.npy`` and ``queries.npy`` in a folder, an embedder that looks texts up
in them, and the passages that carry those texts. 20,000 centres lie around 400 of their own; a
vector lies around a centre with a cosine of about 0.8. Queries are more such vectors, none of them
stored. Rows are drawn block by block: no more than a block is in memory.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.passage import Passage

DIMENSIONS = 384
BLOCK = 16_384
TOP_CENTRES, CENTRES = 400, 20_000
NEAR = 0.75  # noise beside a centre of length 1: a cosine of 1 / sqrt(1 + 0.75 ** 2) = 0.8
SEED = 20_26
WORDS = 4_000
WORDS_A_TEXT = 60


def _unit(vectors: NDArray[np.float32]) -> Vectors:
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _around(centres: Vectors, which: NDArray[np.int64], draw: np.random.Generator) -> Vectors:
    noise = draw.standard_normal((len(which), DIMENSIONS), dtype=np.float32)
    return _unit(centres[which] + noise * np.float32(NEAR / DIMENSIONS**0.5))


def write_vectors(folder: Path, count: int, queries: int) -> None:
    """Write `count` vectors and so many queries; the same seeds give the same bytes."""
    draw = np.random.default_rng(SEED)
    top = _unit(draw.standard_normal((TOP_CENTRES, DIMENSIONS), dtype=np.float32))
    centres = _around(top, draw.integers(0, TOP_CENTRES, CENTRES), draw)
    for name, rows in (("vectors", count), ("queries", queries)):
        shape = (rows, DIMENSIONS)
        file = np.lib.format.open_memmap(
            folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=shape
        )
        for start in range(0, rows, BLOCK):
            stop = min(start + BLOCK, rows)
            file[start:stop] = _around(centres, draw.integers(0, CENTRES, stop - start), draw)
        file.flush()


@functools.cache
def _opened(path: Path) -> Vectors:
    table: Vectors = np.asarray(np.load(path, mmap_mode="r"))
    return table


@dataclass(frozen=True)
class TableEmbedder:
    """Looks up ``vectors N`` and ``queries N`` in the files of those names, at negligible cost."""

    folder: Path
    dimensions: int = DIMENSIONS

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"kind": "table"}

    def save(self, folder: Path) -> None:
        """Its files stay where they are."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors that the texts refer to."""
        name = texts[0].partition(" ")[0]
        table = _opened(self.folder / f"{name}.npy")
        rows = [int(text.partition(" ")[2]) for text in texts]
        found: Vectors = np.ascontiguousarray(table[rows])
        return found


@dataclass(frozen=True)
class Numbered(Sequence[Passage]):
    """`total` passages that refer to their vectors, made on demand."""

    total: int

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, row: Any) -> Any:
        """One passage."""
        if not 0 <= row < self.total:
            raise IndexError(row)
        return Passage(f"d{row}", f"vectors {row}", source=f"book{row // 8}", position=row % 8)


def texts(count: int) -> Iterator[Passage]:
    """Passages of 60 words whose frequencies fall as in a language (Zipf), for builds."""
    draw = np.random.default_rng(SEED)
    weights = 1 / np.arange(1, WORDS + 1)
    for row in range(count):
        words = draw.choice(WORDS, WORDS_A_TEXT, p=weights / weights.sum())
        text = " ".join(f"word{word}" for word in words.tolist())
        yield Passage(f"d{row}", text, title=f"Title {row}")
