"""Tests of BM25: the library's scores, filters first, ties by row."""

import logging
import tracemalloc
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.vectors import WORDS, passages
from tutti.tasks.retrieval.bm25 import WordIndex, tokenize, write_bm25

TEXTS = [passage.text for passage in passages(200)]


def opened(texts: list[str], folder: Path) -> WordIndex:
    """Return the posting lists of `texts`, written and loaded."""
    write_bm25(texts, folder)
    return WordIndex.loaded(folder)


def test_scores_are_the_librarys(tmp_path: Path) -> None:
    """Reading only the posting lists of the query's words gives the same scores as scoring every
    document."""
    ours = opened(TEXTS, tmp_path)
    theirs = bm25s.BM25.load(tmp_path, show_progress=False)
    for query in ("amber birch", "number7 kelp", WORDS[0], "Delta DELTA"):
        scores = theirs.get_scores(tokenize(query))
        best = np.lexsort((np.arange(len(scores)), -scores))[:10]
        found = ours.search([query], 10)
        np.testing.assert_allclose(found.scores[0], scores[best], rtol=1e-6)
        assert found.rows[0, 0] == best[0]


def test_a_word_that_is_repeated_costs_no_more_memory(tmp_path: Path) -> None:
    """This was an attack: the posting list was copied for each occurrence of the word."""
    ours = opened(TEXTS, tmp_path)
    once = ours.search(["amber"], 3)
    tracemalloc.start()
    try:
        often = ours.search(["amber " * 20_000], 3)
        assert tracemalloc.get_traced_memory()[1] < 5 * 2**20
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(often.scores, 20_000 * once.scores, rtol=1e-5)
    assert often.rows.tolist() == once.rows.tolist()


def test_the_library_logs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Importing it sets its logger to DEBUG, which any handler would print."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("bm25s").setLevel(logging.DEBUG)
    opened(TEXTS, tmp_path)
    assert [record.name for record in caplog.records if record.name == "bm25s"] == []


def test_a_filter_comes_first_and_ties_go_to_the_lower_row(tmp_path: Path) -> None:
    ours = opened(["red fox", "blue fox", "red fox", "red fox", "none"], tmp_path)
    assert ours.search(["fox red"], 3).rows.tolist() == [[0, 2, 3]]
    rows = np.array([1, 3, 4])
    assert ours.search(["fox red"], 3, rows).rows.tolist() == [[3, 1, -1]]


def test_words_nobody_wrote(tmp_path: Path) -> None:
    """An unknown word, an empty query and an empty corpus are no errors."""
    ours = opened(TEXTS, tmp_path / "some")
    assert ours.search(["zzz", ""], 2).rows.tolist() == [[-1, -1]] * 2
    assert opened(["", "…"], tmp_path / "none").search(["amber"], 1).rows.tolist() == [[-1]]


def test_the_same_texts_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_bm25(TEXTS, tmp_path / name)
    files = sorted((tmp_path / "one").iterdir())
    assert files
    for file in files:
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes(), file.name


def test_in_memory_as_on_disk(tmp_path: Path) -> None:
    """Rows and scores are equal; a corpus without texts or words gives no results."""
    kept, here = opened(TEXTS, tmp_path), WordIndex.of(TEXTS)
    for query in ("amber birch", "number7 kelp", "nobody wrote this"):
        found = kept.search([query], 5)
        best = here.best(query, 5)
        assert [row for row, _ in best] == [row for row in found.rows[0].tolist() if row >= 0]
        np.testing.assert_allclose([score for _, score in best], found.scores[0][: len(best)])
    assert WordIndex.of([]).best("x", 3) == WordIndex.of(["", "!"]).best("x", 3) == []


@given(st.lists(st.text("ab cd", max_size=12), max_size=6), st.text("abcd ", max_size=8))
def test_what_is_found_shares_a_word(texts: list[str], query: str) -> None:
    """Exactly the texts that share a word are returned, with positive scores in descending
    order."""
    found = WordIndex.of(texts).best(query, max(1, len(texts)))
    shared = {n for n, text in enumerate(texts) if set(tokenize(text)) & set(tokenize(query))}
    assert {row for row, _ in found} == shared
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True) and all(score > 0 for score in scores)
