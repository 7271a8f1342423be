"""Tests of passages on disk: round trips, ids, neighbours and damaged files."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.vectors import passages
from tutti.tasks.retrieval.errors import CorpusRefused, FilterUnknown, IndexDamaged
from tutti.tasks.retrieval.passage import (
    DOCUMENTS,
    Passage,
    PassageStore,
    hash_passages,
    read_jsonl,
    write_passages,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MADE = st.builds(Passage, TEXT, TEXT, TEXT, TEXT, st.integers(0, 99))


@settings(max_examples=settings().max_examples // 3, deadline=None)
@given(given_=st.lists(MADE, min_size=1, max_size=20, unique_by=lambda passage: passage.id))
def test_what_goes_in_comes_out(
    given_: list[Passage], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Texts are in every script, with line ends and separators; rows are found by id."""
    folder = tmp_path_factory.mktemp("passages")
    assert write_passages(iter(given_), folder) == len(given_)
    store = PassageStore(folder)
    assert list(store) == given_
    assert store.rows_of([passage.id for passage in given_[::-1]]).tolist() == [*range(len(given_))]
    assert hash_passages(store) == hash_passages(given_)


def test_neighbours_stay_in_their_source(tmp_path: Path) -> None:
    """The neighbours are the chunks before and after, in order, within one source."""
    write_passages(passages(12), tmp_path)
    store = PassageStore(tmp_path)
    assert [passage.id for passage in store.neighbours(5, 1)] == ["p4", "p6"]
    assert [passage.id for passage in store.neighbours(4, 2)] == ["p5", "p6"]
    assert [passage.id for passage in store.neighbours(11, 9)] == ["p8", "p9", "p10"]


def test_what_is_refused(tmp_path: Path) -> None:
    """Errors are raised for a duplicate id, an empty corpus, a line without text, an unknown id and
    a truncated file."""
    with pytest.raises(CorpusRefused, match="'p1'"):
        write_passages([*passages(3), *passages(2)[1:]], tmp_path)
    with pytest.raises(CorpusRefused, match="at least one document"):
        write_passages([], tmp_path)
    assert not (tmp_path / DOCUMENTS).exists()
    write_passages(passages(3), tmp_path)
    with pytest.raises(FilterUnknown, match="'p9'"):
        PassageStore(tmp_path).rows_of(["p1", "p9"])
    lines = (tmp_path / DOCUMENTS).read_bytes()
    (tmp_path / DOCUMENTS).write_bytes(lines[:-5])
    with pytest.raises(IndexDamaged, match="does not fit"):
        PassageStore(tmp_path)


def test_jsonl_takes_the_usual_names_and_names_a_bad_line(tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text('{"_id": 7, "contents": "a"}\n\n{"id": "x", "text": "b", "title": "t"}\n')
    assert [*read_jsonl(file)] == [Passage("7", "a"), Passage("x", "b", "t")]
    for bad in ('{"id": 1}', "[]", "{", json.dumps({"id": "y", "text": "b", "position": "z"})):
        file.write_text('{"id": "x", "text": "b"}\n' + bad)
        with pytest.raises(CorpusRefused, match=":2:"):
            list(read_jsonl(file))
