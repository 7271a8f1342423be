"""Tests of models of the Hub: a model is its cache's snapshot, and missing files are downloaded
after their size is printed."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.serving.weights.checkpoints import make_cache, make_checkpoint, split_checkpoint
from tutti.tasks.serving import WeightsError
from tutti.tasks.serving.processes import ModelsEnvironmentMissing
from tutti.tasks.serving.weights import HubId, hub, read_weights, resolve_hub
from tutti.tasks.serving.weights.hub import cache_folder
from tutti.tasks.serving.weights.hub_child import NoModel, choose_files
from tutti.tasks.serving.weights.identity import id_of

DOUBLE = Path(__file__).with_name("hub_child_double.py")
NAME = "org/model"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40


@pytest.fixture(autouse=True)
def _nothing_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "TUTTI_FETCH", "HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", "/nonexistent/python")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return split_checkpoint(make_checkpoint(tmp_path / "one"), tmp_path / "files", 2)


@pytest.fixture
def cache(tmp_path: Path, folder: Path) -> Path:
    make_cache(tmp_path / "hub", NAME, COMMIT, folder)
    return tmp_path / "hub"


def resolve(
    name: str,
    revision: str | None = None,
    cache: Path | None = None,
    offline: bool = False,
    report: Callable[[str], None] | None = None,
) -> Path:
    with pytest.MonkeyPatch.context() as environment:
        if cache is not None:
            environment.setenv("HF_HUB_CACHE", str(cache))
        return resolve_hub(name if revision is None else f"{name}@{revision}", offline, report)


def refusal(*given: Any, **options: Any) -> str:
    with pytest.raises(WeightsError) as failure:
        resolve(*given, **options)
    assert "\n" not in str(failure.value)
    return str(failure.value)


@pytest.mark.parametrize(
    ("text", "name", "revision"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B", None),
        (" Qwen/Qwen3-8B@main ", "Qwen/Qwen3-8B", "main"),
        (f"openai/gpt-oss-120b@{COMMIT}", "openai/gpt-oss-120b", COMMIT),
        ("a/b.c_d@refs/pr/3", "a/b.c_d", "refs/pr/3"),
        ("a/b@v1.0", "a/b", "v1.0"),
    ],
)
def test_names(text: str, name: str, revision: str | None) -> None:
    found = HubId.parse(text)
    assert (found.name, found.revision) == (name, revision or "main")
    assert str(found) == f"{name}@{revision or 'main'}"
    assert found.is_commit == (revision == COMMIT)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Qwen3-8B", "no name of a model on the Hub; write organisation/name@revision"),
        ("a/b/c@main", "no name of a model"),
        ("../b", "no name of a model"),
        ("a/..", "no name of a model"),
        ("a/b--c", "no name of a model"),
        ("https://huggingface.co/a/b", "no name of a model"),
        ("a/b@", "'' is no revision; write a commit (40 hex digits), a branch or a tag"),
        ("a/b@../../x", "is no revision"),
        ("a/b@-x", "is no revision"),
        ("a/b@0123456", "is no whole commit (7 of 40 hex digits, in lower case); write all 40"),
        (f"a/b@{COMMIT}0", "is no whole commit (41 of 40 hex digits"),
        (f"a/b@{COMMIT.upper()}", "is no whole commit (40 of 40 hex digits, in lower case)"),
    ],
)
def test_wrong_names(text: str, said: str) -> None:
    with pytest.raises(WeightsError) as failure:
        HubId.parse(text)
    assert said in str(failure.value)
    assert str(failure.value).startswith(repr(text))


@pytest.mark.parametrize("offline", [True, False])
def test_a_whole_snapshot_needs_nobody(cache: Path, offline: bool) -> None:
    told: list[str] = []
    found = resolve(NAME, COMMIT, cache, offline, told.append)
    assert found.name == COMMIT and not told
    assert read_weights(found).loaded_bytes == 85


def test_the_commit_of_a_branch_is_told(cache: Path) -> None:
    """The user can then write it down; a name without revision is `main`."""
    told: list[str] = []
    assert resolve(NAME, None, cache, True, told.append).name == COMMIT
    assert told == [f"org/model@main is commit {COMMIT} in {cache}"]


def test_without_a_listener_it_is_told_on_stderr(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resolve(NAME, "main", cache)
    assert capsys.readouterr().err.startswith("tutti: org/model@main is commit 0123")


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({}, "~/.cache/huggingface/hub"),
    ],
)
def test_where_the_cache_is(variables: dict[str, str], folder: str) -> None:
    assert cache_folder(variables) == Path(folder).expanduser()


def test_the_cache_is_found_by_the_environment(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert resolve(NAME, COMMIT).parent.parent.parent == cache


def test_offline_without_the_model(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = f"run `hf download org/model --revision {OTHER} --cache-dir {cache}`"
    message = refusal(NAME, OTHER, cache, True)
    assert f"commit {OTHER} is not in the cache {cache} (commits there: {COMMIT})" in message
    assert "it may not be fetched offline" in message and by_hand in message
    monkeypatch.setenv("HF_HUB_OFFLINE", "yes")
    for offline in (True, False):
        assert "HF_HUB_OFFLINE forbids to fetch it" in refusal(NAME, OTHER, cache, offline)
    monkeypatch.setenv("TUTTI_FETCH", "never")
    assert "TUTTI_FETCH=never forbids to fetch it" in refusal(NAME, OTHER, cache, False)
    assert "not in the cache" in refusal("org/other", None, cache)


def test_a_missing_blob_is_found_before_a_start(cache: Path) -> None:
    snapshot = resolve(NAME, COMMIT, cache)
    (snapshot / "model-00002-of-00002.safetensors").resolve().unlink()
    message = refusal(NAME, COMMIT, cache, True)
    assert "model-00002-of-00002.safetensors: a link to ../../blobs/" in message
    assert "run `hf download" in message


def test_a_snapshot_in_part_is_not_whole(cache: Path) -> None:
    snapshot = resolve(NAME, COMMIT, cache)
    (snapshot / "model-00001-of-00002.safetensors").unlink()
    assert "model-00001-of-00002.safetensors missing" in refusal(NAME, COMMIT, cache, True)


def test_without_a_models_environment(tmp_path: Path) -> None:
    with pytest.raises(ModelsEnvironmentMissing, match="name a folder with the weights"):
        resolve(NAME, COMMIT, tmp_path / "hub")


class Double:
    """Fake of the models environment."""

    def __init__(self, folder: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log, self.monkeypatch = log, monkeypatch
        self.answers: dict[str, Any] = {
            "commit": COMMIT,
            "log": str(log),
            "files": {each.name: each.read_bytes().decode("latin-1") for each in folder.iterdir()},
        }
        monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(log.with_name("python")))
        launcher = f'#!/bin/sh\nexec {sys.executable} {DOUBLE} "$@"\n'
        log.with_name("python").write_text(launcher)
        log.with_name("python").chmod(0o755)
        self.set()

    def set(self, **changes: Any) -> None:
        self.answers |= changes
        self.monkeypatch.setenv("TUTTI_HUB_DOUBLE", json.dumps(self.answers))

    @property
    def orders(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def double(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """Yield a fake Hub that has the model; none of its processes is left at the end."""
    (tmp_path / "double").mkdir()
    found = Double(folder, tmp_path / "double" / "log", monkeypatch)
    yield found
    for order in found.orders if found.log.exists() else []:
        with suppress(ProcessLookupError):
            os.kill(order["pid"], 0)
            pytest.fail(f"process {order['pid']} was left running")


def test_a_model_is_fetched_once(double: Double, tmp_path: Path, folder: Path) -> None:
    """The size is printed first; the next time the cache has it, also under the branch."""
    told: list[str] = []
    cache = tmp_path / "new" / "hub"
    found = resolve(NAME, "main", cache, report=told.append)
    assert found == cache / "models--org--model" / "snapshots" / COMMIT
    assert told[0].startswith(f"fetching org/model@{COMMIT}: 0.0 MB in 5 files to {cache}; free")
    assert len(told) == 1
    assert [order["do"] for order in double.orders] == ["list", "fetch"]
    assert id_of(read_weights(found)) == id_of(read_weights(folder))
    assert resolve(NAME, None, cache, offline=True, report=told.append) == found
    assert told[1:] == [f"org/model@main is commit {COMMIT} in {cache}"]
    assert len(double.orders) == 2


def test_only_what_is_lacking_is_fetched(double: Double, cache: Path) -> None:
    snapshot = resolve(NAME, COMMIT, cache)
    (snapshot / "model-00002-of-00002.safetensors").resolve().unlink()
    told: list[str] = []
    assert resolve(NAME, COMMIT, cache, report=told.append) == snapshot
    assert "0.0 MB in 1 files" in told[0]


def test_too_little_room_is_found_before_gigabytes(double: Double, tmp_path: Path) -> None:
    double.set(bytes={"model-00001-of-00002.safetensors": 10**18})
    message = refusal(NAME, COMMIT, tmp_path / "hub", report=lambda line: None)
    assert "1000000000.0 GB to fetch, and" in message
    assert "make room, or set HF_HUB_CACHE to a folder on another disk" in message
    assert [order["do"] for order in double.orders] == ["list"]


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("GatedRepoError", "accept its terms on its page, and set HF_TOKEN"),
        ("RepositoryNotFoundError", "check its name; for a private one set HF_TOKEN"),
        ("RevisionNotFoundError", "name a commit, branch or tag that its page lists"),
        ("ModuleNotFoundError", "`make setup` installs it"),
        ("ConnectError", "try again, or fetch it by hand and name the folder"),
    ],
)
def test_failures_of_the_library_say_what_to_do(
    double: Double, tmp_path: Path, kind: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    double.set(error={"kind": kind, "error": "403 for hf_secret"})
    message = refusal(NAME, COMMIT, tmp_path / "hub")
    assert f"org/model@{COMMIT}: cannot be fetched: {kind}: " in message and f"; {fix}" in message
    assert "hf_secret" not in message


def test_the_token_is_in_no_argument(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    resolve(NAME, COMMIT, tmp_path / "hub", report=lambda line: None)
    assert "hf_secret" not in double.log.read_text()


def test_a_child_that_dies(double: Double, tmp_path: Path) -> None:
    double.set(crash="Fatal Python error: no memory")
    message = refusal(NAME, COMMIT, tmp_path / "hub")
    assert "exit code 3: Fatal Python error: no memory" in message


@pytest.mark.parametrize("phase", ["list", "fetch"])
def test_a_download_that_stands_still(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    monkeypatch.setattr(hub, "STALL_S", 1.0)
    double.set(hang=phase)
    message = refusal(NAME, COMMIT, tmp_path / "hub", report=lambda line: None)
    assert "TimeoutError: no byte arrived for 1 s; run the same command" in message


def test_what_was_fetched_is_looked_at(double: Double, tmp_path: Path) -> None:
    double.set(lose="model-00002-of-00002.safetensors")
    message = refusal(NAME, COMMIT, tmp_path / "hub", report=lambda line: None)
    assert "fetched, and yet" in message and "a link to ../../blobs/" in message


def chosen(*names: str) -> list[str]:
    return choose_files(dict.fromkeys(names, 10))


def test_weights_are_fetched_in_one_form() -> None:
    small = ["config.json", "tokenizer.json", "merges.txt", "chat_template.jinja", "code.py"]
    others = ["README.md", "pytorch_model.bin", "original/a.safetensors", "model.gguf", "x.onnx"]
    one = ["model.safetensors"]
    assert chosen(*small, *one, *others) == [*one, *small]
    index = "model.safetensors.index.json"
    two = ["model-1.safetensors", "model-2.safetensors"]
    found = chosen(index, *two, "consolidated.safetensors", *others, "config.json")
    assert found == [*two, index, "config.json"]
    assert chosen("a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "config.json") == [
        *("a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "config.json"),
    ]


def test_repositories_without_one_model_are_refused() -> None:
    with pytest.raises(NoModel, match=r"in its repository \(it has \.bin, \.json\)"):
        chosen("pytorch_model.bin", "config.json")
    with pytest.raises(NoModel, match=r"2 models in GGUF form .*`hf download NAME FILE"):
        chosen("a-Q4.gguf", "a-Q8.gguf")
