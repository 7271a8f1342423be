"""Tests of theorems in Lean 4: rows as NeMo-Skills prepares them and as they are published."""

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import BadRow, benchmark_named, load_prompt

HEADER = "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\nopen Real Nat\n\n"
DOC = "/-- Show that it is two.-/\n"
PREPARED = {
    "name": "sum",
    "split": "test",
    "informal_prefix": DOC,
    "formal_statement": "theorem sum : 1 + 1 = 2 := by\n",
    "goal": "",
    "header": HEADER,
}


def only(name: str, folder: Path, row: dict[str, Any], file: str, split: str) -> dict[str, str]:
    write_lines(folder / file, [row])
    (task,) = load(name, folder, split=split)
    return dict(task.target)


def test_each_form_gives_the_same_statement(tmp_path: Path) -> None:
    """The forms are prepared rows, a published file with the header in the statement, and ``sorry``
    at the end."""
    wanted = {"header": HEADER, "statement": "theorem sum : 1 + 1 = 2 := by\n"}
    assert only("minif2f", tmp_path, PREPARED, "test.jsonl", "test") == wanted
    theorem = PREPARED["formal_statement"]
    whole = {"name": "sum", "formal_statement": f"{HEADER}{DOC}{theorem}", "split": "test"}
    assert only("minif2f", tmp_path, whole, "minif2f.jsonl", "published") == wanted
    coded = {"name": "sum", "lean4_code": f"{HEADER}{theorem.rstrip()} sorry"}
    assert only("minif2f", tmp_path, coded, "minif2f.jsonl", "published") == wanted
    bench = PREPARED | {"formal_statement": "theorem sum : 1 + 1 = 2 :=\n  by sorry"}
    assert only("mobench", tmp_path / "m", bench, "MOBench.jsonl", "test") == wanted | {
        "statement": "theorem sum : 1 + 1 = 2 :=\n  by\n"
    }
    proof_net = PREPARED | {"formal_statement": "theorem sum : 1 + 1 = 2 :="}
    assert only("proofnet", tmp_path / "p", proof_net, "valid.jsonl", "valid") == wanted


def test_definitions_stay_before_the_theorem(tmp_path: Path) -> None:
    """The definitions are MOBench's lemmas and definitions, and ProofNet's tasks that are
    definitions themselves."""
    before = "def two : Nat := 2\n\nlemma two_is : two = 2 := by rfl\n\n"
    row = PREPARED | {"formal_statement": f"{before}theorem sum : 1 + 1 = two := by sorry"}
    found = only("mobench", tmp_path, row, "test.jsonl", "test")
    assert found["statement"] == f"{before}theorem sum : 1 + 1 = two := by\n"
    row = PREPARED | {"formal_statement": "def group (G : Type) : Nat :="}
    found = only("proofnet", tmp_path, row, "test.jsonl", "test")
    assert found["statement"] == "def group (G : Type) : Nat := by\n"


def test_the_prompt_has_all_of_the_task(tmp_path: Path) -> None:
    write_lines(tmp_path / "test.jsonl", [PREPARED, PREPARED])
    task, again = load("minif2f", tmp_path)
    assert (task.key, again.key) == ("sum", "sum#2") and task.attributes == {"split": "test"}
    prompt = load_prompt(benchmark_named("minif2f").prompt)
    (message,) = prompt.render(task)
    code = f"{HEADER}{DOC}theorem sum : 1 + 1 = 2 := by\n  sorry\n```"
    assert message["content"].rstrip().endswith(code)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"formal_statement": "1 = 1"}, "formal_statement: has no theorem"),
        ({"formal_statement": "theorem sum : 1 = 1 := rfl"}, "does not end with"),
        ({"formal_statement": None}, "formal_statement: is missing"),
        ({"name": ""}, "name: is empty"),
    ],
)
def test_bad_rows(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    write_lines(tmp_path / "test.jsonl", [PREPARED | change])
    with pytest.raises(BadRow, match=said):
        load("minif2f", tmp_path)
