"""Tests that weights are counted as in the published models, by headers if there are files."""

import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tutti.tasks.platform.project import POCKET
from tutti.tasks.serving import WeightsError
from tutti.tasks.training.jobs.settings import Learning, LoraSettings
from tutti.tasks.training.plans.model_size import ModelSize, memory_parts, size_of_checkpoint

POCKET_CONFIG = (POCKET / "config.json").read_text()
PUBLISHED = {
    "Qwen3-8B": 8_190_735_360,
    "Qwen2.5-32B": 32_763_876_352,
    "Meta-Llama-3-8B-Instruct": 8_030_261_248,
    "Mistral-7B-Instruct-v0.3": 7_248_023_552,
    "gemma-2-2b-it": 2_614_341_888,
}
"""As the model cards on the hub count their safetensors."""


def size(name: str) -> ModelSize:
    found = size_of_checkpoint(Path("checkpoints") / name)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "weights"), PUBLISHED.items())
def test_a_known_model_has_as_many_weights_as_published(name: str, weights: int) -> None:
    assert size(name).parameters == weights
    assert "published configuration" in size(name).source


def test_the_pocket_model_is_counted_in_its_files_and_its_configuration_agrees(
    tmp_path: Path,
) -> None:
    of_files = size_of_checkpoint(POCKET)
    (tmp_path / "config.json").write_bytes((POCKET / "config.json").read_bytes())
    of_config = size_of_checkpoint(tmp_path)
    assert of_files is not None and of_config is not None
    assert of_files.parameters == of_config.parameters == 4_066_048
    assert "headers" in of_files.source and "config.json" in of_config.source


def test_the_headers_of_several_files_are_counted_and_no_more_of_them(tmp_path: Path) -> None:
    """The files' data, here a hole, are not read. A truncated file is not counted."""
    (tmp_path / "config.json").write_bytes((POCKET / "config.json").read_bytes())
    for number, shape in enumerate(([3, 5], [7])):
        size = 4 * math.prod(shape)
        tensor = {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}
        header = {"__metadata__": {"format": "pt"}, "w": tensor}
        told = json.dumps(header).encode()
        file = tmp_path / f"model-0000{number}-of-00002.safetensors"
        file.write_bytes(struct.pack("<Q", len(told)) + told)
        os.truncate(file, 8 + len(told) + size)
    found = size_of_checkpoint(tmp_path)
    assert found is not None and found.parameters == 15 + 7
    os.truncate(file, 20)
    found = size_of_checkpoint(tmp_path)
    assert found is not None and "config.json" in found.source


def test_an_unknown_model_has_no_size(tmp_path: Path) -> None:
    assert size_of_checkpoint(tmp_path / "somebody-7b") is None
    for config in (
        '{"model_type": "mamba", "hidden_size": 64}',
        POCKET_CONFIG.replace("256", '"256"'),
    ):
        (tmp_path / "config.json").write_text(config)
        assert size_of_checkpoint(tmp_path) is None
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(WeightsError, match="invalid JSON"):
        size_of_checkpoint(tmp_path)


def test_an_adapter_has_rank_times_inputs_and_outputs() -> None:
    """PEFT's own count for rank 16 on all projections of Qwen3-8B is 43,646,976."""
    assert size("Qwen3-8B").adapter_parameters(LoraSettings(rank=16)) == 43_646_976
    one = LoraSettings(rank=2, targets=("k_proj",))
    assert size("Qwen3-8B").adapter_parameters(one) == 36 * 2 * (4096 + 1024)


def test_memory_by_hand() -> None:
    """There are ten weights, an adapter of three, two layers of width 4, 5 tokens and 7 words."""
    small = ModelSize(10, "by hand", 2, 4, 7, {})
    logits = 2 * 4 * 5 * 7

    def parts(adapter: int | None = None, **fields: Any) -> dict[str, int]:
        job = Learning.model_validate({"objective": "dapo"} | fields)
        return {each.what: each.size_bytes for each in memory_parts(small, 10, job, 5, adapter)}

    reference: dict[str, Any] = {"objective_settings": {"kl": 0.1}}
    assert parts() == {
        "weights": 40, "gradients": 40, "AdamW": 80, "weights, cast": 20,
        "activations": 34 * 5 * 4 * 2, "logits": logits,
    }  # fmt: skip
    assert parts(3, **reference, gradient_checkpointing=True) == {
        "weights": 40, "adapter": 12, "gradients": 12, "AdamW": 24, "weights, cast": 20,
        "activations": (2 * 2 + 34) * 5 * 4, "logits": logits,
    }  # fmt: skip
    assert parts(**reference, dtype="float32") == {
        "weights": 40, "gradients": 40, "AdamW": 80, "reference": 40,
        "activations": 2 * 34 * 5 * 4 * 2, "logits": logits,
    }  # fmt: skip


def test_the_logits_of_a_long_micro_batch_are_those_of_a_chunk() -> None:
    logits = memory_parts(size("Qwen3-8B"), 1, Learning(), 32768)[-1]
    assert logits.size_bytes == 8 * (2**25 // 151936) * 151936
