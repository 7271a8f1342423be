"""Tests of exact search: the true best results, ties by row, for any batch, block and filter."""

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.vectors import clustered
from tutti.tasks.retrieval import exact
from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.exact import Rows, search_exact


def brute(queries: Vectors, vectors: Vectors, k: int, rows: Rows | None = None) -> list[list[int]]:
    """Return the best rows by scores in float64, equal ones by row."""
    among = np.arange(len(vectors)) if rows is None else rows
    found = []
    for query in queries:
        scores = (vectors[among].astype(np.float64) * query).sum(axis=1).astype(np.float32)
        found.append(among[np.lexsort((among, -scores))][:k].tolist())
    return found


def kept(rows: Rows) -> list[list[int]]:
    """Return the rows without their padding."""
    return [[row for row in best if row >= 0] for best in rows.tolist()]


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(
    count=st.integers(1, 120),
    copies=st.integers(1, 4),
    k=st.integers(1, 20),
    block=st.integers(1, 50),
    data=st.data(),
)
def test_it_finds_what_trying_all_finds(
    count: int, copies: int, k: int, block: int, data: st.DataObject
) -> None:
    """This also holds with duplicates, many small blocks and a filter."""
    vectors = np.tile(clustered(count, 8), (copies, 1))
    queries = np.concatenate([clustered(3, 8, seed=9), vectors[:1]])
    rows = None
    if data.draw(st.booleans()):
        chosen = data.draw(st.sets(st.integers(0, len(vectors) - 1)))
        rows = np.array(sorted(chosen), dtype=np.int64)
    before = exact.BLOCK_ROWS
    exact.BLOCK_ROWS = block
    try:
        found = search_exact(queries, vectors, k, rows)
    finally:
        exact.BLOCK_ROWS = before
    assert kept(found.rows) == brute(queries, vectors, k, rows)
    assert ((found.rows < 0) == np.isneginf(found.scores)).all()


def test_ties_go_to_the_lower_row() -> None:
    vectors = np.tile(clustered(1), (1_000, 1))
    assert search_exact(vectors[:2], vectors, 5).rows.tolist() == [[0, 1, 2, 3, 4]] * 2


def test_an_answer_does_not_depend_on_its_batch() -> None:
    """A query gives the same rows and bit-identical scores alone and in batches of 7 and of 300."""
    vectors, queries = clustered(40_000), clustered(300, seed=5)
    together = search_exact(queries, vectors, 10)
    alone = [search_exact(queries[nth : nth + 1], vectors, 10) for nth in range(7)]
    few = search_exact(queries[:7], vectors, 10)
    assert (np.concatenate([one.rows for one in alone]) == together.rows[:7]).all()
    assert (np.concatenate([one.scores for one in alone]) == together.scores[:7]).all()
    assert (few.scores == together.scores[:7]).all()


def test_the_ids_are_those_of_faiss_flat() -> None:
    vectors, queries = clustered(50_000, 64), clustered(64, 64, seed=3)
    flat = faiss.IndexFlatIP(64)
    flat.add(vectors)
    _, rows = flat.search(queries, 10)
    assert (search_exact(queries, vectors, 10).rows == rows).all()


def test_a_filter_comes_before_the_best_are_taken() -> None:
    """The reference filtered the global best 1,000, so documents beyond them were never
    returned."""
    vectors = clustered(5_000)
    scores = vectors @ vectors[0]
    farthest = np.sort(np.argsort(scores)[:3]).astype(np.int64)
    found = search_exact(vectors[:1], vectors, 5, farthest)
    assert sorted(kept(found.rows)[0]) == farthest.tolist()


def test_no_query_no_row_and_bad_shapes() -> None:
    vectors = clustered(10)
    assert search_exact(vectors[:0], vectors, 3).rows.shape == (0, 3)
    none = search_exact(vectors[:1], vectors, 3, np.empty(0, dtype=np.int64))
    assert none.rows.tolist() == [[-1, -1, -1]]
    with pytest.raises(ValueError, match="do not fit"):
        search_exact(vectors[:, :4], vectors, 3)
    with pytest.raises(ValueError, match="at least 1"):
        search_exact(vectors, vectors, 0)
