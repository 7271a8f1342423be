"""A slow build, for tests that kill it.

Run: ``python -m tests.retrieval.slow_build HOME``. In: a store. Out: the index of 60 passages in
shards of 4, each embedded after a pause.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.retrieval.vectors import passages
from tutti.storage import Catalog, Home
from tutti.tasks.retrieval.build import build_index
from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.spec import IndexSpec

PASSAGES = 60
SPEC = IndexSpec(kind="ivf", words=True, shard_documents=4)
DIMENSIONS = 16


class LetterCounts:
    """Embedder that counts letters, identified by its name regardless of its pause; records the
    number of embedded texts."""

    dimensions = DIMENSIONS

    def __init__(self, pause_s: float = 0.0) -> None:
        self.pause_s, self.embedded = pause_s, 0

    def describe(self) -> dict[str, Any]:
        return {"kind": "letters"}

    def save(self, folder: Path) -> None:
        """Do nothing, as there is no state."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors."""
        time.sleep(self.pause_s)
        self.embedded += len(texts)
        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            np.add.at(row, [ord(letter) % DIMENSIONS for letter in text], 1)
        unit: Vectors = rows / np.maximum(
            np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-9)
        )
        return unit


if __name__ == "__main__":
    with Catalog(Home(Path(sys.argv[1]))) as store:
        build_index(passages(PASSAGES), store, SPEC, LetterCounts(pause_s=0.15))
