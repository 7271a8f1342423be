"""Tests of `tutti lineage`: selection of the artifact, format and destination of the drawing."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tutti.cli.main import app
from tutti.storage import Home, commit, open_catalog


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a store with an index, two cells and one finished attempt."""
    root = tmp_path / "store"
    with open_catalog(Home(root)) as catalog:
        catalog.enter_artifact("index:aa11", {"documents": 3})
        catalog.enter_artifact("cell:bb11", {"policy": "cap"}, ["index:aa11", "engine:ff00"])
        catalog.enter_artifact("cell:bb22", {"policy": "passthrough"}, ["index:aa11"])
        commit(catalog, {"attempts": [{"attempt_id": "attempt:77", "cell_id": "cell:bb22"}]})
    return root


def run(home: Path, *arguments: str, **environment: str) -> Result:
    variables = {"TUTTI_HOME": str(home), "COLUMNS": "200", **environment}
    return CliRunner().invoke(app, ["lineage", *arguments], env=variables)


@pytest.mark.parametrize("given", ["cell:bb11", "cell:bb1", "bb1"])
def test_the_beginning_of_an_id_or_of_its_hash_is_enough(given: str, home: Path) -> None:
    done = run(home, given)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("cell:bb11  cap\n└── made from\n")


def test_a_parent_that_was_never_entered_can_be_asked_about(home: Path) -> None:
    assert run(home, "engine").stdout.startswith("engine:ff00  not in this store\n└── used by\n")


def test_an_attempt_stands_for_its_cell(home: Path) -> None:
    assert run(home, "attempt:77").stdout.startswith("cell:bb22  passthrough\n")


def test_several_are_listed_and_none_says_how_to_list_them(home: Path) -> None:
    several = run(home, "cell:bb")
    assert several.exit_code == 2
    assert "cell:bb is a prefix of 2 ids" in several.stderr and "  cell:bb22" in several.stderr
    for nothing in ("nope", "", "attempt:7", "100%"):
        none = run(home, nothing)
        assert none.exit_code == 2 and "select artifact_id, kind from artifacts" in none.stderr


def test_ways_and_depth(home: Path) -> None:
    assert "made from" not in run(home, "index", "--down").stdout
    assert "nothing else" in run(home, "index", "--up").stdout
    assert run(home, "index", "--depth", "0").exit_code == 2


def test_help_names_every_flag(home: Path) -> None:
    shown = run(home, "--help").stdout
    assert all(
        flag in shown for flag in ("--up", "--down", "--depth", "--format", "--out", "--json")
    )


def test_forms(home: Path) -> None:
    assert run(home, "index", "--format", "mermaid").stdout.startswith("flowchart LR\n")
    assert json.loads(run(home, "index", "--json").stdout)["artifact_id"] == "index:aa11"


@pytest.mark.parametrize(
    ("name", "begin"),
    [("a.mmd", "flowchart"), ("a.txt", "index:"), ("a.json", "{")],
)
def test_a_files_name_decides_its_form(name: str, begin: str, home: Path, tmp_path: Path) -> None:
    out = tmp_path / name
    done = run(home, "index", "--out", str(out))
    assert done.stdout == f"{out}\n" and out.read_text().startswith(begin)


def test_a_folder_that_is_not_there(home: Path, tmp_path: Path) -> None:
    nowhere = run(home, "index", "--out", str(tmp_path / "no" / "a.mmd"))
    assert nowhere.exit_code == 2 and "there is no folder" in nowhere.stderr
