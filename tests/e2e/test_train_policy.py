"""Tests of GRPO with the real vLLM, gateway and agent loop: it runs, resumes after kill -9, and the
engine serves the new weights after an update."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tutti import storage
from tutti.tasks.platform.project import POCKET, PROJECT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
STEPS = 4
JOB: dict[str, Any] = {
    "name": "small",
    "base": "pocket",
    "suite": {
        "benchmark": "stdlib",
        "tasks": {"families": ["last_parameter"], "train_per_family": 40, "test_per_family": 16},
        "data": {"split": "train"},
        "policies": ["passthrough"],
        "concurrency": [16],
        "sampling": {"temperature": 1.0},
    },
    "rollouts": {"groups": 8, "group_size": 4},
    "optimizer": {"learning_rate": 2e-4, "schedule": "constant", "warmup_share": 0.0},
    "steps": STEPS,
}


def command(folder: Path) -> list[str]:
    tutti = PROJECT / ".venv" / "bin" / "tutti"
    words = [str(tutti), "train", "grpo", str(folder / "job.yaml")]
    return [*words, "--models", str(folder / "models.yaml"), "--json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    entry = {"provider": "vllm", "checkpoint": str(POCKET), "context_tokens": 512, "tools": True}
    engine = {"kv_blocks": 64, "max_sequences": 16, "max_batched_tokens": 2048}
    models = {"models": {"pocket": entry | {"engine": engine}}}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump(models))
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    return tmp_path


def test_a_job_that_is_killed_goes_on_and_doubles_nothing(folder: Path) -> None:
    """All its processes are killed in the middle; afterwards each sample and each step counts once,
    the weights of each call are recorded, and the checkpoint's lineage is complete."""
    home = storage.Home(folder / "home")
    environment = os.environ | {"TUTTI_HOME": str(home.root)}
    child = subprocess.Popen(
        command(folder), env=environment, start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    wanted = "select count(distinct cell_id) as n from attempts where benchmark = 'stdlib'"
    # The fourth cell is the third step's, which begins when the first is trained.
    deadline = time.monotonic() + 240
    while not home.catalog_file.exists() or storage.query(wanted, home)[0]["n"] < 4:
        assert child.poll() is None, child.communicate()[1].decode()[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.5)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    done = subprocess.run(command(folder), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert set(result["card"]["held_out"]) == {"0", str(STEPS)}
    steps = storage.query("select step, reward, groups from train_steps order by step", home)
    assert [row["step"] for row in steps] == list(range(1, STEPS + 1))
    assert all(row["reward"] is not None for row in steps), "also of steps before the kill"
    counted = storage.query(
        "select sample_id, count(*) as n from attempts where status in "
        "('ok', 'limit', 'model_error') group by all",
        home,
    )
    held_out = result["card"]["held_out"]["0"]["n"]
    assert {row["n"] for row in counted} == {1}
    assert len(counted) == STEPS * 32 + 2 * held_out
    versions = storage.query("select distinct weights_at_start as w from calls", home)
    assert {row["w"] for row in versions} >= {f"small/step-{n}" for n in range(1, STEPS - 1)}
    folder_of = Path(result["folder"])
    assert (folder_of / "model.safetensors").is_file()
    assert not list(home.artifacts.glob("*.tmp"))
    again = subprocess.run(command(folder), env=environment, capture_output=True, text=True)
    assert json.loads(again.stdout)["reused"] is True
