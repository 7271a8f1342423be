"""Inverted lists and graphs: recall, filters, what a killed build keeps, no GPU needed."""

from pathlib import Path

import faiss
import numpy as np
import pytest

from tests.retrieval.vectors import clustered
from tutti.tasks.retrieval.probe import overlap_share
from tutti.tasks.retrieval.search import ann
from tutti.tasks.retrieval.search.ann import Ann, gpu_count, list_count, write_ann
from tutti.tasks.retrieval.search.exact import search_exact
from tutti.tasks.retrieval.spec import IndexSpec

VECTORS, QUERIES = clustered(4_000), clustered(50, seed=7)


def built(spec: IndexSpec, folder: Path) -> Ann:
    """An index of VECTORS, loaded from `folder`."""
    write_ann(VECTORS, spec, folder, lambda done, total: None)
    loaded = Ann.load(folder, spec, VECTORS)
    assert loaded is not None
    return loaded


@pytest.mark.parametrize(
    "spec", [IndexSpec(kind="ivf"), IndexSpec(kind="hnsw")], ids=["ivf", "hnsw"]
)
def test_most_of_the_exact_best_are_found(spec: IndexSpec, tmp_path: Path) -> None:
    """And they come best first, equal scores by row."""
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
    """The second build begins with what the first one trained, and gives the same bytes."""
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


def test_without_a_gpu_flat_needs_no_faiss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FAISS made for GPUs on a machine without one counts none, though it has the class."""
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0, raising=False)
    assert gpu_count() == 0
    assert Ann.load(tmp_path, IndexSpec(), VECTORS) is None
