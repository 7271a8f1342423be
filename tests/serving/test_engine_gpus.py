"""Tests that an engine whose entry names GPUs holds them while it runs."""

import shlex
import sys
from pathlib import Path

import pytest

from tutti.storage import Catalog
from tutti.tasks.platform.gpus import list_gpus, read_inventory
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.engines import Engine
from tutti.tasks.serving.registry import Model

DOUBLE = [sys.executable, "-m", "tests.serving.vllm_double"]


def model(**engine: object) -> Model:
    return Model.model_validate(
        {
            "provider": "vllm",
            "checkpoint": PROJECT / "assets" / "pocket",
            "context_tokens": 512,
            "engine": {"kv_blocks": 8, **engine},
        }
    )


def test_an_engine_holds_its_cards_while_it_runs(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "on $CUDA_VISIBLE_DEVICES"\nexec {shlex.join(DOUBLE)} "$@"')
    python.chmod(0o755)
    (tmp_path / "gpus.yaml").write_text("gpus: [{index: 0}, {index: 1, uuid: GPU-b}]\n")
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(python))
    monkeypatch.setenv("TUTTI_GPUS", str(tmp_path / "gpus.yaml"))
    monkeypatch.setenv("TUTTI_GPU_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    engine = Engine("pocket", model(gpus=["GPU-b"]), catalog)
    assert engine.engine_id == Engine("pocket", model(gpus=1), catalog).engine_id
    with engine:
        free, held = list_gpus(catalog, read_inventory(catalog.home))
        assert (free.state, held.state, held.work) == ("free", "held", "engine pocket")
        (log,) = catalog.home.logs.glob("vllm-*.log")
        assert log.read_text().startswith("on GPU-b\n")
    assert [card.state for card in list_gpus(catalog, read_inventory(catalog.home))] == ["free"] * 2
