"""Tests of `tutti init`: its files are valid, and nothing is overwritten."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tutti.cli.main import app
from tutti.cli.setup.init import contents


def run(*arguments: str) -> Result:
    """Run the command in the current folder."""
    return CliRunner().invoke(app, arguments, env={"TUTTI_HOME": ".tutti", "COLUMNS": "200"})


def test_what_it_writes_is_valid_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's registry is the default; a second call changes nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    made = run("init")
    assert made.exit_code == 0 and "tutti sweep run first.yaml" in made.stdout
    assert "my-model" in run("models").stdout
    levels = run("sweep", "plan", "first.yaml", "--model", "my-model", "--concurrency", "1,2,3")
    assert "3 of 3 cells to run, 30 samples" in levels.stdout
    again = run("init")
    assert again.exit_code == 2 and "models.yaml" in again.stderr
    apart = run("init", "sub")
    assert "tutti sweep plan sub/first.yaml --models sub/models.yaml" in apart.stdout


def test_without_the_pocket_model_the_suite_names_the_endpoint(tmp_path: Path) -> None:
    files = contents(tmp_path, tmp_path / "nowhere")
    assert "pocket" not in files["models.yaml"] and "model: my-model" in files["first.yaml"]
