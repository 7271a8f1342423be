"""Approximate search with FAISS: inverted lists or a graph, over the vectors of an index.

In: unit vectors and an `IndexSpec`. Out: ``index.faiss``, loaded by memory map; rows and scores by
inner product. TUTTI_SEARCH_GPUS is the number of GPUs for a search: inverted lists use the first
visible one, flat indexes all. A flat index has no FAISS file: on the CPU `exact` searches the
vectors, on a GPU FAISS's Flat.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from tutti.storage import replacing
from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.errors import RetrievalError
from tutti.tasks.retrieval.exact import Neighbours, Rows
from tutti.tasks.retrieval.spec import IndexSpec

FILE, TRAINED = "index.faiss", "trained.faiss"
ADD_ROWS = 65_536
LISTS_PER_ROOT = 4  # FAISS's own advice: 4 to 16 times the root of the number of vectors
TRAIN_PER_LIST = 40  # least vectors per list in training: FAISS warns below 39
TRAIN_ROUNDS = 10
TRAIN_SEED = 1234
# FAISS uses BLAS only if queries x dimensions exceed a limit, by default 128,000: without it, 256
# queries of 384 dimensions found their lists at a fifth of the rate. From 4 queries on BLAS is
# faster.
BLAS_FROM_QUERIES = 4

GPUS = "TUTTI_SEARCH_GPUS"  # GPUs that a search takes; none where it is not set
GPU_MOST = 2_048  # FAISS on a GPU returns no more neighbours, and scans no more lists

Advance = Callable[[int, int], None]  # called with the number of vectors added and their total


def list_count(spec: IndexSpec, documents: int) -> int:
    """Number of inverted lists: the requested number, but no more than can be trained."""
    wanted = spec.lists or LISTS_PER_ROOT * int(documents**0.5)
    return max(1, min(wanted, documents // TRAIN_PER_LIST))


def write_ann(vectors: Vectors, spec: IndexSpec, folder: Path, advance: Advance) -> None:
    """Build ``index.faiss`` in `folder`, nothing for flat; a killed build does not train again."""
    if spec.kind == "flat" or (folder / FILE).exists():
        return
    if not (folder / TRAINED).exists():
        _write(_trained(vectors, spec), folder / TRAINED)
    index = faiss.read_index(str(folder / TRAINED))
    for start in range(0, len(vectors), ADD_ROWS):
        index.add(np.ascontiguousarray(vectors[start : start + ADD_ROWS]))
        advance(min(start + ADD_ROWS, len(vectors)), len(vectors))
    _write(index, folder / FILE)
    (folder / TRAINED).unlink()


def _trained(vectors: Vectors, spec: IndexSpec) -> Any:
    count, dimensions = vectors.shape
    metric = faiss.METRIC_INNER_PRODUCT
    if spec.kind == "hnsw":
        index: Any = faiss.IndexHNSWFlat(dimensions, spec.links, metric)
        index.hnsw.efConstruction = spec.build_depth
        return index
    lists = list_count(spec, count)
    index = faiss.index_factory(dimensions, f"IVF{lists},Flat", metric)
    index.cp.niter, index.cp.seed = TRAIN_ROUNDS, TRAIN_SEED
    index.cp.spherical = True
    sample = np.random.default_rng(TRAIN_SEED).permutation(count)[: lists * TRAIN_PER_LIST]
    # A sample smaller than FAISS recommends is intended for tiny corpora; its warning is
    # suppressed.
    index.cp.min_points_per_centroid = 1
    index.train(np.ascontiguousarray(vectors[np.sort(sample)]))
    return index


def _write(index: Any, path: Path) -> None:
    with replacing(path) as staging:
        faiss.write_index(index, str(staging))


def gpu_count() -> int:
    """The number of GPUs for searches. Raises RetrievalError for too many, or for no number."""
    asked = os.environ.get(GPUS, "").strip() or "0"
    if not asked.isdecimal():
        raise RetrievalError(f"{GPUS}: {asked!r} is not a number of GPUs")
    built = hasattr(faiss, "StandardGpuResources")
    there = int(faiss.get_num_gpus()) if built else 0
    if int(asked) > there:
        why = f"FAISS sees {there}" if built else "the FAISS that is installed is for the CPU only"
        raise RetrievalError(
            f"{GPUS}={asked}, and {why}; unset it, or install deployments/faiss-gpu.txt"
        )
    return int(asked)


def limit_threads(count: int) -> None:
    """Let searches in the calling thread use `count` threads each: OpenMP counts per thread."""
    from threadpoolctl import threadpool_limits

    faiss.omp_set_num_threads(count)
    threadpool_limits(count)


class Ann:
    """A loaded FAISS index. It is not thread-safe on a GPU."""

    def __init__(
        self, index: Any, spec: IndexSpec, on_gpu: bool = False, distances: bool = False
    ) -> None:
        """`distances`: the index returns squared distances of unit vectors, not inner products."""
        self._index, self._spec, self._distances = index, spec, distances
        self.filters = (
            not on_gpu
        )  # whether a search can be limited to rows: FAISS filters on CPUs only
        self.most = GPU_MOST if on_gpu else None  # neighbours at most; None for any number

    @classmethod
    def load(cls, folder: Path, spec: IndexSpec, vectors: Vectors, gpus: int = 0) -> "Ann | None":
        """Load the index of a folder; None for flat without a GPU.

        `gpus`: GPUs that the caller holds; a graph is searched on the CPU. Sets, for the whole
        process, the number of queries from which FAISS uses BLAS.
        """
        if spec.kind == "flat":
            if not gpus:
                return None
            flat = faiss.IndexFlatIP(vectors.shape[1])
            flat.add(np.ascontiguousarray(vectors))
            return cls.over(flat, spec, gpus)
        faiss.cvar.distance_compute_blas_threshold = BLAS_FROM_QUERIES * vectors.shape[1]
        index: Any = faiss.read_index(str(folder / FILE), faiss.IO_FLAG_MMAP_IFC)
        return cls.over(index, spec, gpus)

    @classmethod
    def over(cls, index: Any, spec: IndexSpec, gpus: int = 0, distances: bool = False) -> "Ann":
        """Search with a FAISS index of `spec`'s kind, on `gpus` GPUs if it is no graph."""
        if spec.kind == "ivf":
            index.nprobe = min(spec.probes, GPU_MOST) if gpus else spec.probes
        if gpus and spec.kind != "hnsw":
            library: Any = faiss  # the stubs are those of the CPU's package
            if spec.kind == "flat":
                index = library.index_cpu_to_all_gpus(index, ngpu=gpus)
            else:
                index = library.index_cpu_to_gpu(library.StandardGpuResources(), 0, index)
            return cls(index, spec, on_gpu=True, distances=distances)
        if spec.kind == "hnsw":
            index.hnsw.efSearch = spec.search_depth
        return cls(index, spec, distances=distances)

    def search(self, queries: Vectors, k: int, rows: Rows | None = None) -> Neighbours:
        """Approximately the `k` best rows of each query among `rows`, equal scores by row."""
        parameters = None if rows is None else self._limited(rows)
        scores, found = self._index.search(np.ascontiguousarray(queries), k, params=parameters)
        if self._distances:  # of unit vectors: |a - b|^2 = 2 - 2 a.b
            scores = 1 - scores / 2
        scores = np.where(found < 0, np.float32(-np.inf), scores)
        order = np.lexsort((found, -scores))
        return Neighbours(
            np.take_along_axis(found, order, axis=1), np.take_along_axis(scores, order, axis=1)
        )

    def _limited(self, rows: Rows) -> Any:
        library: Any = faiss  # its type stubs lack keyword arguments
        selector = library.IDSelectorBatch(rows)
        if self._spec.kind == "hnsw":
            return library.SearchParametersHNSW(sel=selector, efSearch=self._spec.search_depth)
        if self._spec.kind == "ivf":
            return library.SearchParametersIVF(sel=selector, nprobe=self._spec.probes)
        return library.SearchParameters(sel=selector)
