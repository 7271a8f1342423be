"""Tests of data sources: a path, the hub through a transport, and clear errors without either.

The hub is not contacted: the transport is a fake that records its requests.
"""

import importlib
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import BENCHMARKS, Source, SourceMissing, benchmark_named
from tutti.tasks.benchmarks.errors import UnknownBenchmark
from tutti.tasks.benchmarks.source import Hub, from_hub


def test_an_unknown_benchmark_lists_the_known_ones() -> None:
    """The error for an unknown name lists all benchmarks."""
    with pytest.raises(UnknownBenchmark) as caught:
        benchmark_named("gsm9k")
    assert all(name in str(caught.value) for name in BENCHMARKS)


def test_every_benchmark_is_complete() -> None:
    """Names are valid, revisions are full commit hashes, a licence is one line, and prompts and
    scorers are strings."""
    for name, benchmark in BENCHMARKS.items():
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", name)
        assert benchmark.licence and "\n" not in benchmark.licence
        assert benchmark.split in benchmark.splits
        if benchmark.hub is not None:
            assert re.fullmatch(r"[0-9a-f]{40}", benchmark.hub.revision), name


def test_the_hub_is_asked_for_the_pinned_or_the_given_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a path, the transport gets the repository, revision, patterns and a cache directory
    in the home."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    write_lines(tmp_path / "hub" / "test.jsonl", [{"question": "q", "answer": "#### 4"}])
    asked: list[tuple[Hub, Sequence[str], Path]] = []

    def download(hub: Hub, patterns: Sequence[str], cache: Path) -> Path:
        asked.append((hub, patterns, cache))
        return tmp_path / "hub"

    gsm8k = benchmark_named("gsm8k")
    assert len(list(gsm8k.load(Source(download=download)))) == 1
    assert len(list(gsm8k.load(Source(download=download, revision="abc")))) == 1
    assert [hub.revision for hub, _, _ in asked] == [gsm8k.hub and gsm8k.hub.revision, "abc"]
    assert asked[0][1] == list(gsm8k.splits["test"])
    assert asked[0][2] == tmp_path / "home" / "benchmarks"


def test_bfcl_brings_its_answers_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a benchmark reads beside those of its split are requested from the hub, too."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path))
    seen: list[str] = []

    def download(hub: Hub, patterns: Sequence[str], cache: Path) -> Path:
        seen.extend(patterns)
        return tmp_path

    with pytest.raises(SourceMissing):
        list(benchmark_named("bfcl").load(Source(download=download)))
    assert "possible_answer/*.json" in seen


def test_without_the_hub_s_package_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without huggingface_hub, the error names the package and --source."""

    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SourceMissing, match=r"pip install huggingface_hub.*--source"):
        from_hub(Hub("a/b", "c"), ["*"], tmp_path)


class StandIn:
    """Fake of huggingface_hub with the arguments of version 2.4."""

    def __init__(self, found: str | OSError) -> None:
        self.found = found

    def snapshot_download(
        self,
        repo_id: str,
        *,
        repo_type: str,
        revision: str,
        cache_dir: str,
        allow_patterns: list[str],
    ) -> str:
        """Return or raise the value given to the constructor."""
        if isinstance(self.found, OSError):
            raise self.found
        return self.found


def test_what_the_hub_s_package_gives_or_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package's folder is used; its errors are raised as ours, with the request."""
    hub = Hub("a/b", "c1")
    monkeypatch.setattr(importlib, "import_module", lambda name: StandIn(str(tmp_path)))
    assert from_hub(hub, ["*"], tmp_path) == tmp_path
    monkeypatch.setattr(importlib, "import_module", lambda name: StandIn(OSError("no network")))
    with pytest.raises(
        SourceMissing, match="a/b@c1 could not be downloaded from the hub: no network"
    ):
        from_hub(hub, ["*"], tmp_path)


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("gsm8k", {}, "holds none of test.jsonl.*it holds other.txt"),
        ("gsm8k", {"split": "dev"}, "no split 'dev'; it has test, train"),
        ("gsm8k", {"revision": "abc"}, "Leave out one of the two"),
    ],
)
def test_a_folder_that_does_not_serve(
    tmp_path: Path, name: str, asked: dict[str, str], said: str
) -> None:
    """The error says which files were expected and which exist."""
    (tmp_path / "other.txt").write_text("")
    with pytest.raises(SourceMissing, match=said):
        load(name, tmp_path, None, **asked)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    """Errors are raised for a path that does not exist, and for a benchmark that is on no hub and
    has no path."""
    with pytest.raises(SourceMissing, match="does not exist"):
        load("gsm8k", tmp_path / "gone")
    with pytest.raises(SourceMissing, match="bird is not on the hub"):
        list(benchmark_named("bird").load(Source()))
