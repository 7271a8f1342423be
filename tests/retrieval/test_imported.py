"""Tests of indexes of other programs: opened in place for each kind, and refused when files do not
belong together."""

import json
import os
from pathlib import Path

import faiss
import numpy as np
import pytest

from tests.retrieval.slow_build import LetterCounts
from tests.retrieval.vectors import passages
from tutti.storage import Catalog, Home
from tutti.tasks.retrieval import (
    CorpusRefused,
    ForeignFiles,
    Index,
    IndexSpec,
    adopt,
    foreign,
    import_index,
)
from tutti.tasks.retrieval.endpoint import EndpointEmbedder
from tutti.tasks.retrieval.errors import ImportRefused, IndexDamaged
from tutti.tasks.retrieval.exact import search_exact
from tutti.tasks.retrieval.foreign import open_foreign, probe, probe_in_child

COUNT = 600
INNER = faiss.METRIC_INNER_PRODUCT
TEXT = IndexSpec(template="{text}")
KINDS = {
    "flat": "Flat",
    "ivf": "IVF8,Flat",
    "hnsw": "HNSW16,Flat",
    "fp16": "SQfp16",
}


@pytest.fixture(autouse=True)
def _probes_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run probes in this process, because a child takes a second; tests of the child start it
    themselves."""
    monkeypatch.setattr("resource.setrlimit", lambda *_: None)
    monkeypatch.setattr(adopt, "probe_in_child", probe)


def write_documents(path: Path, rows: list[dict[str, object]]) -> None:
    """Write documents as other programs do, with occasional empty lines."""
    lines = [json.dumps(row) + ("\n\n" if nth % 50 == 7 else "\n") for nth, row in enumerate(rows)]
    path.write_text("\n" + "".join(lines))


def made(
    folder: Path, kind: str = "Flat", metric: int = faiss.METRIC_INNER_PRODUCT
) -> ForeignFiles:
    """Return a FAISS file and its documents in the reference's layout (`content` for the text)."""
    texts = [f"{p.text} {nth}" for nth, p in enumerate(passages(COUNT))]
    vectors = LetterCounts().embed(texts)
    index = faiss.index_factory(vectors.shape[1], kind, metric)
    index.train(vectors)
    index.add(vectors)
    files = ForeignFiles(folder / "eval.index", folder / "eval.jsonl")
    faiss.write_index(index, str(files.vectors))
    rows: list[dict[str, object]] = [
        {"id": nth, "content": text, "url": "https://example.org"} for nth, text in enumerate(texts)
    ]
    write_documents(files.documents, rows)
    return files


def imported(folder: Path, files: ForeignFiles, spec: IndexSpec = TEXT) -> Index:
    """Import the files and return the open index."""
    (folder / "home").mkdir(exist_ok=True)
    with Catalog(Home(folder / "home")) as catalog:
        made_in = import_index(files, catalog, spec, LetterCounts(), lambda *_: None)
    return Index(made_in, LetterCounts())


@pytest.mark.parametrize("metric", [INNER, faiss.METRIC_L2])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_finds_what_it_was_built_for(tmp_path: Path, kind: str, metric: int) -> None:
    """The best rows and scores equal those of an exact search of the same vectors."""
    files = made(tmp_path, KINDS[kind], metric)
    index = imported(tmp_path, files, TEXT.model_copy(update={"probes": 8}))
    texts = [document.text for document in index.documents]
    vectors = LetterCounts().embed(texts)
    exact = search_exact(vectors[:20], vectors, 5)
    found = index.nearest(vectors[:20], 5)
    assert index.manifest["spec"]["kind"] == ("flat" if kind == "fp16" else kind)
    np.testing.assert_allclose(found.scores, exact.scores, atol=2e-3)
    rows = np.array([100, 200, 300])
    within = index.nearest(vectors[200:201], 3, rows)
    assert within.rows[0][0] == 200
    assert set(within.rows[0]) <= {100, 200, 300, -1}


def test_nothing_is_copied(tmp_path: Path) -> None:
    """The store has paths and hashes but no vectors or texts, and both files are memory-mapped."""
    files = made(tmp_path)
    index = imported(tmp_path, files)
    stored = sum(path.stat().st_size for path in (tmp_path / "home/artifacts").rglob("*.*"))
    assert stored < 32 * COUNT + 4_000
    assert not index.vectors.flags.owndata
    assert index.documents[8].id == "8"  # the row after an empty line
    assert index.search([index.documents[123].text], 1)[0][0].document.id == "123"


def test_an_import_is_found_again_and_follows_a_move(tmp_path: Path) -> None:
    """The id is that of the contents."""
    files = made(tmp_path)
    first = imported(tmp_path, files).index_id
    moved = ForeignFiles(tmp_path / "b.index", tmp_path / "b.jsonl")
    os.rename(files.vectors, moved.vectors)
    os.rename(files.documents, moved.documents)
    assert imported(tmp_path, moved).index_id == first


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    """The file is refused before a search could return rows of other documents."""
    files = made(tmp_path)
    index = imported(tmp_path, files)
    folder = tmp_path / "home/artifacts" / index.index_id.replace(":", "-")
    files.documents.write_text(files.documents.read_text() + '{"id": "new", "content": "x"}\n')
    with pytest.raises(IndexDamaged, match=r"eval.jsonl was changed after its import"):
        Index(folder, LetterCounts())


def test_rows_in_another_order_are_refused(tmp_path: Path) -> None:
    """A sample is embedded again, because a wrong order is the usual silent fault of a corpus
    beside an index."""
    files = made(tmp_path)
    rows = [json.loads(line) for line in files.documents.read_text().splitlines() if line]
    write_documents(files.documents, rows[300:] + rows[:300])
    with pytest.raises(ImportRefused, match="rows in another order"):
        imported(tmp_path, files)


def test_counts_must_be_equal(tmp_path: Path) -> None:
    files = made(tmp_path)
    with files.documents.open("a") as file:
        file.write('{"id": "one-more", "content": "x"}\n')
    with pytest.raises(ImportRefused, match=r"600 vectors and .*eval.jsonl 601 documents"):
        imported(tmp_path, files)


def test_bad_documents_are_named_by_line(tmp_path: Path) -> None:
    files = made(tmp_path)
    with files.documents.open("a") as file:
        file.write('{"id": "no text"}\n')
    with pytest.raises(CorpusRefused, match=r"eval.jsonl:\d+: a document needs an id and a text"):
        imported(tmp_path, files)
    assert not list((tmp_path / "home/artifacts").glob("*/manifest.json"))


def test_files_that_are_no_index_are_refused(tmp_path: Path) -> None:
    """The files are random bytes, a truncated copy, a kind without ordered rows, and overlong
    vectors."""
    files = made(tmp_path)
    whole = files.vectors.read_bytes()
    for data, message in (
        (b"junk" * 100, "FAISS does not read it"),
        (whole[: len(whole) // 2], "FAISS does not read it"),
        (b"", "FAISS does not read it"),
    ):
        files.vectors.write_bytes(data)
        with pytest.raises(ImportRefused, match=message):
            open_foreign(files.vectors)
    vectors = np.random.default_rng(0).standard_normal((10, 8)).astype(np.float32)
    long = faiss.IndexFlatIP(8)
    long.add(vectors)
    faiss.write_index(long, str(files.vectors))
    with pytest.raises(ImportRefused, match="vectors must have unit length"):
        open_foreign(files.vectors)
    mapped = faiss.IndexIDMap(faiss.IndexFlatIP(8))
    mapped.add_with_ids(vectors, np.arange(10))
    faiss.write_index(mapped, str(files.vectors))
    with pytest.raises(ImportRefused, match="IndexIDMap is not read"):
        open_foreign(files.vectors)


@pytest.mark.slow
def test_a_file_that_would_fill_the_memory_ends_only_its_child(tmp_path: Path) -> None:
    """The file's number of product quantizer centroids amounts to 256 GB."""
    path = made(tmp_path, "PQ2x4").vectors
    probe_in_child(path)
    data = bytearray(path.read_bytes())
    data[61:69] = (1 << 36).to_bytes(8, "little")
    path.write_bytes(data)
    with pytest.raises(ImportRefused, match="FAISS does not read it: MemoryError"):
        probe_in_child(path)


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("import os; os.kill(os.getpid(), 11)", "the process that read it got SIGSEGV"),
        ("import time; time.sleep(60)", "no search of it ended within 0"),
        ("assert False, 'a search finds row 9'", "does not read it: AssertionError: a search"),
    ],
)
def test_a_child_that_does_not_end_well_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, said: str
) -> None:
    monkeypatch.setattr(foreign, "PROBE", does)
    monkeypatch.setattr(foreign, "PROBE_S", 0.5 if "sleep" in does else 60)
    (tmp_path / "eval.index").write_bytes(b"")
    with pytest.raises(ImportRefused, match=said):
        probe_in_child(tmp_path / "eval.index")


def test_another_width_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    files = made(tmp_path)
    embedder = EndpointEmbedder("http://127.0.0.1:1/v1", "m", 7)
    (tmp_path / "home").mkdir()
    with (
        Catalog(Home(tmp_path / "home")) as catalog,
        pytest.raises(ImportRefused, match="dimensions, not 7"),
    ):
        import_index(files, catalog, TEXT, embedder, lambda *_: None)
