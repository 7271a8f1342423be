"""Tests of building: resumable after kill -9, reproducible to the byte, under Dask, one builder at
a time."""

import json
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.retrieval.slow_build import PASSAGES, SPEC, LetterCounts
from tests.retrieval.vectors import passages
from tutti.cli.main import app
from tutti.storage import Catalog, Home
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.retrieval import build, service
from tutti.tasks.retrieval.build import EmbedWorkers, build_index
from tutti.tasks.retrieval.errors import CorpusRefused
from tutti.tasks.retrieval.index import Index, read_manifest
from tutti.tasks.retrieval.passage import write_passages
from tutti.tasks.retrieval.spec import IndexSpec


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file under `folder` with its bytes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def opened(root: Path) -> Catalog:
    root.mkdir(exist_ok=True)
    return Catalog(Home(root))


def whole(root: Path) -> dict[str, bytes]:
    """Return the result of an undisturbed build."""
    with opened(root) as catalog:
        return contents(build_index(passages(PASSAGES), catalog, SPEC, LetterCounts()))


def killed_build(home: Path) -> int:
    """Start a build, kill it with SIGKILL after a few shards, and return the number of shards."""
    home.mkdir()
    command = [sys.executable, "-m", "tests.retrieval.slow_build", str(home)]
    with subprocess.Popen(command, cwd=PROJECT) as child:
        until = time.monotonic() + 60
        while len(made := list(home.glob("artifacts/*.building/shards/*.npy"))) < 3:
            assert time.monotonic() < until and child.poll() is None, "no shard appears"
            time.sleep(0.01)
        child.kill()
    return len(made)


def test_a_build_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """After kill -9 only the missing shards are embedded, and every byte equals that of an
    undisturbed build."""
    home = tmp_path / "killed"
    made = killed_build(home)
    assert 3 <= made < PASSAGES / SPEC.shard_documents
    assert not list(home.glob("artifacts/*/manifest.json")), "no half index is shown"
    embedder = LetterCounts()
    steps: list[tuple[str, int, int]] = []
    with opened(home) as catalog:
        note = lambda *step: steps.append(step)  # noqa: E731
        folder = build_index(passages(PASSAGES), catalog, SPEC, embedder, progress=note)
        assert catalog.artifact(read_manifest(folder)["index_id"]) is not None
    left = PASSAGES - made * SPEC.shard_documents
    assert embedder.embedded - left - PASSAGES in (0, -SPEC.shard_documents)  # and the probe's
    assert steps[0][0] == "embed" and steps[0][1] >= made * SPEC.shard_documents
    assert ("embed", PASSAGES, PASSAGES) in steps and ("add", PASSAGES, PASSAGES) in steps
    assert contents(folder) == whole(tmp_path / "whole")
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.e2e  # three processes that import Dask: ten seconds
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_two_workers_make_what_one_makes(tmp_path: Path) -> None:
    """Under Dask the shards finish in any order; the index is the same byte for byte."""
    with opened(tmp_path / "dask") as catalog:
        folder = build_index(passages(PASSAGES), catalog, SPEC, LetterCounts(), EmbedWorkers(2))
        assert contents(folder) == whole(tmp_path / "whole")


def test_two_builders_make_it_once(tmp_path: Path) -> None:
    """The second waits for the first and uses its index."""
    embedders, folders = [LetterCounts(0.02), LetterCounts(0.02)], []

    def build(embedder: LetterCounts) -> None:
        with Catalog(Home(tmp_path)) as catalog:
            folders.append(build_index(passages(PASSAGES), catalog, SPEC, embedder))

    threads = [threading.Thread(target=build, args=(embedder,)) for embedder in embedders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders[0] == folders[1]
    assert sorted(embedder.embedded for embedder in embedders) == [0, 2 * PASSAGES]


def test_a_file_and_a_list_make_the_same_index(tmp_path: Path) -> None:
    """A JSONL corpus is identified by its content; the shard size is not part of the identity."""
    file = tmp_path / "corpus.jsonl"
    rows = [passage.as_row() for passage in passages(20)]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    with Catalog(Home(tmp_path)) as catalog:
        first = build_index(file, catalog, IndexSpec(shard_documents=7))
        assert build_index(passages(20), catalog, IndexSpec(shard_documents=9)) == first
        assert build_index(passages(20), catalog, IndexSpec(kind="ivf")) != first
        manifest = read_manifest(first)
        assert manifest["documents"] == 20 and manifest["probe"]["recall_at_10"] == 1.0
        assert [hit[0].document.id for hit in Index(first).search(["title3"], 1)] == ["p3"]


def test_a_corpus_that_no_index_can_hold(tmp_path: Path) -> None:
    with Catalog(Home(tmp_path)) as catalog:
        with pytest.raises(CorpusRefused, match="the corpus is empty"):
            build_index([], catalog)
        with pytest.raises(CorpusRefused, match="two documents have the id"):
            build_index(passages(2) * 2, catalog)


def test_a_shard_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that dies while writing leaves a temporary file, which is not used as a shard."""
    write_passages(passages(4), tmp_path)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tutti.tasks.retrieval.build.os.replace", dies)
        with pytest.raises(KeyboardInterrupt):
            build.embed_all(tmp_path, SPEC, LetterCounts(), lambda done, total: None)
    assert not build.shard_path(tmp_path, 0).exists()
    embedder = LetterCounts()
    assert build.embed_all(tmp_path, SPEC, embedder, lambda done, total: None) == 1
    assert embedder.embedded == 4


def test_the_commands_of_the_docs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The build command works, and every flag of the service in docs/retrieval.md exists."""
    page = (PROJECT / "docs" / "retrieval.md").read_text().replace("\\\n", " ")
    served = [line for line in page.splitlines() if "python -m tutti.tasks.retrieval." in line]
    assert len(served) == 2
    monkeypatch.setattr(sys, "argv", ["service", "--help"])
    with pytest.raises(SystemExit, match="0"):
        service.main()
    shown = capsys.readouterr().out
    for flag in [word for line in served for word in line.split() if word.startswith("--")]:
        assert flag in shown, f"the service has no {flag}"
    rows = [json.dumps(passage.as_row()) for passage in passages(50)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    command = next(line for line in page.splitlines() if "tutti index corpus.jsonl" in line)
    found = CliRunner().invoke(app, shlex.split(command)[1:])
    manifest = json.loads(found.stdout)
    index = Index(Path(manifest["folder"]))
    assert index.modes[0] == "fused" and manifest["probe"]["recall_at_10"] > 0.9
    assert index.search(["title7"], 1)[0][0].document.id == "p7"
    (tmp_path / "corpus.jsonl").write_text('{"id": 1}')
    found = CliRunner().invoke(app, shlex.split(command)[1:])
    assert found.exit_code == 1
    assert "corpus.jsonl:1: a document needs an id and a text" in found.stderr
