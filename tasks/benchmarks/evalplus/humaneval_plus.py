"""HumanEval+'s tests, a column of ``sets/code/humaneval-plus.yaml``.

A solution passes if it returns what the reference returns for all base and plus inputs: equal, or
for floats within ``tolerance + 1e-7 * |expected|``; for ``find_zero`` the polynomial at the result
is within the tolerance of 0. The time limit holds for all inputs together.
"""

import json

from tutti.tasks.benchmarks.rows import Row

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


def tests(row: Row, *_: str) -> str:
    """The program that compares a solution with the reference on all inputs. Raises BadRow."""
    inputs = [*row.array("base_input"), *row.array("plus_input")]
    if not inputs:
        row.bad("base_input", "is empty, and so is plus_input")
    return _TESTS.format(
        inputs=json.dumps(inputs),
        reference=row.text("prompt") + row.text("canonical_solution"),
        tolerance=row.number("atol"),
        entry=row.text("entry_point"),
    )
