"""Tests of a policy's trainer: one step per batch, its weights written, and nothing lost or
repeated after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is in the models environment: make test-models")

import pyarrow as pa
import pyarrow.parquet as pq

from tests.training.trainer.pocket import POCKET, random_rows
from tutti.tasks.training.jobs.settings import TrainerSettings
from tutti.tasks.training.trainer.serve import parts_of, together

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(900),
]
STEPS = 4


class Trainer:
    """The process and its folder."""

    def __init__(self, folder: Path) -> None:
        self.work, self.out, self.log = folder / "work", folder / "out", folder / "log"
        self.work.mkdir(parents=True)
        fields: dict[str, Any] = {"base": POCKET, "data": POCKET, "objective": "grpo"}
        optimizer = {"learning_rate": 1e-3, "schedule": "constant", "warmup_share": 0.0}
        fields |= {"optimizer": optimizer, "dtype": "float32", "steps": STEPS}
        asked = TrainerSettings.model_validate(fields)
        (self.work / "settings.json").write_text(asked.model_dump_json())

    def start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tutti.tasks.training.trainer"]
        command += ["--settings", str(self.work / "settings.json")]
        command += ["--work", str(self.work), "--out", str(self.out)]
        with self.log.open("wb") as out:
            return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=os.getcwd())

    def rows(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"')]

    def until(self, child: "subprocess.Popen[bytes]", step: int) -> None:
        deadline = time.monotonic() + 90
        while not any(row.get("step") == step for row in self.rows()):
            assert child.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def give(self, step: int, count: int = 6) -> None:
        made = [
            {"name": row.name, "ids": row.ids, "turns": row.turns, "values": row.values,
             "logprobs": row.logprobs, "wanted": None}
            for row in random_rows(count, seed=step)
        ]  # fmt: skip
        schema = pa.schema(
            [
                ("name", pa.string()),
                ("ids", pa.list_(pa.int32())),
                ("turns", pa.list_(pa.int32())),
                ("values", pa.list_(pa.float32())),
                ("logprobs", pa.list_(pa.float32())),
                ("wanted", pa.bool_()),
            ]
        )
        file = self.work / f"batch-{step:06d}.parquet"
        pq.write_table(pa.Table.from_pylist(made, schema), file.with_suffix(".tmp"))
        file.with_suffix(".tmp").replace(file)

    def untidy(self, step: int) -> None:
        """Leave its folder in the state of a kill right after a step was reported."""
        (self.work / f"batch-{step:06d}.parquet").touch()
        for past in range(1, step + 1):
            (self.work / f"weights-{past:06d}").mkdir(exist_ok=True)


def losses(trainer: Trainer) -> dict[int, float]:
    return {row["step"]: row["loss"] for row in trainer.rows() if "step" in row}


def run_through(trainer: Trainer, kills: frozenset[int]) -> int:
    """Run all steps, with kill -9 after those in `kills`, and return the number of kills."""
    child, killed = trainer.start(), 0
    for step in range(1, STEPS + 1):
        trainer.give(step)
        trainer.until(child, step)
        if step in kills:
            child.send_signal(signal.SIGKILL)
            child.wait()
            killed += 1
            trainer.untidy(step)
            child = trainer.start()
    (trainer.work / "end").touch()
    assert child.wait(timeout=60) == 0, trainer.log.read_text()[-2000:]
    return killed


def test_kills_change_no_step(tmp_path: Path) -> None:
    """Killed twice in the middle, it has the losses and weights of an undisturbed run."""
    alone, killed = Trainer(tmp_path / "alone"), Trainer(tmp_path / "killed")
    assert run_through(alone, frozenset()) == 0
    assert run_through(killed, frozenset((1, 3))) == 2
    assert losses(killed) == losses(alone) and len(losses(alone)) == STEPS
    written = [row["weights"] for row in killed.rows() if "step" in row]
    assert written == [f"weights-{step:06d}" for step in range(1, STEPS + 1)]
    assert not list(killed.work.glob("batch-*"))
    kept = sorted(path.name for path in killed.work.glob("weights-*"))
    assert kept == ["weights-000003", "weights-000004"], "the engine may read the last but one"
    ours, theirs = (each.out / "model.safetensors" for each in (alone, killed))
    assert ours.read_bytes() == theirs.read_bytes()


def test_a_batch_without_rows_changes_no_weights(tmp_path: Path) -> None:
    """All groups were uninformative: the step is counted, and the weights stay."""
    trainer = Trainer(tmp_path)
    child = trainer.start()
    for step, count in ((1, 0), (2, 6), (3, 0)):
        trainer.give(step, count)
        trainer.until(child, step)
    child.kill()
    child.wait()
    rows = [row for row in trainer.rows() if "step" in row]
    assert [row["weights"] for row in rows] == [None, "weights-000002", "weights-000002"]
    assert rows[0]["loss"] is None and rows[1]["mismatch_kl"] > 0


def test_a_step_of_several_updates_trains_each_sequence_once_in_a_drawn_order() -> None:
    """The order is the same after a kill, because it follows from seed and step."""
    rows = random_rows(7, seed=0)
    parts = parts_of(rows, 3, "0 1")
    assert sorted(len(part) for part in parts) == [2, 2, 3]
    assert sorted(id(row) for part in parts for row in part) == sorted(map(id, rows))
    assert parts == parts_of(rows, 3, "0 1") != parts_of(rows, 3, "0 2")
    assert parts_of(rows, 1, "0 1") == [rows] and parts_of([], 3, "0 1") == []
    assert len(parts_of(rows, 99, "0 1")) == 7


def test_the_figures_of_several_updates_are_one_row() -> None:
    """Counts and seconds are summed, the rest is averaged by sequences; an unknown value stays
    unknown."""
    first: dict[str, Any] = {"loss": 1.0, "sequences": 3, "seconds": 2.0, "tokens_per_s": 10.0}
    first |= {"mismatch_max": 0.5, "mfu": None}
    second: dict[str, Any] = {"loss": 2.0, "sequences": 1, "seconds": 1.0, "tokens_per_s": 40.0}
    second |= {"mismatch_max": 0.2, "mfu": None}
    assert together([first, second]) == {
        "loss": 1.25, "sequences": 4, "seconds": 3.0, "tokens_per_s": 20.0,
        "mismatch_max": 0.5, "mfu": None,
    }  # fmt: skip
    assert together([first]) == first
