"""Tests of the flow `build-index` as a plain function with a few documents, and of the verb `tutti
index`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from tutti import storage
from tutti.cli.main import app
from tutti.flows.index import build_index
from tutti.flows.index_parameters import DEFAULT_INDEX, IndexParameters
from tutti.tasks.retrieval import (
    STDLIB_TEMPLATE,
    CorpusRefused,
    IndexSpec,
    manifest_page,
    read_manifest,
)
from tutti.tasks.retrieval.index import Index

DOCUMENTS = [
    {"id": f"d{i}", "title": f"number {word}", "text": f"The number {word} is {i}."}
    for i, word in enumerate(("zero", "one", "two", "three", "four", "five", "six", "seven"))
]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a JSONL file beside a new store."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    file = tmp_path / "corpus.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in DOCUMENTS))
    return file


async def test_an_index_of_a_file_is_built_and_found_again(corpus: Path) -> None:
    """The index has BM25; its run is recorded, and its page has documents, recall and folder."""
    parameters = IndexParameters(corpus=str(corpus), words=True)
    built = await build_index.fn(parameters)
    folder = Path(built["folder"])
    assert (built["documents"], built["spec"]["words"]) == (len(DOCUMENTS), True)
    assert read_manifest(folder) == {k: v for k, v in built.items() if k != "folder"}
    page = manifest_page(read_manifest(folder), folder)
    for words in ("| documents | 8 |", "flat and BM25", "@10 1.000", str(folder)):
        assert words in page
    assert await build_index.fn(parameters) == built
    (first, second) = storage.query("select flow, status from runs")
    assert first == second == {"flow": "build-index", "status": "completed"}


def test_an_index_of_a_folder(corpus: Path) -> None:
    """The verb prints the read and skipped files on stderr and the index's id on stdout."""
    folder = corpus.with_name("handbook")
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nGreen tea steeps for two minutes.")
    (folder / "coffee.txt").write_text("Coffee is brewed at 93 degrees.")
    (folder / "scan.pdf").write_bytes(b"no pdf")
    done = CliRunner().invoke(app, ["index", str(folder), "--words"])
    assert done.exit_code == 0, done.output
    assert "2 files read, 2 passages; skipped: 1 unreadable or without text" in done.stderr
    assert "scan.pdf: not a sound PDF" in " ".join(done.stderr.split())
    first, _, place = done.stdout.splitlines()
    assert first.startswith("index:") and first.endswith("  2 documents")
    (hits,) = Index(Path(place)).search(["how long does tea steep?"], 1)
    assert (hits[0].document.id, hits[0].document.title) == ("tea.md#0", "Tea")
    missing = CliRunner().invoke(app, ["index", str(folder / "nowhere")])
    assert missing.exit_code == 1 and "nowhere: no such file or folder" in missing.stderr


@pytest.mark.slow
def test_the_verb_prints_no_librarys_log(corpus: Path) -> None:
    """The verb runs in its own process; stderr has only the verb's lines."""
    command = [sys.executable, "-c", "from tutti.cli.main import main; main()"]
    done = subprocess.run(
        [*command, "index", str(corpus), "--words"], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert "index " in done.stderr and "DEBUG" not in done.stderr and "bm25s" not in done.stderr


async def test_a_missing_file_is_named(corpus: Path) -> None:
    """The run is recorded as failed."""
    nowhere = corpus.with_name("nowhere.jsonl")
    with pytest.raises(CorpusRefused, match=r"nowhere\.jsonl: no such file or folder"):
        await build_index.fn(IndexParameters(corpus=str(nowhere)))
    (run,) = storage.query("select status, error from runs")
    assert run["status"] == "failed" and "no such file" in run["error"]


def test_an_endpoint_is_given_whole() -> None:
    """Address, model and width are given together or not at all."""
    with pytest.raises(ValidationError, match="give embed_url, embed_model and embed_dimensions"):
        IndexParameters(embed_url="http://h/v1")
    parameters = IndexParameters(embed_url="http://h/v1", embed_model="m", embed_dimensions=3)
    assert parameters.embedder is not None
    assert parameters.embedder.describe() == {"kind": "endpoint", "model": "m", "dimensions": 3}


def test_the_defaults_are_the_index_that_sweeps_use() -> None:
    """The id hashes the spec; different defaults would build a second index."""
    assert DEFAULT_INDEX.spec == IndexSpec(template=STDLIB_TEMPLATE)
    assert DEFAULT_INDEX.embedder is None
    assert IndexParameters(corpus="a.jsonl").spec == IndexSpec()


def test_the_verb_prints_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is three lines, or the manifest and its folder as JSON."""
    manifest: dict[str, Any] = {"index_id": "index:1", "documents": 8}
    manifest |= {"recall": {"recall_at_1": 0.5, "recall_at_10": 1.0}, "folder": "/store/index-1"}

    async def answer(flow: object, prefect: bool, parameters: IndexParameters) -> dict[str, Any]:
        assert (flow, prefect, parameters) == (build_index, False, DEFAULT_INDEX)
        return manifest

    monkeypatch.setattr("tutti.cli.base.flow.as_flow_run", answer)
    shown = CliRunner().invoke(app, ["index"]).stdout
    assert shown == "index:1  8 documents\nrecall @1 0.500, @10 1.000\n/store/index-1\n"
    assert json.loads(CliRunner().invoke(app, ["index", "--json"]).stdout) == manifest
