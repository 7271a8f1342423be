"""Tests of inverted lists and graphs: recall, filters, resumed builds, and independence of GPUs."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from tests.retrieval.vectors import clustered
from tutti.tasks.retrieval import ann
from tutti.tasks.retrieval.ann import Ann, gpu_count, list_count, write_ann
from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.errors import RetrievalError
from tutti.tasks.retrieval.exact import search_exact
from tutti.tasks.retrieval.probe import overlap_share
from tutti.tasks.retrieval.spec import IndexSpec

VECTORS, QUERIES = clustered(4_000), clustered(50, seed=7)


def built(spec: IndexSpec, folder: Path) -> Ann:
    """Return an index of VECTORS, loaded from `folder`."""
    write_ann(VECTORS, spec, folder, lambda done, total: None)
    loaded = Ann.load(folder, spec, VECTORS, gpu_count())
    assert loaded is not None
    return loaded


@pytest.mark.parametrize(
    "spec", [IndexSpec(kind="ivf"), IndexSpec(kind="hnsw")], ids=["ivf", "hnsw"]
)
def test_most_of_the_exact_best_are_found(spec: IndexSpec, tmp_path: Path) -> None:
    """Results are ordered best first, equal scores by row."""
    found = built(spec, tmp_path).search(QUERIES, 10)
    assert overlap_share(search_exact(QUERIES, VECTORS, 10), found) >= 0.9
    assert (np.diff(found.scores, axis=1) <= 0).all()


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_an_approximate_filter_gives_only_what_it_allows(kind: str, tmp_path: Path) -> None:
    rows = np.arange(0, len(VECTORS), 3)
    found = built(IndexSpec(kind=kind), tmp_path).search(QUERIES, 5, rows)
    assert set(found.rows.ravel().tolist()) <= {*rows.tolist(), -1}
    assert (found.rows >= 0).any()


def test_a_build_killed_while_adding_does_not_train_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second build continues with the trained index of the first and gives the same bytes."""
    spec = IndexSpec(kind="ivf")

    def killed(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_ann(VECTORS, spec, tmp_path, killed)
    assert (tmp_path / ann.TRAINED).exists() and not (tmp_path / ann.FILE).exists()
    with monkeypatch.context() as patched:
        patched.setattr(ann, "_trained", None)
        write_ann(VECTORS, spec, tmp_path, lambda done, total: None)
    whole = tmp_path / "whole"
    whole.mkdir()
    write_ann(VECTORS, spec, whole, lambda done, total: None)
    assert (tmp_path / ann.FILE).read_bytes() == (whole / ann.FILE).read_bytes()
    assert not list(tmp_path.glob("*.tmp"))


def test_lists_are_no_more_than_can_be_trained() -> None:
    assert list_count(IndexSpec(kind="ivf"), 1_000_000) == 4_000
    assert list_count(IndexSpec(kind="ivf", lists=4_096), 1_000) == 25
    assert list_count(IndexSpec(kind="ivf"), 3) == 1


class GpuIndex:
    """FAISS index on a GPU: it has no filters and a limit on the number of results."""

    def __init__(self, index: Any, cards: list[int]) -> None:
        self.index, self.cards = index, cards
        self.searches = 0

    def search(self, queries: Vectors, k: int, params: Any = None) -> Any:
        """Search as FAISS does, on the CPU."""
        assert params is None and k <= ann.GPU_MOST
        self.searches += 1
        return self.index.search(queries, k)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[GpuIndex]:
    """Install a fake of FAISS for GPUs on a machine with two and return the indexes passed to
    it."""
    given: list[GpuIndex] = []

    def to_gpu(resources: object, card: int, index: Any) -> GpuIndex:
        given.append(GpuIndex(index, [card]))
        return given[-1]

    def to_all(index: Any, ngpu: int) -> GpuIndex:
        given.append(GpuIndex(index, list(range(ngpu))))
        return given[-1]

    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 2, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", to_gpu, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", to_all, raising=False)
    monkeypatch.setenv(ann.GPUS, "2")
    return given


def test_lists_are_searched_on_the_first_gpu(gpus: list[GpuIndex], tmp_path: Path) -> None:
    """The results equal the CPU's; filters use the exact search, and the number of lists is at most
    what FAISS scans on a GPU."""
    spec = IndexSpec(kind="ivf", probes=9_999)
    found = built(spec, tmp_path)
    (on_gpu,) = gpus
    assert on_gpu.cards == [0] and not found.filters and found.most == ann.GPU_MOST
    assert on_gpu.index.nprobe == ann.GPU_MOST
    assert (found.search(QUERIES, 5).rows == search_exact(QUERIES, VECTORS, 5).rows).all()
    assert on_gpu.searches == 1


def test_a_flat_index_is_on_every_gpu_that_is_asked_for(
    gpus: list[GpuIndex], tmp_path: Path
) -> None:
    found = built(IndexSpec(), tmp_path)
    assert gpus[0].cards == [0, 1]
    assert (found.search(QUERIES, 5).rows == search_exact(QUERIES, VECTORS, 5).rows).all()


def test_a_graph_stays_on_the_cpu(gpus: list[GpuIndex], tmp_path: Path) -> None:
    """Filters are applied on the CPU, too."""
    found = built(IndexSpec(kind="hnsw"), tmp_path)
    assert not gpus and found.filters and found.most is None


def test_gpus_are_the_engines_unless_they_are_asked_for(
    gpus: list[GpuIndex], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search on every GPU would use memory that an engine needs."""
    monkeypatch.delenv(ann.GPUS)
    found = built(IndexSpec(kind="ivf"), tmp_path)
    assert found.filters and not gpus and gpu_count() == 0
    assert Ann.load(tmp_path, IndexSpec(), VECTORS) is None


@pytest.mark.parametrize(
    ("asked", "is_built", "said"),
    [
        ("3", True, "TUTTI_SEARCH_GPUS=3, and FAISS sees 2; unset it"),
        ("1", False, "the FAISS that is installed is for the CPU only; unset it, or install depl"),
        ("all", True, "TUTTI_SEARCH_GPUS: 'all' is not a number of GPUs"),
    ],
)
def test_gpus_that_are_not_there_are_no_silent_cpu(
    asked: str,
    is_built: bool,
    said: str,
    gpus: list[GpuIndex],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ann.GPUS, asked)
    if not is_built:
        monkeypatch.delattr(faiss, "StandardGpuResources")
    with pytest.raises(RetrievalError) as refusal:
        gpu_count()
    assert said in str(refusal.value)


def test_without_a_gpu_flat_needs_no_faiss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU build of FAISS on a machine without a GPU counts none, although it has the class."""
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0, raising=False)
    assert gpu_count() == 0
    assert Ann.load(tmp_path, IndexSpec(), VECTORS) is None
