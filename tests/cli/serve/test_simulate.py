"""Tests of `tutti simulate`: a table that starts with its validation, JSON, and one-line errors."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.serving.simulation.driving import recorded
from tests.serving.simulation.test_replay import ENGINE, WORK, commit
from tutti import storage
from tutti.cli.serve import simulate


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a store with one cell."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.setattr("tutti.tasks.serving.simulation.calibrate.SIMULATIONS", 8)
    with storage.open_catalog() as catalog:
        commit(catalog, recorded(WORK, 12, ENGINE), policy="passthrough")


def tutti(*arguments: str) -> tuple[int, str]:
    """Return the exit code and all output."""
    app = typer.Typer()
    app.command()(simulate.simulate)
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output


@pytest.mark.slow
def test_a_cell_is_run_again_and_the_validation_comes_first(tmp_path: Path) -> None:
    kept = tmp_path / "c.json"
    code, text = tutti("cell:1", "--policy", "cap:4", "--save-calibration", str(kept))
    assert code == 0, text
    assert text.startswith(
        "validation (passthrough, 144 calls; simulated over measured): steps/min"
    )
    assert "cap:4" in text
    code, text = tutti(
        "cell:1", "--calibration", str(kept), "--engines", "2", "--kv-tokens", "65536", "--json"
    )
    found = json.loads(text)
    assert (code, found["engines"], found["runs"][0]["policy"]) == (0, 2, "passthrough")
    assert found["runs"][0]["engine_hours"] > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cell:none"], "no cell 'cell:none'"),
        (["cell:1", "--policy", "cap:none"], "policy 'cap:none'"),
        (["cell:1", "--kv-tokens", "64"], "do not fit engine"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: list[str], told: str) -> None:
    code, text = tutti(*arguments)
    assert code == 2
    assert told in text
    assert text.count("\n") == 1
