"""Tests of a backend that runs here: its log is followed, its weights become an artifact, and a
failure leaves nothing behind."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tests.conftest import NewCatalog
from tests.training.backends.jobs import conversations, job
from tests.training.trainer.pocket import POCKET
from tutti.storage import Home, query
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.platform.progress.runs import Run
from tutti.tasks.training import TrainingFailed, TrainingSet, fit_set
from tutti.tasks.training.backends import backend_of, configure, run
from tutti.tasks.training.backends.base import BackendRefused

BASE = (POCKET, "checkpoint:base")
ENTRY = {"current_steps": 1, "loss": 2.5, "lr": 0.1, "total_tokens": 90}
ENDS_WELL = f"""mkdir -p output tokens
echo '{{"sequences": 24, "dropped": {{}}}}' > tokens/counts.json
echo '{json.dumps(ENTRY)}' > output/trainer_log.jsonl
echo '{{"train_runtime": 4.5}}' > output/train_results.json
echo weights > output/adapter_model.safetensors
"""
"""What LLaMA-Factory leaves behind."""


@pytest.fixture()
def at(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[Run]:
    with new_catalog(Home(tmp_path / "store")) as catalog:
        yield Run(catalog, "run:1", StageLog())


@pytest.fixture()
def data(tmp_path: Path, at: Run) -> TrainingSet:
    return conversations(tmp_path, at.catalog)


def launches(lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install LLaMA-Factory with these lines in its `launch.sh` and a held-out loss of 1.5."""
    python = Path("/nowhere/bin/python")
    fake = replace(backend_of("llama-factory"), write=lambda plan, settings: ("a: 1\n", lines))
    monkeypatch.setattr(run, "backend_of", lambda name: fake)
    monkeypatch.setattr(run, "backend_python", lambda name: python)
    monkeypatch.setattr(configure, "backend_python", lambda name: None)
    monkeypatch.setattr(run, "measured", lambda plan, made, catalog: 1.5)


def test_its_adapter_is_an_artifact_with_our_card(
    at: Run, data: TrainingSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The adapter has its steps and is reused without a second training."""
    launches(ENDS_WELL, monkeypatch)
    reports: list[dict[str, Any]] = []
    made = fit_set(job("llama-factory"), BASE, data, at, reports.append)
    card = made.card
    assert made.checkpoint_id.startswith("adapter:") and card["steps"] == 1
    assert (card["tokens"], card["train_s"], card["best_held_out"]) == (90, 4.5, 1.5)
    assert card["settings"]["backend"] == "llama-factory" and card["parameters"] > 1_000_000
    rows = query("select step, loss, tokens from train_steps", at.catalog.home)
    assert rows == [{"step": 1, "loss": 2.5, "tokens": 90}]
    assert (made.folder / "settings.json").read_text() == "a: 1\n"
    launches("false\n", monkeypatch)
    assert fit_set(job("llama-factory"), BASE, data, at).reused


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("echo out of memory\nfalse\n", "llama-factory exited with code 1; .*out of memory"),
        ("true\n", "llama-factory ended without a step or weights"),
    ],
)
def test_a_failure_leaves_nothing(
    lines: str, said: str, at: Run, data: TrainingSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches(lines, monkeypatch)
    with pytest.raises(TrainingFailed, match=rf"(?s){said}"):
        fit_set(job("llama-factory"), BASE, data, at)
    left = [each.name for each in (at.catalog.home.root / "artifacts").iterdir()]
    assert all(name.startswith("training_set") for name in left)


def test_a_silent_one_is_ended(at: Run, data: TrainingSet, monkeypatch: pytest.MonkeyPatch) -> None:
    launches("sleep 600\n", monkeypatch)
    monkeypatch.setattr(run, "SILENT_S", 1.0)
    with pytest.raises(TrainingFailed, match="was silent for 1 s and is ended"):
        fit_set(job("llama-factory"), BASE, data, at)


def test_what_is_not_here_is_told(
    at: Run, data: TrainingSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "backend_python", lambda name: None)
    with pytest.raises(BackendRefused, match="verl runs on a cluster; --write-only FOLDER"):
        fit_set(job("verl"), BASE, data, at)
    with pytest.raises(BackendRefused, match="llama-factory is not installed here; run `make"):
        fit_set(job("llama-factory"), BASE, data, at)


@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["llama-factory", "trl"])
def test_a_real_training(name: str, at: Run, data: TrainingSet) -> None:
    """The backend itself takes three steps, and our trainer evaluates its adapter."""
    if configure.backend_python(name) is None:
        pytest.skip(f"no environment of {name}: make backends")
    made = fit_set(job(name), BASE, data, at)
    assert made.card["steps"] == 3 and 0 < made.card["best_held_out"] < 20
    assert (made.folder / "adapter_model.safetensors").is_file()
    rows = query("select step, loss, tokens from train_steps order by step", at.catalog.home)
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(row["loss"] > 0 and row["tokens"] > 0 for row in rows)
