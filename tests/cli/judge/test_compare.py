"""Tests of `tutti compare` and `tutti gate`: output, stored results and exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tutti import storage
from tutti.cli.main import app
from tutti.storage import catalog as cat


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Catalog]:
    """Return a store with one sweep: the policy passthrough solves no task, cap solves all,
    adaptive nearly as many."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    with storage.open_catalog() as catalog:
        row = {"sweep_id": "sweep:1", "name": "night", "spec": "{}", "created_at": cat.now()}
        catalog.upsert(cat.sweeps, row)
        for place, (policy, right) in enumerate(
            {"passthrough": 0, "cap": 12, "adaptive": 11}.items()
        ):
            shared: dict[str, Any] = {"sweep_id": "sweep:1", "cell_id": policy[0]}
            shared |= {"benchmark": "stdlib", "model": "pocket", "policy": policy}
            shared |= {"concurrency": 8, "repeat": 0}
            plan = {"position": place, "task_set_id": "t", "index_id": "i", "samples": 12}
            catalog.upsert(cat.cells, shared | plan | {"status": "finished"})
            rows = [
                shared
                | {"attempt_id": f"{policy}{i}", "sample_id": f"{policy}{i}", "task_id": f"t{i}"}
                | {"trial": 0, "attempt": 1, "status": "ok", "correct": i < right}
                for i in range(12)
            ]
            storage.commit(catalog, {"attempts": rows})
        yield catalog


def tutti(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_compare_cells_and_policies() -> None:
    """The exit code is 0 for better and same, 3 for worse and 4 for inconclusive; JSON has the
    numbers."""
    done = tutti("compare", "p", "c", "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["compared"]
    told = (row["n"], row["difference"], row["test"], row["verdict"])
    assert told == (12, 1.0, "sign test", "better") or told[2] == "exact McNemar"
    shown = tutti("compare", "cap", "adaptive")
    assert shown.exit_code == 4
    for words in (
        "adaptive against cap",
        "policy cap -> adaptive",
        "inconclusive",
        "minimum detectable",
    ):
        assert words in shown.stdout
    assert tutti("compare", "cap", "adaptive", "--margin", "0.9").exit_code == 0
    assert tutti("compare", "cap", "adaptive", "--exit-zero").exit_code == 0
    worse = tutti("compare", "c", "p")
    assert worse.exit_code == 3 and "worse" in worse.stdout
    assert tutti("compare", "c", "p", "--exit-zero").exit_code == 0


def test_compare_refuses_what_is_not_there() -> None:
    done = tutti("compare", "night", "day")
    assert done.exit_code == 2 and "'day'" in done.stderr and "sweeps: night" in done.stderr
    assert tutti("compare", "p", "c", "--metric", "beauty").exit_code == 2


GATES: dict[str, Any] = {
    "passed": "gates: [{at_least: 0.5, where: {policy: cap}}]",
    "failed": "gates: [{at_least: 0.5, where: {policy: passthrough}}]",
}


@pytest.mark.parametrize(("status", "code"), [("passed", 0), ("failed", 3)])
def test_gate_ends_with_what_it_found(tmp_path: Path, status: str, code: int) -> None:
    file = tmp_path / "gates.yaml"
    file.write_text(GATES[status])
    shown = tutti("gate", str(file), "night")
    assert shown.exit_code == code and status in shown.stdout, shown.output
    done = tutti("gate", str(file), "night", "--json")
    (outcome,) = json.loads(done.stdout)["gates"]
    assert (done.exit_code, outcome["status"]) == (code, status)
    (row,) = storage.query("select cell_b, reason from verdicts")
    assert row["cell_b"] == outcome["cells_b"][0] and row["reason"].startswith(status)


def test_a_gate_that_nothing_decides_is_inconclusive(tmp_path: Path) -> None:
    """A failed gate beside it takes precedence."""
    file = tmp_path / "gates.yaml"
    open_gate = "{at_least: 0.5, where: {policy: nobodys}}"
    file.write_text(f"gates: [{open_gate}]")
    shown = tutti("gate", str(file), "night")
    assert shown.exit_code == 4 and "inconclusive" in shown.stdout, shown.output
    failed = "{at_least: 0.5, where: {policy: passthrough}}"
    file.write_text(f"gates: [{failed}, {open_gate}]")
    assert tutti("gate", str(file), "night").exit_code == 3
    assert tutti("gate", str(file), "night", "--exit-zero").exit_code == 0


def test_gate_against_a_baseline(tmp_path: Path) -> None:
    file = tmp_path / "gates.yaml"
    file.write_text("gates: [{margin: 0.1}]")
    assert tutti("gate", str(file), "cap", "--baseline", "passthrough").exit_code == 0
    assert tutti("gate", str(file), "passthrough", "--baseline", "cap").exit_code == 3
    without = tutti("gate", str(file), "cap")
    assert without.exit_code == 2 and "--baseline" in without.stderr
    file.write_text("baseline: passthrough\ngates: [{margin: 0.1}]")
    assert tutti("gate", str(file), "cap").exit_code == 0
