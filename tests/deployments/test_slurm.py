"""Tests that deployments/slurm/train.sh resubmits itself until the training is finished, and no
longer."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tutti.tasks.platform.project import PROJECT

SCRIPT = PROJECT / "deployments" / "slurm" / "train.sh"
SBATCH = """#!/bin/bash
echo "$TUTTI_SUBMISSION $*" >> "$PLACE/submitted"
while [ "${1#-}" != "$1" ]; do shift; done
[ -n "${ONLY_ONCE:-}" ] || bash "$@"
exit 0
"""
TUTTI = """#!/bin/bash
echo "$*" >> "$PLACE/trained"
exit "$(sed -n "$(wc -l < "$PLACE/trained")p" "$PLACE/codes")"
"""
STALLED = """#!/bin/bash
echo "$*" >> "$PLACE/trained"
exec sleep 1000
"""


@pytest.fixture()
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `sbatch` runs the script at once and `tutti` exits with the
    codes in a file."""
    program(tmp_path, "sbatch", SBATCH)
    program(tmp_path, "tutti", TUTTI)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {"PATH": path, "PLACE": str(tmp_path), "TUTTI_SBATCH": "--time=60 --gpus=2"}


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def submit(folder: Path, environment: dict[str, str], codes: list[int]) -> int:
    (folder / "codes").write_text("".join(f"{code}\n" for code in codes))
    command = ["bash", str(SCRIPT), "sft", "my job.yaml", "--steps", "3"]
    return subprocess.run(command, env=environment, timeout=30).returncode


def test_it_is_submitted_with_the_same_words_until_it_is_done(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """A file name with a space stays one argument; an unfinished job exits with 75, not 5."""
    assert submit(tmp_path, environment, [5, 5, 0]) == 75
    trained = (tmp_path / "trained").read_text().splitlines()
    assert trained == ["train sft my job.yaml --steps 3"] * 3
    submitted = (tmp_path / "submitted").read_text().splitlines()
    again = f"--time=60 --gpus=2 {SCRIPT} sft my job.yaml --steps 3"
    assert submitted == [f"2 {again}", f"3 {again}"]


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_an_end_is_not_submitted_again(
    tmp_path: Path, environment: dict[str, str], code: int
) -> None:
    """Neither a success nor a failure is resubmitted, because a failure would repeat."""
    assert submit(tmp_path, environment, [code]) == code
    assert not (tmp_path / "submitted").exists()


def test_submissions_are_bounded(tmp_path: Path, environment: dict[str, str]) -> None:
    submit(tmp_path, environment | {"TUTTI_SUBMISSIONS": "3"}, [5] * 9)
    assert len((tmp_path / "trained").read_text().splitlines()) == 3


def test_the_signal_before_the_limit_submits_it_too(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """The signal covers a step that takes too long for the training to end by itself."""
    program(tmp_path, "tutti", STALLED)
    command = ["bash", str(SCRIPT), "grpo", "job.yaml"]
    with subprocess.Popen(command, env=environment | {"ONLY_ONCE": "yes"}) as script:
        deadline = time.monotonic() + 60
        while not (tmp_path / "trained").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        script.send_signal(signal.SIGUSR1)
        assert script.wait(60) == 75
    assert (tmp_path / "submitted").read_text().startswith("2 --time=60 --gpus=2 ")


def test_a_signal_as_the_training_starts_is_not_lost(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """The signal arrives before the script knows the training's process, which is ended
    nevertheless."""
    program(tmp_path, "tutti", STALLED)
    text = SCRIPT.read_text().replace("\ntraining=$!\n", "\nkill -USR1 $$; training=$!\n")
    script = tmp_path / "train.sh"
    script.write_text(text)
    assert "kill -USR1" in text
    command = ["bash", str(script), "grpo", "job.yaml"]
    done = subprocess.run(command, env=environment | {"ONLY_ONCE": "yes"}, timeout=20)
    assert done.returncode == 75
