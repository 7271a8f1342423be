"""Tests of `tutti gpus` and the doctor's row: the run that holds each GPU."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tutti.cli.main import app
from tutti.cli.serve.gpus import COLUMNS, told_holders
from tutti.cli.setup.doctor import Place, look_gpu_holders
from tutti.storage import open_catalog
from tutti.tasks.platform.gpus import GpuClaim, lease_gpus


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store on a machine with two GPUs."""
    for name in ("CUDA_VISIBLE_DEVICES", "TUTTI_CATALOG_URL"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "gpus.yaml"
    file.write_text("gpus: [{index: 0, uuid: GPU-a, name: H100, memory_mb: 81559}, {index: 1}]\n")
    monkeypatch.setenv("TUTTI_GPUS", str(file))
    monkeypatch.setenv("TUTTI_GPU_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path / "home"


def look(home: Path) -> tuple[str, str]:
    """Return the doctor's row."""
    status, found, _ = look_gpu_holders(Place(home, home, Path("absent")))
    return status, found


def test_the_holder_of_each_card_is_shown(home: Path) -> None:
    runner = CliRunner()
    with open_catalog() as catalog:
        with lease_gpus(catalog, GpuClaim(1, "run:7", "training checkpoint:1")):
            shown = json.loads(runner.invoke(app, ["gpus", "--json"]).output)
            table = runner.invoke(app, ["gpus"]).output
            status, found = look(home)
    assert [card["state"] for card in shown] == ["held", "free"]
    assert {"run_id": "run:7", "work": "training checkpoint:1", "gpu": 0}.items() <= shown[
        0
    ].items()
    assert set(COLUMNS) <= shown[0].keys() and shown[0]["since"].endswith("+00:00")
    assert "run:7" in table and "81559" in table and "free" in table
    assert status == "ok"
    assert found.startswith("gpu 0 held by run:7 (training checkpoint:1) since 20")
    assert found.endswith("UTC, gpu 1 free")


def test_the_doctor_creates_no_store(home: Path) -> None:
    assert told_holders(home) == "gpu 0 free, gpu 1 free" and not home.exists()


def test_a_machine_without_cards_and_a_wrong_list(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is printed; an unreadable list gives one message and exit code 1."""
    (tmp_path / "gpus.yaml").write_text("gpus: []\n")
    assert "no GPU here: " in CliRunner().invoke(app, ["gpus"]).output
    assert "lists no GPU of host" in look(home)[1]
    (tmp_path / "gpus.yaml").write_text("gpus: [{}]\n")
    done = CliRunner().invoke(app, ["gpus"])
    assert done.exit_code == 1 and "gpus.0.index: Field required" in done.output
    assert look(home)[0] == "missing"
