"""Tests of MBPP+: EvalPlus's release as tasks, its conversion of inputs, and its rules of
comparison."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import BadRow, Task, benchmark_named, load_prompt
from tutti.tasks.benchmarks.evalplus.comparison import compare, converted, is_near
from tutti.tasks.sandbox import Sandbox, level_for_models
from tutti.tasks.scoring import SCORERS, Score, ScoringResources, Submission

HALVES = {
    "task_id": "Mbpp/9001",
    "prompt": '"""\nWrite a function to halve.\nassert half(3) == 1.5\n"""\n',
    "entry_point": "half",
    "canonical_solution": "\ndef half(x):\n  return x / 2\n",
    "base_input": [[3]],
    "plus_input": [[4.0], [7]],
    "atol": 0,
    "contract": "",
    "assertion": "assert half(3) == 1.5",
}


def items(folder: Path, **changed: Any) -> list[Task]:
    """Return the tasks loaded from one row of the release."""
    write_lines(folder / "MbppPlus.jsonl", [HALVES | changed])
    return load("mbpp-plus", folder)


async def scored(item: Task, code: str) -> Score:
    """Return the scorer's verdict on a reply with this code."""
    reply = f"```python\n{code}\n```"
    resources = ScoringResources(Sandbox(level_for_models()))
    return await SCORERS["code"].score(item.target, Submission(reply, reply), resources)


def passes(name: str, reference: str, solution: str, *inputs: list[Any], task: int = 1) -> bool:
    """Return whether `compare` accepts the solution; reference and solution are bodies of ``lambda
    a, b=0:``."""
    case = {
        "task": task,
        "inputs": json.dumps(inputs),
        "reference": f"{name} = lambda a, b=0: {reference}",
        "entry_point": name,
        "tolerance": 0,
    }
    try:
        compare(eval(f"lambda a, b=0: {solution}", {}), case)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize(
    ("body", "correct"),
    [
        ("return x / 2", True),
        ("return x * 0.5 + 1e-9", True),  # floats: within 1e-6
        ("return x / 2 + 1e-3", False),
        ("return x // 2", False),
        ("return x / 2 if x < 5 else 0.0", False),  # a plus input
    ],
)
async def test_the_scorer_compares_with_the_reference(
    tmp_path: Path, body: str, correct: bool
) -> None:
    """Base and plus inputs run in the sandbox, with EvalPlus's tolerance for floats."""
    (item,) = items(tmp_path)
    assert (await scored(item, f"def half(x):\n    {body}")).correct is correct


@pytest.mark.parametrize("name", ["sum", "check", "convert", "compare", "solution", "case"])
async def test_any_name_of_a_function(tmp_path: Path, name: str) -> None:
    """Functions of the release may have names of builtins or of the comparison's own parts."""
    reference = f"def {name}(x):\n  return x + 1\n"
    (item,) = items(tmp_path, entry_point=name, canonical_solution=reference)
    assert (await scored(item, item.target["answer"])).correct
    assert not (await scored(item, f"def {name}(x):\n  return x + 2\n")).correct


async def test_values_that_json_has_not_reach_the_solution(tmp_path: Path) -> None:
    """Tuples and complex numbers, which JSON lacks, are passed to the solution's process
    unchanged."""
    for task, given_, wanted in (
        ("Mbpp/252", ["1+2j"], "complex"),
        ("Mbpp/750", [[1], [2]], "list"),
        ("Mbpp/2", [[1], [2]], "tuple"),
        ("Mbpp/115", [[[1]]], "list"),
    ):
        code = f"def half(*given):\n  return type(given[0]).__name__ == {wanted!r}\n"
        reference = "def half(*given):\n  return True\n"
        (item,) = items(
            tmp_path, task_id=task, canonical_solution=reference, base_input=[given_], plus_input={}
        )
        assert (await scored(item, code)).correct, task


async def test_infinity_is_read_and_passed(tmp_path: Path) -> None:
    """The release has -Infinity among its inputs, which is not valid JSON."""
    (item,) = items(tmp_path, plus_input=[[float("-inf")]])
    assert (await scored(item, "def half(x):\n    return x * 0.5")).correct
    assert not (await scored(item, "def half(x):\n    return max(x, -1e9) / 2")).correct


async def test_a_match_is_found(tmp_path: Path) -> None:
    """A match object, which stays in the solution's process, counts as a match; False counts as
    none."""
    reference = "import re\ndef check_str(x):\n  return re.search('a', x)\n"
    changed = {"canonical_solution": reference, "base_input": [["a"], ["b"]], "plus_input": []}
    (item,) = items(tmp_path, entry_point="check_str", **changed)
    assert (await scored(item, reference)).correct
    assert (await scored(item, "def check_str(x):\n  return 'a' in x\n")).correct
    assert not (await scored(item, "def check_str(x):\n  return True\n")).correct
    assert not (await scored(item, "def check_str(x):\n  return 'no'\n")).correct


@pytest.mark.parametrize(
    ("task", "given_", "passed"),
    [
        (1, [[1]], [[1]]),
        (2, [[1], [2]], [(1,), (2,)]),
        (63, [[[1, 2]]], [[(1, 2)]]),
        (75, [[[1, 2]], 6], [[(1, 2)], 6]),
        (106, [[1], [2]], [[1], (2,)]),
        (115, [[[1, 1], []]], [[{1}, {}]]),
        (124, ["0", "1j"], [0.0, 1j]),
        (250, [[1], 4], [(1,), 4]),
        (252, [4], [4 + 0j]),
        (259, [[[1], [2]], [[3]]], [((1,), (2,)), ((3,),)]),
        (278, [[1, [2]]], [(1, (2,))]),
        (580, [[1, [2, [3]]]], ((1, (2, (3,))),)),
        (722, [{"a": [1, 2]}, 6, 7], [{"a": (1, 2)}, 6, 7]),
    ],
)
def test_inputs_have_the_types_of_the_task(task: int, given_: list[Any], passed: Any) -> None:
    (made,) = converted(task, [given_])
    assert made == passed and repr(made) == repr(passed)


@pytest.mark.parametrize(
    ("name", "reference", "right", "wrong"),
    [
        ("similar_elements", "(1, 2)", "[2, 1, 1]", "(1,)"),
        ("are_equivalent", "True", "None", None),
        ("sum_div", "a + 1", "0", "a"),
        ("surface_Area", "0", "round(a * a + 2 * a * ((a / 2) ** 2 + b * b) ** 0.5)", "1"),
        ("digit_distance_nums", "0", "10", "11"),  # |0 - 9| + |3 - 2|
        ("other", "(1.0, 2.0)", "(1.0, 2.0 + 1e-7)", "[1.0, 2.0 + 1e-7]"),
        ("other", "[1, 2]", "[1, 2]", "(1, 2)"),
        ("other", "1.0", "1", "1 + 1e-9j"),
    ],
)
def test_rules_of_single_functions(
    name: str, reference: str, right: str, wrong: str | None
) -> None:
    given_ = [[3, 92]] if name == "digit_distance_nums" else [[3, 4]]
    assert passes(name, reference, reference, *given_)
    assert passes(name, reference, right, *given_)
    assert wrong is None or not passes(name, reference, wrong, *given_)


def test_the_tolerance_stays_after_the_first_float() -> None:
    """As in EvalPlus, a float among the results sets the tolerance for the results after it."""
    reference, solution = "1.0 if a else [1, 2.0]", "1.0 if a else [1, 2.0 + 1e-8]"
    assert passes("f", reference, solution, [1], [0])
    assert not passes("f", reference, solution, [0], [1])


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_nearness_is_a_distance(made: float, expected: float) -> None:
    """Equal values are near, no finite value is near infinity, and lists are near if their members
    are."""
    near = is_near(made, expected, 1e-6)
    assert is_near(expected, expected, 1e-6)
    assert near is is_near([1, [made]], (1, (expected,)), 1e-6)
    if abs(made - expected) > 1e-6 + 1e-6 * abs(expected):
        assert not near
    assert not is_near(made, float("inf"), 1e-6) or made == float("inf")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"atol": "x"}, "atol"),
        ({"base_input": [], "plus_input": {}}, "empty"),
        ({"base_input": [3]}, "base_input.0: 3 is not a list"),
        ({"task_id": "Mbpp/252", "plus_input": [["one"]]}, "plus_input.0: has not the form"),
        ({"task_id": "MBPP/x"}, "task_id"),
        ({"entry_point": "a b"}, "entry_point"),
        ({"prompt": "Write a function."}, "prompt"),
    ],
)
def test_rows_that_are_wrong(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRow, match=said):
        items(tmp_path, **change)


def test_the_prompt_shows_the_question_and_its_assertion(tmp_path: Path) -> None:
    (item,) = items(tmp_path)
    (message,) = load_prompt(benchmark_named("mbpp-plus").prompt).render(item)
    assert message["content"].startswith("Write a function to halve.\n\nIt must pass")
    assert "```python\nassert half(3) == 1.5\n```" in message["content"]


def test_the_release() -> None:
    """All 378 tasks of v0.2.0 load (TUTTI_EVALPLUS: the folder of its unpacked files)."""
    folder = os.environ.get("TUTTI_EVALPLUS")
    if not folder or not (Path(folder) / "MbppPlus.jsonl").is_file():
        pytest.skip("no MbppPlus.jsonl (TUTTI_EVALPLUS)")
    assert len({item.key for item in load("mbpp-plus", Path(folder))}) == 378
