"""The local embedder: hashed words and character n-grams with IDF weights. No model, no download.

Identifiers are what is searched for here, and their pieces are what matches; a few thousand short
documents need no more. In: texts. Out: float32 vectors of unit length.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

Vectors = NDArray[np.float32]
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
DOTTED = re.compile(r"[A-Za-z_][\w.]*\w|[A-Za-z_]")
NGRAM = 3
DIMENSIONS = 1024
NAME = "hashed-ngrams-2"


def _features(text: str) -> Iterator[str]:
    for name in DOTTED.findall(text):
        parts = name.split(".")
        # A class shares every part of its name with its methods; only the whole name and the last
        # part tell them apart, so those count several times.
        yield from (f"{nth}={name}" for nth in range(3))
        yield from (f"{nth}@{parts[-1]}" for nth in range(3))
        yield from (f".{part}" for part in parts)
        for word in WORD.findall(name):
            lower = f"<{word.lower()}>"
            yield lower
            for start in range(len(lower) - NGRAM + 1):
                yield lower[start : start + NGRAM]


class HashedNgrams:
    """Embeds by signed feature hashing into 1,024 dimensions, weighted by the corpus's IDF."""

    def __init__(self, idf: NDArray[np.float32]) -> None:
        self.idf = idf
        self._vectorizer = HashingVectorizer(
            analyzer=_features, n_features=DIMENSIONS, norm=None, alternate_sign=True
        )

    @classmethod
    def fit(cls, texts: Sequence[str]) -> "HashedNgrams":
        """Learn IDF weights: ``ln((1 + n) / (1 + df)) + 1`` (scikit-learn's smoothed form)."""
        embedder = cls(np.ones(DIMENSIONS, dtype=np.float32))
        counts = embedder._vectorizer.transform(texts)
        frequency = np.asarray((counts != 0).sum(axis=0)).ravel()
        embedder.idf = (np.log((1 + len(texts)) / (1 + frequency)) + 1).astype(np.float32)
        return embedder

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape [len(texts), 1024], unit length (zero for a text without words)."""
        counts = self._vectorizer.transform(texts).toarray()
        weighted = np.sign(counts) * np.log1p(np.abs(counts)) * self.idf
        norms = np.linalg.norm(weighted, axis=1, keepdims=True)
        return np.ascontiguousarray(weighted / np.maximum(norms, 1e-9), dtype=np.float32)

    def save(self, folder: Path) -> None:
        """Write what `load` needs."""
        np.save(folder / "idf.npy", self.idf)

    @classmethod
    def load(cls, folder: Path) -> "HashedNgrams":
        """The embedder an index was built with. Raises FileNotFoundError."""
        return cls(np.load(folder / "idf.npy"))
