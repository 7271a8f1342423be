"""The interface of embedders, the local one, and texts compared by it.

In: texts. Out: float32 vectors of unit length. The local embedder hashes words and character
n-grams with IDF: queries here are mostly identifiers and match by their parts, so a few thousand
short documents need no model and no download.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
DOTTED = re.compile(r"[A-Za-z_][\w.]*\w|[A-Za-z_]")
NGRAM = 3
DIMENSIONS = 1024
NAME = "hashed-ngrams-2"
FIT_TEXTS = 4_096  # texts counted at a time while learning weights


class Embedder(Protocol):
    """Turns texts into unit vectors; pickled for workers, identified by its description."""

    @property
    def dimensions(self) -> int: ...

    def describe(self) -> dict[str, Any]:
        """Its identity, a part of an index's id."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape [len(texts), dimensions], unit length. Raises EmbedderFailed."""
        ...

    def save(self, folder: Path) -> None:
        """Write the files that an index needs to embed queries in the same way."""
        ...


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

    dimensions = DIMENSIONS

    def __init__(self, idf: NDArray[np.float32]) -> None:
        # This import would take two thirds of the service's start, even if nothing is embedded.
        from sklearn.feature_extraction.text import HashingVectorizer

        self.idf = idf
        self._vectorizer = HashingVectorizer(
            analyzer=_features, n_features=DIMENSIONS, norm=None, alternate_sign=True
        )

    @classmethod
    def fit(cls, texts: Iterable[str]) -> "HashedNgrams":
        """Learn IDF weights: ``ln((1 + n) / (1 + df)) + 1`` (scikit-learn's smoothed form)."""
        embedder = cls(np.ones(DIMENSIONS, dtype=np.float32))
        frequency, total, rest = np.zeros(DIMENSIONS, dtype=np.int64), 0, iter(texts)
        while part := list(islice(rest, FIT_TEXTS)):
            counts = embedder._vectorizer.transform(part)
            frequency += np.asarray((counts != 0).sum(axis=0)).ravel()
            total += len(part)
        embedder.idf = (np.log((1 + total) / (1 + frequency)) + 1).astype(np.float32)
        return embedder

    def describe(self) -> dict[str, Any]:
        return {"kind": NAME}

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape [len(texts), 1024], unit length (zero for a text without words)."""
        counts = self._vectorizer.transform(texts).toarray()
        weighted = np.sign(counts) * np.log1p(np.abs(counts)) * self.idf
        norms = np.linalg.norm(weighted, axis=1, keepdims=True)
        return np.ascontiguousarray(weighted / np.maximum(norms, 1e-9), dtype=np.float32)

    def save(self, folder: Path) -> None:
        np.save(folder / "idf.npy", self.idf)

    @classmethod
    def load(cls, folder: Path) -> "HashedNgrams":
        """Load the embedder with which an index was built. Raises FileNotFoundError."""
        return cls(np.load(folder / "idf.npy"))


AT_ONCE = 1_024


class NearnessIndex:
    """Texts embedded once for comparison with others; only they determine the weights."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._embedder = HashedNgrams.fit(texts)
        parts = [texts[first : first + AT_ONCE] for first in range(0, len(texts), AT_ONCE)]
        self._known = np.concatenate([self._embedder.embed(part) for part in parts])

    def nearest(self, text: str, most: int) -> list[tuple[int, float]]:
        """Return the indices of the nearest texts with their cosines, nearest first."""
        cosines = self._known @ self._embedder.embed([text])[0]
        order = np.argsort(-cosines, kind="stable")[:most]
        return [(int(place), float(cosines[place])) for place in order]
