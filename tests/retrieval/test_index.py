"""Tests of building, reusing, searching and serving an index."""

from pathlib import Path

import numpy as np
import pytest

from tests.retrieval.serving import serving
from tutti.storage import Catalog, Home
from tutti.tasks.retrieval.corpus import Document, Parameter
from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.exact import Neighbours, Rows, search_exact
from tutti.tasks.retrieval.index import Index, build_index

DOCUMENTS = [
    Document(f"{module}.{name}", module, "function", (Parameter("x", None),), text)
    for module, name, text in (
        ("heapq", "nlargest", "Find the n largest elements."),
        ("heapq", "nsmallest", "Find the n smallest elements."),
        ("json", "dumps", "Serialise to a JSON formatted string."),
        ("enum", "Enum", "Create a collection of name and value pairs."),
        ("enum", "Enum.name", "The name of the member."),
    )
]


@pytest.fixture()
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(Home(tmp_path))


def test_a_name_finds_its_document_first(catalog: Catalog) -> None:
    """A class ranks before its methods, and a short name works like a full one."""
    index = Index(build_index(DOCUMENTS, catalog))
    queries = [d.name for d in DOCUMENTS] + ["Enum", "dumps"]
    found = [hits[0].document.id for hits in index.search(queries, 2)]
    assert found == [*(d.name for d in DOCUMENTS), "enum.Enum", "json.dumps"]
    catalog.close()


def test_more_hits_than_a_gpu_gives_are_found_exactly(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAISS fails on a GPU above 2,048 results; a fused search requests four times its hits."""

    class OnGpu:
        filters, most, asked = False, 2, 0

        def search(self, queries: Vectors, k: int, rows: Rows | None = None) -> Neighbours:
            assert k <= self.most and rows is None
            self.asked += 1
            return search_exact(queries, index.vectors, k)

    index, gpu = Index(build_index(DOCUMENTS, catalog)), OnGpu()
    monkeypatch.setattr(index, "_ann", gpu)
    assert len(index.search(["heapq.nlargest"], 2)[0]) == 2 and gpu.asked == 1
    assert len(index.search(["heapq.nlargest"], 3)[0]) == 3 and gpu.asked == 1
    (hits,) = index.search(["heapq.nlargest"], 1, rows=np.array([2, 3]), approximate=True)
    assert hits[0].row in (2, 3) and gpu.asked == 1
    catalog.close()


def test_the_same_documents_give_the_same_index_and_are_not_built_again(catalog: Catalog) -> None:
    first = build_index(DOCUMENTS, catalog)
    stamp = (first / "vectors.npy").stat().st_mtime_ns
    assert build_index(DOCUMENTS, catalog) == first
    assert (first / "vectors.npy").stat().st_mtime_ns == stamp
    assert build_index(DOCUMENTS[:4], catalog) != first
    assert not [p for p in first.parent.iterdir() if p.suffix in (".tmp", ".lock", ".building")]
    row = catalog.artifact(Index(first).index_id)
    assert row is not None and row["detail"]["recall"]["recall_at_1"] == 1.0
    catalog.close()


def test_the_service_answers_and_says_what_is_wrong(catalog: Catalog) -> None:
    with serving(build_index(DOCUMENTS, catalog)) as client:
        answer = client.post({"queries": ["nlargest", "dumps"], "topk": 1}).json()
        names = [hits[0]["document"]["id"] for hits in answer["result"]]
        assert names == ["heapq.nlargest", "json.dumps"]
        assert answer["index_id"].startswith("index:")
        for body, fault in (
            ({}, "`queries`"),
            ({"queries": []}, "at least 1 item"),
            ({"queries": ["a"], "topk": 0}, "`topk`"),
            ([], "object"),
        ):
            refused = client.post(body)
            assert refused.status == 400 and fault in refused.json()["error"]
    catalog.close()


def test_a_folder_without_an_index(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no index"):
        Index(tmp_path)
