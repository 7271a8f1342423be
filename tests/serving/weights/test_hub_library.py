"""Tests of the Hub's own library in the models environment, against the Hub's API on loopback."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.serving.weights.checkpoints import make_checkpoint, split_checkpoint
from tests.serving.weights.hub_server import COMMIT, TOKEN, Hub, serving
from tutti.tasks.platform.project import models_python_path
from tutti.tasks.serving import WeightsError
from tutti.tasks.serving.weights import read_weights, resolve_hub
from tutti.tasks.serving.weights.hub import CHILD
from tutti.tasks.serving.weights.identity import id_of

NAME = "org/model"


def has_library() -> bool:
    python = models_python_path()
    command = [str(python), "-c", "import huggingface_hub"]
    return python.is_file() and subprocess.run(command, capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not has_library(), reason="no models environment with huggingface_hub"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return split_checkpoint(make_checkpoint(tmp_path / "one"), tmp_path / "files", 2)


@pytest.fixture(autouse=True)
def _this_hub_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TUTTI_FETCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def hub_with(folder: Path, gated: bool = False) -> Hub:
    """Return a Hub with these files, and the same weights in another format."""
    files = {each.name: each.read_bytes() for each in folder.iterdir()}
    return Hub(NAME, {**files, "consolidated.safetensors": b"x" * 99, "README.md": b"#"}, gated)


def test_a_model_is_fetched_whole(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only files needed for serving are downloaded, in the cache layout that is read here and with
    the folder's id; the second time no request is made."""
    told: list[str] = []
    with serving(hub_with(folder)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        found = resolve_hub(f"{NAME}@main", report=told.append)
        asked = len(hub.requests)
        assert resolve_hub(f"{NAME}@main", report=told.append) == found
        assert len(hub.requests) == asked
    assert found == tmp_path / "home" / "hub" / "models--org--model" / "snapshots" / COMMIT
    assert id_of(read_weights(found)) == id_of(read_weights(folder))
    assert {each.name for each in found.iterdir()} == {each.name for each in folder.iterdir()}
    assert not any("consolidated" in request or "README" in request for request in hub.requests)
    assert f"fetching org/model@{COMMIT}: 0.0 MB in 5 files" in told[0]
    assert all((found / file.name).is_symlink() for file in folder.iterdir())


def test_a_gated_model_needs_the_token_of_the_environment(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text(TOKEN)
    with serving(hub_with(folder, gated=True)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with pytest.raises(WeightsError, match=r"GatedRepoError: .*set HF_TOKEN"):
            resolve_hub(f"{NAME}@main", report=lambda line: None)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        assert resolve_hub(f"{NAME}@{COMMIT}", report=lambda line: None).name == COMMIT


@pytest.mark.parametrize(
    ("name", "revision", "said"),
    [
        ("org/other", "main", "RepositoryNotFoundError: .*check its name"),
        (NAME, "v9", "RevisionNotFoundError: .*name a commit, branch or tag"),
    ],
)
def test_what_is_not_there_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, revision: str, said: str
) -> None:
    with serving(hub_with(folder)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with pytest.raises(WeightsError, match=said):
            resolve_hub(f"{name}@{revision}", report=lambda line: None)


def test_a_download_ends_with_whoever_wants_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = {"name": NAME, "revision": COMMIT, "cache": str(tmp_path / "hub"), "stall_s": 300.0}
    with serving(hub_with(folder)) as hub:
        hub.delay_s = 30.0
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        command = [str(models_python_path()), "-I", str(CHILD)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        assert child.stdin is not None
        child.stdin.write(json.dumps(order) + "\n")
        child.stdin.flush()
        deadline = time.monotonic() + 60
        while not hub.requests and time.monotonic() < deadline:
            time.sleep(0.05)
        assert hub.requests and child.poll() is None
        child.stdin.close()
        assert child.wait(60) == 1
