"""Tests of other trainers' logs in their own format, read as rows with the names of
`train_steps`."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tutti.storage import COLUMNS
from tutti.tasks.training.backends import backend_of

LLAMA_FACTORY = [
    {"current_steps": 1, "total_steps": 2, "loss": 2.5, "lr": 0.1, "throughput": 9.0,
     "total_tokens": 90},
    {"current_steps": 2, "total_steps": 2, "loss": 2.0, "lr": 0.0, "throughput": 9.5,
     "total_tokens": 180},
    {"current_steps": 2, "total_steps": 2, "epoch": 1.0},
]  # fmt: skip
TRL = [
    {"step": 1, "elapsed_s": 2.0, "loss": 2.5, "grad_norm": 1.0, "learning_rate": 0.1,
     "num_tokens": 90.0, "mean_token_accuracy": 0.5, "entropy": 1.5},
    {"step": 2, "elapsed_s": 3.0, "loss": 2.0, "num_tokens": 180.0},
    {"step": 2, "elapsed_s": 3.0, "train_runtime": 3.0},
]  # fmt: skip
VERL = [
    {"step": 1, "data": {"train/loss": 2.5, "train/lr": 0.1, "train/global_tokens": 90}},
    {"step": 1, "data": {"val/loss": 2.4}},
    {"step": 2, "data": {"train/loss": 2.0, "train/grad_norm": 1.0, "train/global_tokens": 90}},
]
PRIME_RL = [
    {"step": 1, "loss/mean": 2.5, "optim/lr": 0.1, "progress/num_tokens": 90},
    {"step": 1, "time/step": 1.0},
    {"step": 2, "loss/mean": 2.0, "perf/throughput": 90.0, "progress/num_tokens": 180},
]
NEMO_RL = """
========================= Step 1/2 =========================
📊 Training Results:
  • Loss: 2.5000
  • Total step time: 2.00s
========================= Step 1/2 =========================
  • Loss: 2.0000
"""


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("llama-factory", "output/trainer_log.jsonl", lines(LLAMA_FACTORY)),
        ("trl", "output/trainer_log.jsonl", lines(TRL)),
        ("verl", "metrics.jsonl", lines(VERL)),
        ("prime-rl", "output/sft/metrics.jsonl", lines(PRIME_RL)),
        ("nemo-rl", "console.log", NEMO_RL),
    ],
)
def test_steps_are_read_back(name: str, file: str, text: str, tmp_path: Path) -> None:
    """This also holds while the last line is incomplete, and before there is a log."""
    assert backend_of(name).read_steps(tmp_path) == []
    log = tmp_path / file
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text + '{"st')
    rows = backend_of(name).read_steps(tmp_path)
    assert [(row["step"], row["loss"]) for row in rows] == [(1, 2.5), (2, 2.0)]
    assert all(row.keys() <= COLUMNS["train_steps"].keys() for row in rows)
    if name != "nemo-rl":
        assert [row.get("tokens") for row in rows] == [90, 180]


def test_speed_of_a_step(tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "trainer_log.jsonl").write_text(lines(TRL))
    rows = backend_of("trl").read_steps(tmp_path)
    assert [row["tokens_per_s"] for row in rows] == [45.0, 90.0]
    assert rows[0]["gradient_norm"] == 1.0 and rows[0]["token_accuracy"] == 0.5
