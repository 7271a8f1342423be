"""Tests of searching an index of passages: dense, by words, fused, filtered, for every kind."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.retrieval.slow_build import LetterCounts
from tests.retrieval.vectors import passages
from tutti.storage import Catalog, Home
from tutti.tasks.retrieval.index import Index, build_index, read_manifest
from tutti.tasks.retrieval.spec import IndexSpec

COUNT = 300


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog(Home(tmp_path_factory.mktemp("home"))) as catalog:
        yield catalog


def index_of(kind: str, home: Catalog) -> Index:
    """Return an index of 300 passages, with words."""
    spec = IndexSpec(kind=kind, words=True)
    return Index(build_index(passages(COUNT), home, spec))


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_every_kind_finds_a_document_by_its_title(kind: str, home: Catalog) -> None:
    """The search is by vectors, by words and by both; a hit has its place in each ranking."""
    index = index_of(kind, home)
    for mode in index.modes:
        (hits,) = index.search(["title42 number42"], 5, mode)
        assert hits[0].document.id == "p42" and hits[0].row == 42
        assert set(hits[0].ranks) == ({"dense", "words"} if mode == "fused" else {mode})
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert index.manifest["probe"]["recall_at_10"] >= 0.9
    assert index.manifest["recall"]["recall_at_1"] >= 0.9


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_a_filtered_search_is_exact_for_every_kind(kind: str, home: Catalog) -> None:
    """The result equals a full search of a corpus with only the filtered documents."""
    index, exact = index_of(kind, home), index_of("flat", home)
    rows = np.arange(5, COUNT, 41, dtype=np.int64)
    everything = exact.search(["amber title7", "lotus"], COUNT, "dense")
    for found, every in zip(
        index.search(["amber title7", "lotus"], 4, "dense", rows), everything, strict=True
    ):
        allowed = [(hit.row, hit.score) for hit in every if hit.row in rows]
        assert [(hit.row, hit.score) for hit in found] == allowed[:4]
    for hits in index.search(["amber title7"], 9, "fused", rows):
        assert {hit.row for hit in hits} <= {*rows.tolist()}


def test_rows_given_to_faiss_stay_approximate_and_inside(home: Catalog) -> None:
    rows = np.arange(0, COUNT, 2, dtype=np.int64)
    (hits,) = index_of("ivf", home).search(["title42"], 5, "dense", rows, approximate=True)
    assert hits[0].row == 42 and {hit.row for hit in hits} <= {*rows.tolist()}


def test_what_an_index_does_not_have(home: Catalog) -> None:
    folder = build_index(passages(9), home, IndexSpec(), LetterCounts())
    with pytest.raises(ValueError, match="letters"):
        Index(folder)
    index = Index(folder, LetterCounts())
    assert index.modes == ("dense",)
    with pytest.raises(ValueError, match="no 'words' ranking"):
        index.search(["a"], 1, "words")
    assert read_manifest(folder)["embedder"] == {"kind": "letters"}


def test_more_than_there_is(home: Catalog) -> None:
    """A corpus smaller than k returns all its documents once."""
    index = Index(build_index(passages(3), home, IndexSpec(kind="ivf")))
    (hits,) = index.search(["title1"], 50)
    assert sorted(hit.row for hit in hits) == [0, 1, 2]
