"""Tests of the verb `report`: a page in the given folder, only JSON on stdout, two sweeps by
name."""

import json
from pathlib import Path

import pytest

from tests.cli.test_main import run
from tests.reporting.conftest import Cell, build_store

SLOW = Cell("slow", "pocket", "cap", 4, 2.0, 40, 20)
FAST = Cell("fast", "pocket", "cap", 4, 1.0, 40, 21)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with two sweeps whose ids are their names with a kind."""
    root = tmp_path_factory.mktemp("home")
    cells = tuple(
        Cell(f"sweep:{cell.sweep_id}", *(getattr(cell, key) for key in list(vars(cell))[1:]))
        for cell in (SLOW, FAST)
    )
    build_store(root, cells)
    return root


def test_a_report_in_the_terminal_and_in_a_folder(home: Path, tmp_path: Path) -> None:
    done = run("report", "sweep:slow", "--out", str(tmp_path / "out"), home=home)
    assert done.exit_code == 0, done.output
    assert "steps/min" in done.stdout and str(tmp_path / "out" / "index.html") in done.stdout
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["index.html"]


def test_figures_on_request(home: Path, tmp_path: Path) -> None:
    done = run("report", "sweep:slow", "--figures", "--out", str(tmp_path), home=home)
    assert done.exit_code == 0, done.output
    names = {path.name for path in tmp_path.iterdir()}
    assert {"index.html", "throughput.png", "throughput.svg", "accuracy.png"} <= names


def test_two_sweeps_as_json(home: Path, tmp_path: Path) -> None:
    words = ("--compare", "sweep:slow", "sweep:fast", "--out", str(tmp_path), "--json")
    done = run("report", *words, home=home)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert Path(found["page"]).read_text().startswith("<!DOCTYPE html>")
    verdicts = {each["figure"]: each["verdict"] for each in found["comparisons"]}
    assert verdicts["steps/min"] == verdicts["seconds an attempt"] == "better"
    assert [cell["model"] for cell in found["cells"]] == ["A pocket", "B pocket"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--compare", "sweep:slow", "nope"), "no sweep 'nope'"),
        (("sweep:slow", "--compare", "sweep:slow", "sweep:fast"), "not both"),
    ],
)
def test_what_makes_no_sense_is_said(home: Path, words: tuple[str, ...], message: str) -> None:
    done = run("report", *words, home=home)
    assert done.exit_code == 2 and message in done.stderr
