"""Tests of BigCodeBench: its rows as tasks, in both forms of its prompt."""

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import BadRow, benchmark_named

TESTS = """import unittest

class Base(unittest.TestCase):
    def test_of_base(self):
        self.assertTrue(True)

class TestCases(Base):
    def setUp(self):
        self.x = 1
    def test_b(self):
        self.assertEqual(task_func(1), 2)
    async def test_a(self):
        pass
    def test_b(self):
        self.assertEqual(task_func(2), 4)

class Other(unittest.TestCase):
    def test_other(self):
        pass
"""


def write_task(folder: Path, **changed: Any) -> None:
    """Write one task in the format of the publisher's file."""
    prompt = "import numpy as np\ndef task_func(x):\n"
    row = {
        "task_id": "BigCodeBench/7",
        "complete_prompt": f'{prompt}    """Twice x."""\n',
        "instruct_prompt": "Write a function task_func that doubles.",
        "code_prompt": prompt,
        "canonical_solution": "    return np.add(x, x)",
        "test": TESTS,
        "entry_point": "task_func",
        "doc_struct": "{}",
        "libs": "['numpy', 'scipy.stats']",
    }
    write_lines(folder / "BigCodeBench.jsonl", [row | changed])


@pytest.mark.parametrize("name", ["bigcodebench", "bigcodebench-hard"])
def test_a_task_in_both_forms(tmp_path: Path, name: str) -> None:
    """Both prompts have the same tests, and the calibration precedes every solution."""
    write_task(tmp_path)
    (complete,) = load(name, tmp_path)
    (instruct,) = load(f"{name}-instruct", tmp_path)
    assert complete.key == "BigCodeBench/7" and complete.target == instruct.target
    assert complete.inputs["question"].endswith('"""Twice x."""\n')
    assert instruct.inputs["question"] == "Write a function task_func that doubles."
    target = complete.target
    assert target["before"] == "import numpy as np\ndef task_func(x):\n\n    pass\n"
    assert target["cases"] == ["test_a", "test_b", "test_of_base"]
    assert target["libraries"] == ["numpy", "scipy"] and target["tests"] == TESTS
    assert target["answer"].endswith("return np.add(x, x)")


def test_both_subsets_are_on_the_hub() -> None:
    """The subsets have the publisher's names and the version that its program reads."""
    for name, repository in (("bigcodebench", "bigcodebench"), ("bigcodebench-hard-instruct",) * 2):
        benchmark = benchmark_named(name)
        assert benchmark.hub is not None and list(benchmark.splits) == ["v0.1.4"]
        assert benchmark.hub.repository == f"bigcode/{repository.removesuffix('-instruct')}"
        assert benchmark.scorer == "bigcodebench"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test": "def test_a(): pass"}, "no class TestCases"),
        ({"test": "class TestCases:\n    x = 1"}, "no class TestCases with tests"),
        ({"test": "class TestCases("}, "no Python"),
        ({"libs": "numpy, scipy"}, "libs"),
        ({"libs": "['numpy; rm']"}, "list of modules"),
        ({"entry_point": "task func"}, "no name of a function"),
    ],
)
def test_a_row_that_is_none(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """The error names field and value."""
    write_task(tmp_path, **change)
    with pytest.raises(BadRow, match=said):
        load("bigcodebench", tmp_path)


def test_a_class_inside_another_statement_is_found(tmp_path: Path) -> None:
    """A class at the top level takes precedence, whichever comes first."""
    nested = "if True:\n    class TestCases:\n        def test_x(self): pass\n"
    write_task(tmp_path, test=nested)
    assert load("bigcodebench", tmp_path)[0].target["cases"] == ["test_x"]
    write_task(tmp_path, test=TESTS + nested)
    assert "test_x" not in load("bigcodebench", tmp_path)[0].target["cases"]
