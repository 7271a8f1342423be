"""Tests of the summary of cells that `tutti sweep run` prints after the flow has ended."""

from pathlib import Path

import pytest

from tutti import storage
from tutti.cli.base.failures import ExitCode
from tutti.cli.sweep import run as verb
from tutti.storage import catalog as cat
from tutti.tasks.sweeps.spec import Policy, Suite


def test_cells_of_a_policy_with_options_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.setattr(verb, "run_flow", lambda *_: "sweep:1")
    suite = Suite(policies=("passthrough", Policy(name="cap", limit=2)), concurrency=(2,))
    assert verb.measured(suite, Path("models.yaml"), False, False) == ExitCode.DONE
    with storage.open_catalog() as catalog:
        cell = {"cell_id": "cell:1", "sweep_id": "sweep:1", "benchmark": "stdlib", "model": "m"}
        cell |= {"policy": "cap", "task_set_id": "t", "index_id": "i", "engine_id": "e"}
        numbers = {"concurrency": 2, "repeat": 0, "position": 0, "samples": 1}
        catalog.upsert(cat.cells, cell | numbers | {"status": "incomplete"})
    assert verb.measured(suite, Path("models.yaml"), False, False) == ExitCode.INCOMPLETE
    assert "1 cell is incomplete" in capsys.readouterr().err
