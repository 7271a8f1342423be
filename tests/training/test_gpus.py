"""Tests that a training job leases its GPUs, sees only these, and releases them however it ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tests.conftest import NewCatalog
from tutti.storage import Catalog, Home
from tutti.tasks.platform.gpus import GpuClaim, GpusBusy, lease_gpus, list_gpus, read_inventory
from tutti.tasks.training import TrainingFailed, TrainJob
from tutti.tasks.training.checkpoints import settings_of
from tutti.tasks.training.jobs.stage import run_job

TRAINER = """#!/bin/sh
echo '{"visible": "'"$CUDA_VISIBLE_DEVICES"'"}'
for last; do :; done
mkdir -p "$last" && exit %d
"""


@pytest.fixture()
def catalog(
    tmp_path: Path, new_catalog: NewCatalog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Catalog]:
    """Yield a store on a machine with two GPUs, and a shell in place of the models environment."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("TUTTI_GPU_LOCKS", str(tmp_path / "locks"))
    file = tmp_path / "gpus.yaml"
    file.write_text("gpus: [{index: 0, uuid: GPU-a}, {index: 1, uuid: GPU-b}]\n")
    monkeypatch.setenv("TUTTI_GPUS", str(file))
    python = tmp_path / "python"
    python.write_text(TRAINER % 0)
    python.chmod(0o755)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(python))
    with new_catalog(Home(tmp_path / "store")) as catalog:
        yield catalog


def train(catalog: Catalog, tmp_path: Path, claim: GpuClaim, told: list[Any]) -> Any:
    return run_job("x", [], tmp_path / "store" / "out", catalog, told.append, claim)


def free(catalog: Catalog) -> bool:
    cards = list_gpus(catalog, read_inventory(catalog.home))
    return all(card.state == "free" for card in cards)


@pytest.mark.parametrize(
    ("gpus", "visible"), [(None, "GPU-a"), (2, "GPU-a,GPU-b"), ((1,), "GPU-b"), (0, "")]
)
def test_the_trainer_sees_its_cards(
    catalog: Catalog, tmp_path: Path, gpus: Any, visible: str
) -> None:
    job = TrainJob.model_validate({"base": "b", "data": {"file": "f"}, "gpus": gpus})
    told: list[Any] = []
    train(catalog, tmp_path, job.claim("run:1", "training"), told)
    assert told == [{"visible": visible}] and free(catalog)


@pytest.mark.parametrize(
    ("gpus", "launched"), [(0, "launch.py x"), (1, "launch.py x"), (2, "launch_many.py 2 x")]
)
def test_each_card_has_its_process(
    catalog: Catalog, tmp_path: Path, gpus: int, launched: str
) -> None:
    said = TRAINER.replace('"visible": "\'"$CUDA_VISIBLE_DEVICES"', '"all": "\'"$*"')
    (tmp_path / "python").write_text(said % 0)
    told: list[Any] = []
    train(catalog, tmp_path, GpuClaim(gpus), told)
    assert f"/{launched} --out " in told[0]["all"]


def test_a_failed_trainer_gives_them_back(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "python").write_text(TRAINER % 1)
    with pytest.raises(TrainingFailed, match="exited with code 1"):
        train(catalog, tmp_path, GpuClaim(2), [])
    assert free(catalog)


def test_a_job_that_waits_says_for_whom_and_writes_nothing(
    catalog: Catalog, tmp_path: Path
) -> None:
    told: list[Any] = []
    with lease_gpus(catalog, GpuClaim((1,), "run:other", "engine pocket")):
        with pytest.raises(GpusBusy, match="run:other"):
            train(catalog, tmp_path, GpuClaim(2, "run:1", wait_s=0.3), told)
    assert "gpu 1 held by run:other (engine pocket) since" in told[0]["waiting"]
    assert not (tmp_path / "store" / "out").exists()


def test_cards_do_not_change_what_is_made() -> None:
    """The time waited for them has no effect either."""
    told: dict[str, Any] = {"base": "b", "data": {"file": "f"}}
    plain = TrainJob.model_validate(told)
    assert settings_of(plain) == settings_of(
        TrainJob.model_validate(told | {"gpus": 2, "gpu_wait_minutes": 5})
    )
    assert "gpus" not in settings_of(plain)
