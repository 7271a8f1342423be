"""Tests of the table of faults in docs/engines.md: each row names an existing test."""

import ast
import re
from pathlib import Path

from tutti.tasks.platform.project import PROJECT

TABLE = re.compile(r"^## Faults\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
REFERENCE = re.compile(r"^`([\w/]+\.py)::(\w+)`$")
LEAST = 26
"""So many faults must be shown."""
ASKED = (
    *("fewer than 40 digits", "a blob", "a shard is missing", "divides its context by its slots"),
    *("does not register the parser", "plugin's file is missing", "leaves its engine"),
    *("taken away", "out of memory", "takes the port", "downloaded in part", "hangs in its warm"),
    *("tokenizer is another", "context above the model's", "holder of a GPU is killed"),
    *("two sweeps want one GPU", "MIG", "did not start uses a GPU", "named is not there"),
    *("abbreviated flag", "unknown dtype", "contradict", "no room on disk", "401, 403"),
    *("program is missing", "traceback", "two kept engines of one id"),
)
"""Words of the faults that the table must not lose."""


def rows() -> list[list[str]]:
    found = TABLE.search((PROJECT / "docs" / "engines.md").read_text())
    assert found is not None, "docs/engines.md has its section"
    lines = [line for line in found[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_fault_has_a_test_that_exists() -> None:
    for fault, *_, reference in rows():
        named = REFERENCE.match(reference)
        assert named is not None, f"{fault}: {reference!r} names no test"
        file = PROJECT / "tests" / named[1]
        assert file.is_file(), f"{fault}: {file}"
        assert named[2] in _tests_of(file), f"{fault}: {named[1]} has no {named[2]}"


def test_the_faults_that_were_asked_for_are_in_the_table() -> None:
    faults = [row[0] for row in rows()]
    assert len(faults) >= LEAST
    assert len(set(faults)) == len(faults)
    assert all(len(row) == 4 for row in rows())
    for words in ASKED:
        assert any(words in fault for fault in faults), words


def _tests_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}
