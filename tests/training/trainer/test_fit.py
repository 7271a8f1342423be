"""Tests that a training resumed after kill -9 has exactly the losses of an undisturbed one."""

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

from tests.training.trainer.pocket import POCKET, settings, sums, write
from tutti.tasks.training.trainer.fit import fit
from tutti.tasks.training.trainer.rows import BadData
from tutti.tasks.training.trainer.step import Diverged, Stepper

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(900),
]
KILLS = 5


def losses(rows: list[dict[str, Any]]) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in rows if "loss" in row]


def test_five_kills_change_no_loss(tmp_path: Path) -> None:
    """A process killed five times, at different steps, gives bit-identical losses to one that was
    not killed."""
    asked = settings(tmp_path, steps=40, save_every_s=0.001, batch={"sequences": 4, "tokens": 256})
    file = tmp_path / "settings.json"
    file.write_text(asked.model_dump_json())
    whole: list[dict[str, Any]] = []
    fit(asked, tmp_path / "whole", tmp_path / "whole.pt", whole.append)
    command = [sys.executable, "-m", "tutti.tasks.training.trainer", "--settings", str(file)]
    command += ["--out", str(tmp_path / "out"), "--state", str(tmp_path / "state.pt")]
    killed, log = 0, tmp_path / "log"
    deadline = time.monotonic() + 200
    for at in [*(6 + 6 * n for n in range(KILLS)), 10**9]:
        with log.open("w") as out:
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=os.getcwd())
            while child.poll() is None and f'"step": {at},' not in log.read_text():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                killed += 1
            child.wait()
    assert killed == KILLS and child.returncode == 0, log.read_text()[-2000:]
    card = json.loads((tmp_path / "out" / "training.json").read_text())
    assert losses(card["log"]) == losses(whole) and len(losses(whole)) == 40


def test_it_learns_and_keeps_the_best(tmp_path: Path) -> None:
    held_out = write(tmp_path / "held.jsonl", sums(20, seed=1))
    asked = settings(tmp_path, steps=20, held_out=held_out, evaluate_every=10)
    rows: list[dict[str, Any]] = []
    card = fit(asked, tmp_path / "out", tmp_path / "state.pt", rows.append)
    found = [row["held_out_loss"] for row in rows if "held_out_loss" in row]
    assert rows[0]["sequences"] == 40 and len(found) == 2
    assert found[-1] < 3.0 < rows[1]["loss"] and card["best_held_out"] == min(found)
    for folder in (tmp_path / "out", tmp_path / "out" / "best"):
        assert (folder / "model.safetensors").is_file() and (folder / "tokenizer.json").is_file()


def test_a_kill_before_the_platform_has_it_costs_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform moves a whole folder into place; if it is killed before, it starts the trainer
    again."""
    held_out = write(tmp_path / "held.jsonl", sums(4, seed=1))
    asked = settings(tmp_path, steps=4, held_out=held_out, evaluate_every=2, save_every_s=1e-6)
    whole = fit(asked, tmp_path / "lost", tmp_path / "of.state", lambda row: None)
    monkeypatch.setattr(Stepper, "take", None)  # a step would fail
    again = fit(asked, tmp_path / "out", tmp_path / "of.state", lambda row: None)
    assert again["log"] == whole["log"] and again["best_held_out"] == whole["best_held_out"]
    lost, out = (tmp_path / name / "best" / "model.safetensors" for name in ("lost", "out"))
    assert out.read_bytes() == lost.read_bytes()


def test_a_loss_that_is_no_number_stops_it_with_what_was_seen(tmp_path: Path) -> None:
    """No checkpoint is left."""
    asked = settings(tmp_path, optimizer={"learning_rate": 1e30, "warmup_share": 0.0})
    with pytest.raises(Diverged, match=r"step \d+: .*gradient norm .*learning rate"):
        fit(asked, tmp_path / "out", tmp_path / "state.pt", lambda row: None)
    assert not (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json\n", "data.jsonl:1: not a conversation"),
        ('{"messages": [{"role": "user", "content": "a"}]}\n', "no sequence to train on"),
        ('{"text": "a"}\n', "data.jsonl:1: not a conversation"),
    ],
)
def test_data_that_cannot_be_trained_on_is_named(tmp_path: Path, text: str, said: str) -> None:
    asked = settings(tmp_path)
    asked.data.write_text(text)
    with pytest.raises(BadData, match=said):
        fit(asked, tmp_path / "out", tmp_path / "state.pt", lambda row: None)


def test_too_long_sequences_are_left_out_and_counted(tmp_path: Path) -> None:
    asked = settings(tmp_path, steps=1, batch={"max_tokens": 100, "sequences": 4})
    write(asked.data, [*sums(3), {"messages": [*sums(1)[0]["messages"] * 9]}])
    rows: list[dict[str, Any]] = []
    fit(asked, tmp_path / "out", tmp_path / "state.pt", rows.append)
    assert rows[0]["dropped"]["too long"] >= 1 and POCKET.is_dir()
