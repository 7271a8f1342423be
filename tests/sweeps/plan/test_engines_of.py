"""Tests that `tutti sweep plan` shows the engines of a suite's models and whether they fit, and
starts nothing."""

import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.serving.weights.checkpoints import make_checkpoint
from tutti.tasks.serving import RegistryError
from tutti.tasks.sweeps.plan import engines_of
from tutti.tasks.sweeps.spec.suite import Suite

GB = 1024


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a measured model on one GPU and a judge on two, in an environment whose build is
    unknown."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    python = tmp_path / "python"
    python.touch(mode=0o755)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(python))
    monkeypatch.setenv("TUTTI_GPUS", str(tmp_path / "gpus.yaml"))
    folder = make_checkpoint(tmp_path / "weights")
    entry: dict[str, Any] = {"provider": "vllm", "checkpoint": str(folder), "context_tokens": 512}
    policy = entry | {"engine": {"gpus": 1, "kv_tokens": 4096}}
    judge = entry | {"engine": {"gpus": 2}}
    file = tmp_path / "models.yaml"
    file.write_text(yaml.safe_dump({"models": {"policy": policy, "judge": judge}}))
    return file


def machine(tmp_path: Path, cards: int, memory_mb: int) -> None:
    """List this machine's GPUs."""
    host = socket.gethostname()
    gpus = [{"host": host, "index": n, "memory_mb": memory_mb} for n in range(cards)]
    (tmp_path / "gpus.yaml").write_text(yaml.safe_dump({"gpus": gpus}))


def suite(tmp_path: Path) -> Suite:
    """Return a suite that needs both at the same time."""
    return Suite(
        name="s",
        benchmark="simpleqa",
        model="policy",
        policies=("passthrough",),
        concurrency=(1,),
        data={"source": tmp_path},
        roles={"judge": "judge"},
    )


def test_each_engine_with_its_cards_and_its_arithmetic(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lowest GPUs are used first; commands are not checked by the server here."""
    machine(tmp_path, 4, 80 * GB)
    monkeypatch.setattr("tutti.tasks.serving.engines.engine.refuse_wrong_commands", lambda *_: [])
    found = engines_of(suite(tmp_path), models)
    assert found["policy"].startswith("vllm on cuda; tools by hermes; weights")
    assert "4,090 tokens" in found["policy"]
    assert found["policy"].endswith("; GPU 0") and found["judge"].endswith("; GPU 1, 2")


def test_what_does_not_fit_together_is_said_in_the_plan(models: Path, tmp_path: Path) -> None:
    """The error is in the plan before a GPU is leased."""
    machine(tmp_path, 2, 80 * GB)
    with pytest.raises(RegistryError, match="3 GPUs are needed at the same time"):
        engines_of(suite(tmp_path), models)


def test_what_does_not_fit_a_card_is_said_in_the_plan(models: Path, tmp_path: Path) -> None:
    """The message has the arithmetic."""
    machine(tmp_path, 4, 1 * GB)
    with pytest.raises(RegistryError, match=r"models\.policy: does not fit: weights"):
        engines_of(suite(tmp_path), models)
