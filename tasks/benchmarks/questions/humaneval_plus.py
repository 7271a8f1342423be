"""HumanEval+: HumanEval's 164 functions with EvalPlus's inputs, about eighty times as many.

Reads EvalPlus's own release (``HumanEvalPlus.jsonl``, unpacked). A solution passes if it returns
what the reference solution returns for all base and plus inputs: its ``plus`` figure, which holds
only where ``base`` does. Compared by EvalPlus's rule: equal, or, where the row has a tolerance or a
result is made of floats (then 1e-6), of the same type and length and within
``tolerance + 1e-7 * |expected|``; for ``find_zero`` the polynomial at the result is within the
tolerance of 0. Both solutions run apart, as the scorer ``code`` does it; its time limit holds for
all inputs together, where EvalPlus has one for each.
"""

import json
from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

_TESTS = """
import copy
import json
import math

INPUTS = json.loads({inputs!r})
REFERENCE = {reference!r}


def is_float(value):
    if isinstance(value, (list, tuple)) and value:
        return all(isinstance(each, float) for each in value)
    return isinstance(value, float)


def near(made, expected, tolerance):
    if isinstance(expected, (list, tuple)):
        pairs = zip(made, expected)
        return len(made) == len(expected) and all(near(a, b, tolerance) for a, b in pairs)
    if made == expected:
        return True
    return math.isfinite(expected) and abs(made - expected) <= tolerance + 1e-7 * abs(expected)


def check(candidate):
    inside = {{}}
    exec(REFERENCE, inside)
    tolerance = {tolerance!r}
    for given in INPUTS:
        expected = inside[{entry!r}](*copy.deepcopy(given))
        made = candidate(*copy.deepcopy(given))
        if {entry!r} == "find_zero":
            value = sum(each * math.pow(made, power) for power, each in enumerate(given[0]))
            assert abs(value) <= tolerance, given
            continue
        if tolerance == 0 and is_float(expected):
            tolerance = 1e-6
        if made == expected:
            continue
        assert tolerance and type(made) is type(expected), (given, made, expected)
        assert near(made, expected, tolerance), (given, made, expected)
"""


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``task_id``, ``prompt``, ``canonical_solution``, ``entry_point``,
    ``base_input``, ``plus_input`` and ``atol``."""
    for row in files.rows():
        prompt = row.text("prompt")
        yield Task(
            key=row.text("task_id"),
            inputs={"question": prompt},
            target={
                "prompt": prompt,
                "tests": _tests(row),
                "entry_point": row.text("entry_point"),
                "answer": prompt + row.text("canonical_solution"),
            },
        )


def _tests(row: Row) -> str:
    """The program that compares a solution with the reference on all inputs."""
    inputs = [*row.array("base_input"), *row.array("plus_input")]
    if not inputs:
        row.bad("base_input", "is empty, and so is plus_input")
    tolerance = row.value("atol")
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float):
        row.wrong(("atol",), tolerance, "a number")
    return _TESTS.format(
        inputs=json.dumps(inputs),
        reference=row.text("prompt") + row.text("canonical_solution"),
        tolerance=tolerance,
        entry=row.text("entry_point"),
    )


HUMANEVAL_PLUS = Benchmark(
    name="humaneval-plus",
    read=read,
    splits={
        "test": ("HumanEvalPlus.jsonl",),
        "mini": ("HumanEvalPlus-Mini.jsonl",),
    },
    scorer="code",
    prompt="complete_code",
    licence="Apache-2.0; Liu et al. 2023, arXiv 2305.01210",
)
