"""Tests of HumanEval+: EvalPlus's release as tasks, and its comparison with the reference
solution."""

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import BadRow


def write_plus(folder: Path, **changed: Any) -> None:
    """Write one task of HumanEval+ in the format of its release."""
    row = {
        "task_id": "HumanEval/2",
        "prompt": "def half(x):\n",
        "canonical_solution": "    return x / 2\n",
        "entry_point": "half",
        "base_input": [[3]],
        "plus_input": [[4.0], [7]],
        "atol": 0,
    }
    write_lines(folder / "HumanEvalPlus.jsonl", [row | changed])


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        ("return x / 2", True),
        ("return x * 0.5 + 1e-9", True),  # floats: within 1e-6
        ("return x / 2 + 1e-3", False),
        ("return x // 2", False),
        ("return (x / 2,)", False),
        ("return x / 2 if x < 5 else 0.0", False),  # a plus input
    ],
)
def test_humaneval_plus_compares_with_its_reference(
    tmp_path: Path, body: str, passes: bool
) -> None:
    """The comparison uses all base and plus inputs, with EvalPlus's tolerance for floats."""
    write_plus(tmp_path)
    (task,) = load("humaneval-plus", tmp_path)
    names: dict[str, Any] = {}
    exec(f"def half(x):\n    {body}\n", names)
    exec(task.target["tests"], names)
    try:
        names["check"](names["half"])
    except AssertionError:
        assert not passes
    else:
        assert passes


def test_humaneval_plus_rows(tmp_path: Path) -> None:
    for change, said in (({"atol": "x"}, "atol"), ({"base_input": [], "plus_input": []}, "empty")):
        write_plus(tmp_path, **change)
        with pytest.raises(BadRow, match=said):
            load("humaneval-plus", tmp_path)


def test_nothing_finite_is_near_infinity(tmp_path: Path) -> None:
    """As in EvalPlus: a relative tolerance of an infinite value would accept any other value."""
    write_plus(tmp_path, canonical_solution="    return x * 1e308\n", plus_input=[[1e9]])
    (task,) = load("humaneval-plus", tmp_path)
    names: dict[str, Any] = {}
    exec(task.target["tests"], names)
    names["check"](lambda x: x * 1e308)
    with pytest.raises(AssertionError):
        names["check"](lambda x: min(x * 1e308, 1e308))
