"""Loading and searching an index over documents: for each query its best documents, with scores and
their rank in each ranking. Loading maps files into memory and reads almost nothing.

A flat index is searched exactly; ivf and hnsw are searched approximately by FAISS. A search with a
filter is exact for every kind: the filter applies before the top k are taken.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tutti.tasks.retrieval import bm25
from tutti.tasks.retrieval.ann import Ann
from tutti.tasks.retrieval.bm25 import WordIndex
from tutti.tasks.retrieval.build import MANIFEST, VECTORS, build_index
from tutti.tasks.retrieval.embedder import NAME, Embedder, HashedNgrams, Vectors
from tutti.tasks.retrieval.endpoint import EndpointEmbedder
from tutti.tasks.retrieval.exact import Neighbours, Rows, search_exact
from tutti.tasks.retrieval.foreign import Links, open_foreign
from tutti.tasks.retrieval.passage import Passage, PassageStore
from tutti.tasks.retrieval.spec import IndexSpec

RANK_CONSTANT = 60


def fuse_ranks(rankings: Sequence[Sequence[int]], k: int) -> list[tuple[int, float]]:
    """The `k` best (row, score) over `rankings` of rows, best first; equal scores by row."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, 1):
            scores[row] = scores.get(row, 0.0) + 1 / (RANK_CONSTANT + rank)
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


__all__ = ["Hit", "Index", "Mode", "build_index", "read_manifest"]

Mode = Literal["dense", "words", "fused"]  # by vectors, by BM25, or by both rankings fused

FUSED_DEPTH = 50  # least number of ranks of each ranking that are fused
FUSED_PER_HIT = 4


@dataclass(frozen=True)
class Hit:
    """One search result."""

    document: Passage
    score: float  # inner product (dense), BM25 (words) or the sum of reciprocal ranks (fused)
    row: int = -1  # its row in the index; -1 if it is not from the index
    ranks: Mapping[str, int] = field(default_factory=dict)  # its rank, from 1, in each ranking


class Index:
    """A loaded index; `search` is thread-safe unless FAISS uses a GPU."""

    def __init__(self, folder: Path, embedder: Embedder | None = None, gpus: int = 0) -> None:
        """`embedder` replaces the index's own; `gpus`: GPUs that the caller holds."""
        self.manifest = read_manifest(folder)
        self.index_id: str = self.manifest["index_id"]
        self.spec = IndexSpec(**self.manifest["spec"])
        self.embedder = embedder or _load_embedder(folder, self.manifest["embedder"])
        links = Links.load(folder)
        if links is None:
            self.documents = PassageStore(folder)
            vectors: Vectors = np.load(folder / VECTORS, mmap_mode="r")
            self._vectors: Vectors | None = vectors
            self._ann = Ann.load(folder, self.spec, vectors, gpus)
        else:
            self.documents = PassageStore(folder, links.documents.checked())
            foreign = open_foreign(links.vectors.checked())
            self._vectors, self._ann = foreign.vectors, foreign.searcher(self.spec, gpus)
        self._words = WordIndex.loaded(folder / bm25.FOLDER) if self.spec.words else None

    @property
    def vectors(self) -> Vectors:
        """All its vectors [n, d], mapped. Raises ValueError if an imported index has none."""
        if self._vectors is None:
            raise ValueError(f"{self.index_id} was imported without plain vectors")
        return self._vectors

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The rankings it has; the first is the default."""
        return ("fused", "dense", "words") if self._words else ("dense",)

    def search(
        self,
        queries: Sequence[str],
        k: int,
        mode: Mode | None = None,
        rows: Rows | None = None,
        approximate: bool = False,
    ) -> list[list[Hit]]:
        """Return the `k` best documents of each query, best first, equal scores by row.

        `rows` (ascending) limits the search; exactly, unless `approximate` leaves it to FAISS.
        Raises ValueError for a mode that the index lacks, EmbedderFailed.
        """
        mode = mode or self.modes[0]
        if mode not in self.modes:
            raise ValueError(f"the index has no {mode!r} ranking; it has: {', '.join(self.modes)}")
        depth = k if mode != "fused" else max(FUSED_DEPTH, FUSED_PER_HIT * k)
        found: dict[str, Neighbours] = {}
        if mode != "words":
            texts = [self.spec.query_template.format(query=query) for query in queries]
            found["dense"] = self.nearest(self.embedder.embed(texts), depth, rows, approximate)
        if mode != "dense":
            assert self._words is not None, "this mode needs a word index"
            found["words"] = self._words.search(queries, depth, rows)
        return [self._hits(nth, found, k) for nth in range(len(queries))]

    def nearest(
        self, vectors: Vectors, k: int, rows: Rows | None = None, approximate: bool = False
    ) -> Neighbours:
        """Return the `k` nearest rows of each unit vector [q, dimensions], filtered as in `search`.
        An imported index without plain vectors filters as exactly as FAISS can."""
        ann, given = self._ann, rows is not None
        exactly = ann is None or (given and not (approximate and ann.filters))
        exactly = exactly or (ann is not None and ann.most is not None and k > ann.most)
        if self._vectors is not None and exactly:
            return search_exact(vectors, self._vectors, k, rows)
        assert ann is not None, "an index has plain vectors or is searched by FAISS"
        return ann.search(vectors, k, rows)

    def _hits(self, nth: int, found: Mapping[str, Neighbours], k: int) -> list[Hit]:
        rankings = {name: _ranking(part, nth) for name, part in found.items()}
        if len(rankings) == 1:
            best = next(iter(rankings.values()))[:k]
        else:
            best = fuse_ranks([[row for row, _ in ranking] for ranking in rankings.values()], k)
        places = {
            name: {row: rank for rank, (row, _) in enumerate(ranking, 1)}
            for name, ranking in rankings.items()
        }
        return [
            Hit(
                self.documents[row],
                score,
                row,
                {name: place[row] for name, place in places.items() if row in place},
            )
            for row, score in best
        ]


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest in an index's folder: ids, parameters, recall. Raises FileNotFoundError."""
    file = folder / MANIFEST
    if not file.is_file():
        raise FileNotFoundError(f"{folder} holds no index ({MANIFEST} is missing)")
    manifest: dict[str, Any] = json.loads(file.read_text())
    return manifest


def _load_embedder(folder: Path, described: Mapping[str, Any]) -> Embedder:
    kind = described["kind"]
    if kind == NAME:
        return HashedNgrams.load(folder)
    if kind == "endpoint":
        return EndpointEmbedder.load(folder)
    raise ValueError(f"{folder} was embedded by {kind!r}, which must be passed to search it")


def _ranking(found: Neighbours, nth: int) -> list[tuple[int, float]]:
    pairs = zip(found.rows[nth].tolist(), found.scores[nth].tolist(), strict=True)
    return [(row, score) for row, score in pairs if row >= 0]
