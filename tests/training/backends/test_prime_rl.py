"""Tests of prime-rl's configuration of a policy job: golden values, its files, its own schema."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tests.training.backends.policy_jobs import job, written
from tests.training.trainer.pocket import POCKET
from tutti.tasks.training.backends import policy_backend_of
from tutti.tasks.training.backends.base import BackendRefused, check_names, known_names
from tutti.tasks.training.backends.configure import backend_python
from tutti.tasks.training.policy import PolicyJob


def dapo(folder: Path, **fields: Any) -> PolicyJob:
    """Return a job that it supports completely."""
    return job(folder, **{"objective": "dapo", "reward": {"advantage": "centred"}} | fields)


@pytest.mark.usefixtures("unchecked")
def test_golden_dapo(tmp_path: Path) -> None:
    out = tmp_path / "out"
    rollouts = {"groups": 4, "group_size": 8, "staleness": 1, "dynamic": {}}
    given = dapo(tmp_path, rollouts=rollouts, lora={"rank": 8, "targets": ["q_proj"]}, gpus=4)
    made = written(given, "prime-rl", out)
    assert any(each.startswith("rollouts.dynamic") for each in made["differences"])
    found = tomllib.loads((out / "rl.toml").read_text())
    seq_len = found.pop("seq_len")
    assert 64 < seq_len <= 512
    agent = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    train = {"taskset": {"id": "tutti-tasks", "split": "train"}, "agent": agent}
    held_out = {"taskset": {"id": "tutti-tasks", "split": "held_out"}, "agent": agent}
    gates = {"gates": {"teaches": {"type": "advantage_range"}}}
    assert found == {
        "max_steps": 10, "output_dir": str(out / "output"), "run": {"name": "rl"}, "ckpt": {},
        "model": {"name": str(POCKET)}, "inference": {"vllm": {"max_model_len": 512}},
        "trainer": {
            "optim": {"type": "adamw", "lr": 1e-6, "weight_decay": 0.0, "betas1": 0.9,
                      "betas2": 0.99, "max_norm": 1.0},
            "scheduler": {"type": "constant"},
            "loss": {"type": "custom", "import_path": "tutti_loss.dapo",
                     "kwargs": {"low": 0.2, "high": 0.28, "truncate": 2.0}},
            "model": {"lora": {"rank": 8, "alpha": 16.0, "dropout": 0.0,
                               "target_modules": ["q_proj"]}},
        },
        "orchestrator": {
            "algo": {"type": "grpo"}, "batch_size": 32, "group_size": 8,
            "max_off_policy_steps": 1, "renderer": {"name": "default"},
            "train": {"sampling": {"temperature": 1.0, "max_completion_tokens": 64},
                      "source": [{"name": "train", "env": train, "curriculum": gates}]},
            "eval": {"interval": 10, "group_size": 1,
                     "sampling": {"temperature": 0.0, "max_completion_tokens": 64},
                     "source": [{"name": "held_out", "env": held_out}]},
        },
    }  # fmt: skip
    assert "N=${GPUS:-4}" in (out / "launch.sh").read_text()
    check_names(policy_backend_of("prime-rl"), found)
    assert known_names("prime-rl-rl")[0].startswith("prime-rl 559b4477")


@pytest.mark.usefixtures("unchecked")
def test_its_files(tmp_path: Path) -> None:
    """The files are tasks with scorer and target, and Python code of the job's reward."""
    given = dapo(tmp_path, reward={"advantage": "centred", "sql": "score"})
    written(given, "prime-rl", tmp_path / "out")
    rows = (tmp_path / "out" / "data" / "held_out.jsonl").read_text().splitlines()
    first = json.loads(rows[0])
    assert len(rows) == 3 and "100 + 1?" in first["prompt"]
    assert json.loads(first["truth"])["target"]["answer"] in ("101", ["101"])
    text = (tmp_path / "out" / "tutti_tasks.py").read_text()
    assert "return score\n" in text
    for name in ("tutti_tasks.py", "tutti_loss.py"):
        compile((tmp_path / "out" / name).read_text(), name, "exec")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"objective": "grpo"}, "objective: grpo; prime-rl's mean is over tokens"),
        ({"reward": {}}, "reward.advantage: mean_std; prime-rl has centred"),
        ({"objective_settings": {"kl": 0.1}}, "objective_settings.kl"),
        ({"backend_settings": {"seq_lne": 2}}, "backend_settings.seq_lne: .* mean seq_len?"),
    ],
)
def test_what_it_cannot_do_is_refused(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BackendRefused, match=said):
        written(dapo(tmp_path, **fields), "prime-rl", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_its_own_schema_takes_ours_and_refuses_a_typo(tmp_path: Path) -> None:
    """prime-rl's pydantic model, which imports our taskset, checks them."""
    if backend_python("prime-rl") is None:
        pytest.skip("no environment of prime-rl: TUTTI_PRIME_RL_PYTHON")
    rollouts = {"groups": 4, "group_size": 8, "dynamic": {}}
    made = written(dapo(tmp_path, rollouts=rollouts), "prime-rl", tmp_path / "out")
    assert made["checked"].startswith("prime-rl's own schema")
    wrong = dapo(tmp_path, backend_settings={"trainer": {"optim": {"lrr": 1}}})
    with pytest.raises(BackendRefused, match=r"prime-rl: its schema refuses this: .*lrr"):
        written(wrong, "prime-rl", tmp_path / "no")
    assert not (tmp_path / "no").exists()
