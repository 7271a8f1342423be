"""Tests of GGUF: headers only, parts of one model together, and a configuration from the
metadata."""

from pathlib import Path

import pytest

from tests.serving.weights.checkpoints import gguf_bytes, gguf_text
from tutti.tasks.serving import WeightsError
from tutti.tasks.serving.weights import read_weights
from tutti.tasks.serving.weights.identity import id_of

METADATA = {
    "general.architecture": "qwen3",
    "qwen3.block_count": 28,
    "qwen3.embedding_length": 2048,
    "qwen3.attention.head_count": 16,
    "qwen3.attention.head_count_kv": 8,
    "qwen3.attention.key_length": 128,
    "qwen3.rope.dimension_count": 128,
    "tokenizer.ggml.tokens": ["a", "b", "c"] * 2000,
}
Q4_K, F16 = 12, 1
TENSORS = {"blk.0.w": (Q4_K, (256, 8), 8 * 144), "norm": (F16, (64,), 128)}


def refusal(path: Path) -> str:
    with pytest.raises(WeightsError) as failure:
        read_weights(path)
    return str(failure.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model-Q4_K_M.gguf"
    path.write_bytes(gguf_bytes(METADATA, TENSORS))
    return path


def test_a_file_and_its_folder_are_the_same(file: Path) -> None:
    weights = read_weights(file)
    assert weights == read_weights(file.parent)
    assert weights.form == "gguf"
    assert weights.loaded_bytes == file.stat().st_size
    assert id_of(weights) == id_of(read_weights(file.parent))


def test_the_configuration_is_in_the_metadata(file: Path) -> None:
    assert read_weights(file).config == {
        "model_type": "qwen3",
        "num_hidden_layers": 28,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }


def test_several_models_in_a_folder_must_be_told_apart(file: Path) -> None:
    other = file.with_name("model-Q8_0.gguf")
    other.write_bytes(file.read_bytes())
    assert "2 models in GGUF form (model-Q4_K_M.gguf, model-Q8_0.gguf); name the file" in refusal(
        file.parent
    )
    assert read_weights(other).files == (other,)


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    found = []
    for number, (name, tensor) in enumerate(TENSORS.items(), start=1):
        metadata = METADATA if number == 1 else {}
        path = tmp_path / f"big-0000{number}-of-00002.gguf"
        path.write_bytes(gguf_bytes({**metadata, "split.tensors.count": 2}, {name: tensor}))
        found.append(path)
    return found


def test_parts_are_one_model(parts: list[Path]) -> None:
    weights = read_weights(parts[0].parent)
    assert weights.files == tuple(parts)
    assert weights == read_weights(parts[1])
    assert weights.loaded_bytes == sum(each.stat().st_size for each in parts)


def test_a_missing_part_is_named(parts: list[Path]) -> None:
    parts[1].unlink()
    assert "big-00002-of-00002.gguf missing (1 of 2 parts)" in refusal(parts[0])


def test_a_file_cut_in_its_header_is_refused(file: Path) -> None:
    """Within the metadata; the server says at its start whether the data are whole."""
    data = file.read_bytes()
    for kept in (0, 3, 4, 10, 24, 100, 3000, len(data) // 2):
        file.write_bytes(data[:kept])
        assert f"it has {kept:,} bytes" in refusal(file) and "fetch it again" in refusal(file)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\3\4" + bytes(60), "it does not begin with GGUF and version 2 or 3"),
        (b"GGUF\1\0\0\0" + bytes(60), "it does not begin with GGUF and version 2 or 3"),
        (gguf_bytes(METADATA, {}), "no tensors (a vocabulary only)"),
        (
            b"GGUF\3\0\0\0" + bytes(8) + b"\1" + bytes(7) + gguf_text("k") + b"\x63\0\0\0",
            "a value has the unknown type 99",
        ),
        (
            b"GGUF\3\0\0\0" + bytes(8) + b"\1" + bytes(7) + b"\xff" * 8 + bytes(50),
            "ends within its header",
        ),
    ],
)
def test_what_is_no_model_is_said(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    assert said in refusal(path)


def test_no_such_file(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "x.gguf")
