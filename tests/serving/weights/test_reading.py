"""Tests of reading a checkpoint by its headers; missing or incomplete files are refused with a
fix."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.weights.checkpoints import (
    CONFIG,
    TENSORS,
    TENSORS_BYTES,
    Tensors,
    make_checkpoint,
    split_checkpoint,
    write_safetensors,
)
from tutti.tasks.platform.project import POCKET
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.weights import read_weights
from tutti.tasks.serving.weights.tensor_files import read_tensors

BITS = {"BF16": 16, "F32": 32, "F8_E4M3": 8, "I64": 64}
INDEX = "model.safetensors.index.json"
DEEP = "[" * 0x17F7F


def refusal(folder: Path) -> str:
    with pytest.raises(RegistryError) as failure:
        read_weights(folder)
    message = str(failure.value)
    assert "\n" not in message
    return message


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "model")


@pytest.fixture
def sharded(tmp_path: Path, checkpoint: Path) -> Path:
    return split_checkpoint(checkpoint, tmp_path / "sharded", 3)


def test_one_file(checkpoint: Path) -> None:
    weights = read_weights(checkpoint)
    assert weights.files == (checkpoint / "model.safetensors",)
    assert weights.form == "safetensors"
    assert weights.config == CONFIG
    assert weights.loaded_bytes == TENSORS_BYTES
    sizes = {name: each.bytes for name, each in read_tensors(weights.files[0]).items()}
    assert sizes == {name: len(data) for name, (_, _, data) in TENSORS.items()}


def test_shards_hold_the_same_tensors(checkpoint: Path, sharded: Path) -> None:
    whole, parts = read_weights(checkpoint), read_weights(sharded)
    assert [file.name for file in parts.files] == [
        f"model-0000{k}-of-00003.safetensors" for k in (1, 2, 3)
    ]
    assert parts.loaded_bytes == whole.loaded_bytes


def test_tensors_that_a_server_leaves_out(checkpoint: Path) -> None:
    """Qwen3-1.7B stores its embeddings twice, DeepSeek a layer for speculation; both count on
    disk."""
    config = {**CONFIG, "tie_word_embeddings": True, "num_nextn_predict_layers": 1}
    tensors: Tensors = {
        "model.embed_tokens.weight": ("BF16", (4,), bytes(8)),
        "model.layers.1.w": ("BF16", (1,), bytes(2)),
        "model.layers.2.w": ("BF16", (10,), bytes(20)),
        "lm_head.weight": ("BF16", (4,), bytes(8)),
    }
    write_safetensors(checkpoint / "model.safetensors", tensors)
    assert read_weights(checkpoint).loaded_bytes == 38
    (checkpoint / "config.json").write_text(json.dumps(config))
    assert read_weights(checkpoint).loaded_bytes == 10


@pytest.mark.parametrize(
    ("vocabulary", "config", "fits"),
    [
        ({"a": 0, "b": 4095}, {"vocab_size": 4096}, True),
        ({"a": 0, "b": 4096}, {"vocab_size": 4096}, False),
        ({"a": 0, "b": 4096}, {"text_config": {"vocab_size": 4096}}, False),
        ([["a", 0.0], ["b", -1.0], ["c", -2.0]], {"vocab_size": 2}, False),
        ([["a", 0.0], ["b", -1.0]], {"vocab_size": 2}, True),
        ({"a": 9}, {}, True),
        ("of another form", {"vocab_size": 2}, True),
    ],
)
def test_the_tokenizer_of_another_model(
    checkpoint: Path, vocabulary: Any, config: dict[str, Any], fits: bool
) -> None:
    """A server starts with it and fails at the first token for which the model has no embedding."""
    (checkpoint / "config.json").write_text(json.dumps({**CONFIG, **config}))
    told = {"model": {"vocab": vocabulary}, "added_tokens": [{"id": 10**6, "content": "<x>"}]}
    (checkpoint / "tokenizer.json").write_text(json.dumps(told))
    if fits:
        read_weights(checkpoint)
    else:
        said = refusal(checkpoint)
        assert "tokenizer.json: token ids up to " in said and "not of one model; copy" in said


def test_the_pocket() -> None:
    """The pocket model is shipped with the project; vLLM's own count of its parameters is
    4,066,048."""
    assert read_weights(POCKET).loaded_bytes == 2 * 4_066_048


def break_link(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("../blobs/gone")


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def remove(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (remove("model.safetensors"), "no weights there: neither model.safetensors"),
        (break_link, "a link to ../blobs/gone, which is not there"),
        (remove("config.json"), "no config.json; copy it"),
        (write("config.json", "{"), "config.json: invalid JSON"),
        (write("config.json", DEEP), "config.json: invalid JSON"),
        (write("model.safetensors", "\x7f\x7f\1\0\0\0\0\0" + DEEP), "its header is no JSON"),
        (write("config.json", "[]"), "config.json: a JSON object is expected"),
        (remove("tokenizer.json"), "no tokenizer (tokenizer.json, tokenizer.model or a vocab"),
        (write("model.safetensors", "short"), "no safetensors file: 5 bytes"),
        (write("model.safetensors", "version https://git-lfs.g"), "run `git lfs pull`"),
        (write("model.safetensors", "<html><body>404"), "no safetensors file: 15 bytes, of which"),
        (write("model.safetensors", "\2" + "\0" * 7 + "[]"), "its header: "),
        (write("model.safetensors", "\2" + "\0" * 7 + "{]"), "its header is no JSON"),
        (write(INDEX, "{}"), "no weight_map"),
        (write(INDEX, '{"weight_map": {"a": "../x"}}'), "weight_map names '../x', which is no"),
        (write(INDEX, '{"weight_map": {"a": "b.safetensors"}}'), "both model.safetensors and"),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    checkpoint: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(checkpoint)
    message = refusal(checkpoint)
    assert said in message
    assert message.startswith(str(checkpoint))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("adapter_model.safetensors", "a LoRA adapter's weights; name its base model's folder"),
        ("pytorch_model.bin", "weights in pickles; convert them"),
        ("consolidated.safetensors", "Mistral's own form"),
        ("model-00001-of-00002.safetensors", "only model-00001-of-00002.safetensors; rename"),
    ],
)
def test_weights_in_another_form_are_named(checkpoint: Path, name: str, said: str) -> None:
    (checkpoint / "model.safetensors").rename(checkpoint / name)
    assert said in refusal(checkpoint)


def test_no_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere").endswith(
        "nowhere: no such folder; name the folder of a checkpoint"
    )


def test_what_the_system_refuses_is_said(tmp_path: Path) -> None:
    """An example is missing permissions; the test uses an overlong name, which newer versions of
    Python treat as missing."""
    said = refusal(tmp_path / ("x" * 300))
    assert said.endswith(("cannot be read: File name too long", "name the folder of a checkpoint"))


def test_a_missing_shard_is_named(sharded: Path) -> None:
    (sharded / "model-00002-of-00003.safetensors").unlink()
    said = "model-00002-of-00003.safetensors missing, which model.safetensors.index.json names"
    assert said in refusal(sharded)


def test_a_tensor_in_no_shard_is_named(sharded: Path) -> None:
    index = json.loads((sharded / INDEX).read_text())
    index["weight_map"]["lm_head"] = "model-00001-of-00003.safetensors"
    (sharded / INDEX).write_text(json.dumps(index))
    assert "lm_head in none of the files (1 of 5 tensors)" in refusal(sharded)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"dtype": "BF16", "shape": [4], "data_offsets": [0, 6]}, "cannot lie at bytes 0 to 6"),
        ({"dtype": "BF16", "shape": [3], "data_offsets": [6, 0]}, "cannot lie at bytes 6 to 0"),
        (
            {"dtype": "BF16", "shape": [3], "data_offsets": [2, 8]},
            "cannot lie at bytes 2 to 8, after 0",
        ),
        ({"dtype": "BF16", "shape": [3]}, "its header: t.data_offsets: "),
        (7, "its header: t: "),
        ({"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}, "t.dtype: "),
        ({"dtype": "F32", "shape": [1.5], "data_offsets": [0, 6]}, "t.shape.0: "),
        ({"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}, "t.shape.0: "),
        ({"dtype": "F32", "shape": "a", "data_offsets": [0, 4]}, "t.shape: "),
        ({"dtype": "F32", "shape": [1], "data_offsets": [0, "4"]}, "t.data_offsets.1: "),
        ({"dtype": "X", "shape": [-1, -6], "data_offsets": [0, 6]}, "t.shape.0: "),
        ({"dtype": "X", "shape": [10**4000] * 9, "data_offsets": [0, 6]}, "t.shape.0: "),
        ({"dtype": "X", "shape": [2] * 99, "data_offsets": [0, 6]}, "t.shape: "),
    ],
)
def test_a_header_that_contradicts_itself_is_none(checkpoint: Path, entry: Any, said: str) -> None:
    text = json.dumps({"t": entry}).encode()
    data = len(text).to_bytes(8, "little") + text + bytes(6)
    (checkpoint / "model.safetensors").write_bytes(data)
    assert said in refusal(checkpoint)


@pytest.mark.parametrize("lost", range(1, 500, 7))
def test_a_file_cut_anywhere_is_refused(checkpoint: Path, lost: int) -> None:
    """The download is incomplete, possibly within the header. The message has both sizes."""
    file = checkpoint / "model.safetensors"
    data = file.read_bytes()
    kept = len(data) - lost % len(data)
    file.write_bytes(data[: kept or 1])
    message = refusal(checkpoint)
    assert "bytes" in message and "fetch it again" in message
    if kept > 8:
        assert f"{kept:,} bytes, at least " in message


def test_a_file_longer_than_its_header_says_is_refused(checkpoint: Path) -> None:
    with (checkpoint / "model.safetensors").open("ab") as file:
        file.write(b"\0")
    assert "expected by its header: the file is damaged" in refusal(checkpoint)


@st.composite
def tensor_sets(draw: st.DrawFn) -> Tensors:
    names = draw(st.lists(st.text("abc.", min_size=1), min_size=1, max_size=12, unique=True))
    found = {}
    for name in names:
        dtype = draw(st.sampled_from(sorted(BITS)))
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        count = 1
        for each in shape:
            count *= each
        found[name] = (
            dtype,
            shape,
            draw(st.binary(min_size=0, max_size=0)) + bytes(count * BITS[dtype] // 8),
        )
    return found


@given(tensors=tensor_sets(), shards=st.integers(1, 5), cut=st.floats(0, 1, exclude_max=True))
def test_split_and_cut(
    tmp_path_factory: pytest.TempPathFactory, tensors: Tensors, shards: int, cut: float
) -> None:
    """Shards have the tensors, bytes and dtypes of the whole; a file cut at any byte is refused."""
    base = tmp_path_factory.mktemp("split")
    whole = make_checkpoint(base / "whole", tensors)
    parts = read_weights(split_checkpoint(whole, base / "parts", shards))
    assert parts.loaded_bytes == read_weights(whole).loaded_bytes
    found = [read_tensors(file) for file in parts.files]
    joined = {name: tensor for part in found for name, tensor in part.items()}
    assert joined == dict(read_tensors(whole / "model.safetensors"))
    file = whole / "model.safetensors"
    file.write_bytes(file.read_bytes()[: int(cut * file.stat().st_size)])
    with pytest.raises(RegistryError):
        read_weights(whole)


def test_split_copies_the_data(tmp_path: Path, checkpoint: Path) -> None:
    split = read_weights(split_checkpoint(checkpoint, tmp_path / "three", 3))
    data = b""
    for file in split.files:
        content = file.read_bytes()
        data += content[8 + int.from_bytes(content[:8], "little") :]
    assert data == b"".join(each for _, _, each in TENSORS.values())


def test_numbers_of_unknown_width_are_taken_as_they_lie(checkpoint: Path) -> None:
    write_safetensors(checkpoint / "model.safetensors", {"t": ("F5_NEW", (3,), bytes(7))})
    assert read_weights(checkpoint).loaded_bytes == 7
