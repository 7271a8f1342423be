"""BM25 over words, for queries that dense vectors miss (names, numbers, rare words).

bm25s builds, stores and loads the posting lists, in its "lucene" form, k1 1.5, b 0.75. They are
read here, not by its `retrieve`: only documents that share a word with the query are scored,
filters apply before the top k are taken, and equal scores are ordered by row.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutti.tasks.retrieval.exact import Neighbours, Rows

TOKEN = re.compile(r"\w+")
FOLDER = "bm25"


def tokenize(text: str) -> list[str]:
    """Return lower-case runs of letters, digits and underscores, in every script."""
    return TOKEN.findall(text.lower())


def write_bm25(texts: Iterable[str], folder: Path) -> None:
    """Build posting lists of `texts` (rows in their order) into `folder`."""
    _built(texts).save(folder, show_progress=False)


def _built(texts: Iterable[str]) -> Any:
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # its import sets DEBUG
    words: dict[str, int] = {}
    tokens = [[words.setdefault(word, len(words)) for word in tokenize(text)] for text in texts]
    index = bm25s.BM25(method="lucene")
    if not words:  # the library divides by the mean length; no query can contain this word
        tokens[:1] = [[words.setdefault("", 0)]]
    index.index((tokens, words), show_progress=False)
    return index


class WordIndex:
    """Posting lists; thread-safe."""

    def __init__(self, index: Any) -> None:
        """`index` is bm25s's; `loaded` and `of` create one."""
        self._words: dict[str, int] = index.vocab_dict
        self._scores, self._rows = index.scores["data"], index.scores["indices"]
        self._starts, self._documents = index.scores["indptr"], int(index.scores["num_docs"])

    @classmethod
    def loaded(cls, folder: Path) -> "WordIndex":
        """Load what `write_bm25` wrote into `folder` by memory map."""
        import bm25s

        return cls(bm25s.BM25.load(folder, mmap=True, show_progress=False))

    @classmethod
    def of(cls, texts: Iterable[str]) -> "WordIndex":
        """Build an index in memory, for texts that need none on disk."""
        return cls(_built(texts))

    def best(self, query: str, k: int) -> list[tuple[int, float]]:
        """At most `k` texts that share a word with `query`: (row, score), best first."""
        found = self.search([query], k)
        rows, scores = found.rows[0].tolist(), found.scores[0].tolist()
        return [(row, score) for row, score in zip(rows, scores, strict=True) if row >= 0]

    def search(self, queries: Sequence[str], k: int, rows: Rows | None = None) -> Neighbours:
        """The `k` best rows of each query among `rows` (ascending) that share a word with it."""
        found = Neighbours(
            np.full((len(queries), k), -1, dtype=np.int64),
            np.full((len(queries), k), -np.inf, dtype=np.float32),
        )
        for nth, query in enumerate(queries):
            words = Counter(self._words[word] for word in tokenize(query) if word in self._words)
            sums = np.zeros(self._documents)
            for word, times in words.items():
                span = slice(int(self._starts[word]), int(self._starts[word + 1]))
                sums[self._rows[span]] += times * self._scores[span].astype(np.float64)
            best = np.flatnonzero(sums) if rows is None else rows[sums[rows] > 0]
            scores = sums[best].astype(np.float32)
            if len(best) > k:
                bar = np.partition(scores, -k)[-k]
                kept = scores >= bar
                best, scores = best[kept], scores[kept]
            order = np.lexsort((best, -scores))[:k]
            found.rows[nth, : len(order)] = best[order]
            found.scores[nth, : len(order)] = scores[order]
        return found
