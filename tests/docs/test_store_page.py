"""Tests that the Python example of the store's page runs on the output of `tutti export
parquet`."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.reporting.conftest import LOAD, build_store
from tutti.cli.main import app
from tutti.tasks.platform.project import PROJECT

BLOCKS = re.findall(r"```python\n(.*?)```", (PROJECT / "docs" / "store.md").read_text(), re.S)


def test_the_exported_tables_are_read_by_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`results` has one row per cell, `attempts` has each attempt once."""
    home = build_store(tmp_path / "store", LOAD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTTI_HOME", str(home.root))
    done = CliRunner().invoke(app, ["export", "parquet", "--out", "out"])
    assert done.exit_code == 0, done.output
    assert BLOCKS
    for block in BLOCKS:
        names: dict[str, object] = {}
        exec(block, names)  # what the page shows
    printed = capsys.readouterr().out
    assert "passthrough" in printed and "infra_error" in printed
    assert len(names["results"]) == len(LOAD)  # type: ignore[arg-type]
