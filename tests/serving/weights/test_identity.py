"""Tests of a checkpoint's id: it depends on the content only, not on its place or how hashes are
obtained."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.weights.checkpoints import (
    CONFIG,
    make_cache,
    make_checkpoint,
    split_checkpoint,
)
from tutti.storage import content_hash
from tutti.tasks.platform.project import POCKET
from tutti.tasks.serving import WeightsError
from tutti.tasks.serving.weights import identity as of
from tutti.tasks.serving.weights import read_weights, weights_id
from tutti.tasks.serving.weights.identity import id_of
from tutti.tasks.serving.weights.tensor_files import opened

FILES = ("model.safetensors", "config.json", "tokenizer.json")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _small_files_are_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of, "WORTH_KEEPING_BYTES", 1)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "model")


@pytest.fixture
def read_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def open_and_note(path: Path) -> AbstractContextManager[BinaryIO]:
        found.append(path.name)
        return opened(path)

    monkeypatch.setattr(of, "opened", open_and_note)
    return found


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr("tutti.tasks.serving.weights.identity.time.time", lambda: now + 60)


def scheme(folder: Path, *names: str) -> str:
    """Return the id of these files in the format of all stores."""
    content = [[name, content_hash((folder / name).read_bytes())] for name in names]
    return f"checkpoint:{content_hash(content)}"


def test_a_single_file_has_the_id_that_stores_know(checkpoint: Path) -> None:
    assert id_of(read_weights(checkpoint)) == scheme(checkpoint, *FILES)
    (checkpoint / "chat_template.jinja").write_text("{{ messages }}")
    four = (*FILES, "chat_template.jinja")
    assert id_of(read_weights(checkpoint)) == scheme(checkpoint, *four)
    (checkpoint / "tokenizer.json").rename(checkpoint / "tokenizer.model")
    assert id_of(read_weights(checkpoint)) == scheme(checkpoint, *four[:2], four[3])
    assert id_of(read_weights(POCKET)) == weights_id(POCKET)


def test_the_scheme_over_shards(tmp_path: Path, checkpoint: Path) -> None:
    """The id covers all shards, their index, and all vocabulary files."""
    folder = split_checkpoint(checkpoint, tmp_path / "two", 2)
    shards = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    files = (*shards, "model.safetensors.index.json", "config.json")
    assert id_of(read_weights(folder)) == scheme(folder, *files, "tokenizer.json")
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    (folder / "merges.txt").write_text("a b")
    assert id_of(read_weights(folder)) == scheme(folder, *files, "vocab.json", "merges.txt")


@pytest.mark.parametrize("shards", [1, 3])
def test_a_cache_of_the_hub_and_a_folder_are_equal(
    tmp_path: Path, checkpoint: Path, shards: int, read_files: list[str]
) -> None:
    """No byte of the weights is read, because the blob's name is their hash."""
    if shards > 1:
        checkpoint = split_checkpoint(checkpoint, tmp_path / "split", shards)
    snapshot = make_cache(tmp_path / "hub", "org/model", COMMIT, checkpoint)
    cached = id_of(read_weights(snapshot))
    small = [*(["model.safetensors.index.json"] if shards > 1 else []), "config.json"]
    blobs = [(snapshot / name).resolve().name for name in (*small, "tokenizer.json")]
    assert read_files == blobs
    assert cached == id_of(read_weights(checkpoint))


def test_a_link_elsewhere_is_no_blob(tmp_path: Path, checkpoint: Path) -> None:
    real = tmp_path / "blobs" / ("a" * 64)
    real.parent.mkdir()
    (checkpoint / "model.safetensors").rename(real)
    (checkpoint / "model.safetensors").symlink_to(real)
    assert id_of(read_weights(checkpoint)) == scheme(checkpoint, *FILES)


@given(st.integers(0, 2**31), st.sampled_from(["model.safetensors", "config.json"]))
def test_times_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, mtime: int, name: str
) -> None:
    folder = make_checkpoint(tmp_path_factory.mktemp("times") / "model")
    before = id_of(read_weights(folder))
    os.utime(folder / name, (mtime, mtime))
    assert id_of(read_weights(folder)) == before


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_each_file_matters(checkpoint: Path, name: str) -> None:
    before = id_of(read_weights(checkpoint))
    if name == "model.safetensors":
        data = bytearray((checkpoint / name).read_bytes())
        data[-1] ^= 1
        (checkpoint / name).write_bytes(bytes(data))
    else:
        (checkpoint / name).write_text(json.dumps({**CONFIG, "changed": 1}))
    assert id_of(read_weights(checkpoint)) != before


def test_a_book_saves_reading_until_a_file_changes(
    tmp_path: Path, checkpoint: Path, read_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is detected even with equal size and modification time, by the inode's change
    time."""
    settle(monkeypatch)
    book = tmp_path / "home"
    first = id_of(read_weights(checkpoint), book)
    read_files.clear()
    assert id_of(read_weights(checkpoint), book) == first
    assert not read_files
    file = checkpoint / "model.safetensors"
    state, data = file.stat(), bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert id_of(read_weights(checkpoint), book) == id_of(read_weights(checkpoint))
    assert id_of(read_weights(checkpoint), book) != first


def test_a_file_that_was_just_written_is_not_trusted(
    tmp_path: Path, checkpoint: Path, read_files: list[str]
) -> None:
    """A second change within the same clock tick would leave its times unchanged."""
    book = tmp_path / "home"
    id_of(read_weights(checkpoint), book)
    read_files.clear()
    id_of(read_weights(checkpoint), book)
    assert "model.safetensors" in read_files


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 1}', '{"x": {"key": [1], "sha256": 2}}'])
def test_a_damaged_book_is_written_anew(
    tmp_path: Path, checkpoint: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    book = tmp_path / "home"
    first = id_of(read_weights(checkpoint), book)
    (page,) = (book / "weights").iterdir()
    page.write_text(content)
    assert id_of(read_weights(checkpoint), book) == first
    assert len(json.loads(page.read_text())) == 3


def test_a_file_that_changes_meanwhile_is_refused(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    @contextmanager
    def open_and_grow(path: Path) -> Iterator[BinaryIO]:
        with opened(path) as data:
            yield data
        path.write_bytes(path.read_bytes() + b"x")

    monkeypatch.setattr(of, "opened", open_and_grow)
    with pytest.raises(WeightsError, match="changed while it was read"):
        id_of(read_weights(checkpoint))
