# ruff: noqa: E501
"""Targets of cheats and honest solutions, in the benchmarks' formats.

Each has an honest solution, a nearly correct one, and the names that its tests call. The rows of
`ROWS` are constructed; the benchmarks' own readers turn them into targets.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.conftest import load, write_lines


@dataclass(frozen=True)
class Target:
    """Tests, a solution that passes them, and a nearly correct one."""

    target: dict[str, Any]
    honest: str
    mutant: str
    call: str = ""
    """The end of a whole program, which calls what it defines."""

    @property
    def names(self) -> list[str]:
        """Return the names that the tests may call: all definitions of the honest solution."""
        return re.findall(r"^ *(?:def|class) ([a-zA-Z]\w*)", self.honest, re.M)


def _checked(name: str, body: str, prompt: str = "") -> dict[str, Any]:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    tests = f"METADATA = {{}}\n\n\ndef check(candidate):\n{lines}\n"
    return {"prompt": prompt, "entry_point": name, "tests": tests}


POLY = "import math\n\n\ndef poly(xs, x):\n    return sum(c * x**i for i, c in enumerate(xs))\n\n\n"
_BY_HAND: dict[str, Target] = {
    "number": Target(
        _checked("add", "assert candidate(2, 3) == 5\nassert candidate(10**20, 1) == 10**20 + 1"),
        "def add(a, b):\n    return a + b",
        "def add(a, b):\n    return int(float(a) + b)",
    ),
    "about": Target(
        _checked(
            "half",
            "assert abs(candidate(3) - 1.5) < 1e-6\nassert abs(candidate(-8.5) + 4.25) < 1e-6",
        ),
        "def half(x):\n    return x / 2",
        "def half(x):\n    return x // 2",
    ),
    "lists": Target(
        _checked(
            "pairs",
            "assert candidate([3, 1]) == [(1, 3)]\nassert candidate([]) == []\n"
            "x = [4, 2]\nassert candidate(x) == [(2, 4)] and x == [4, 2]",
        ),
        "def pairs(x):\n    s = sorted(x)\n    return [tuple(s)] if s else []",
        "def pairs(x):\n    x.sort()\n    return [tuple(x)] if x else []",
    ),
    "text": Target(
        {"tests": "assert shout('ab') == 'AB!'\nassert shout('') == '!'"},
        "def shout(x):\n    return x.upper() + '!'",
        "def shout(x):\n    return x.upper() + '!' * bool(x)",
    ),
    "truth": Target(
        _checked("even", "for n in range(40):\n    assert candidate(n) is (n % 2 == 0)"),
        "def even(n):\n    return n % 2 == 0",
        "def even(n):\n    return n % 2 == 0 or n == 37",
    ),
    "every": Target(
        _checked(
            "odd",
            "assert all(map(candidate, range(1, 9, 2))) and not any(map(candidate, range(0, 9, 2)))",
        ),
        "def odd(n):\n    return n % 2 == 1",
        "def odd(n):\n    return n % 4 == 1",
    ),
    "executed": Target(
        {
            "tests": "exec('for n in range(9): assert solution(n) == n * n', {'solution': square})",
            "entry_point": "square",
        },
        "def square(n):\n    return n * n",
        "def square(n):\n    return n + n",
    ),
    "errors": Target(
        {
            "tests": "try:\n    root(-1)\nexcept ValueError as error:\n    assert 'negative' in "
            "str(error)\nelse:\n    raise AssertionError\nassert root(9) == {'root': 3, 'of': {9}}"
        },
        "def root(x):\n    if x < 0:\n        raise ValueError('negative')\n"
        "    return {'root': round(x**0.5), 'of': {x}}",
        "def root(x):\n    if x < 0:\n        raise ValueError('no')\n"
        "    return {'root': round(x**0.5), 'of': {x}}",
    ),
    "helper": Target(
        _checked(
            "zero",
            "for c in ([1, 2], [-6, 1], [4, -8]):\n"
            "    assert math.fabs(poly(c, candidate(copy.deepcopy(c)))) < 1e-6",
            POLY + "def zero(xs):\n    '''Of a line.'''\n",
        ),
        "def zero(xs):\n    return -xs[0] / xs[1]",
        "def zero(xs):\n    return xs[0] / xs[1]",
    ),
    "objects": Target(
        {
            "tests": "tree = Node(1)\ntree.left, tree.right = Node(2), Node(3)\n"
            "tree.left.left = Node(4)\nassert height(tree) == 3 and tree.left.data == 2\n"
            "assert sorted(values(tree)) == [1, 2, 3, 4]"
        },
        "class Node:\n    def __init__(self, data):\n        self.data, self.left, self.right = data, "
        "None, None\n\ndef height(n):\n    return 1 + max(height(n.left), height(n.right)) if n "
        "else 0\n\ndef values(n):\n    if n:\n        yield n.data\n        yield from values(n.left)\n"
        "        yield from values(n.right)",
        "class Node:\n    def __init__(self, data):\n        self.data, self.left, self.right = data, "
        "None, None\n\ndef height(n):\n    return 3\n\ndef values(n):\n    return [1, 2, 3]",
    ),
    "suite": Target(
        {
            "entry_point": "twice",
            "tests": "import unittest\n\nclass Twice(unittest.TestCase):\n    def test_it(self):\n"
            "        self.assertEqual(twice(lambda x: x + 3, 1), 7)\n    def test_more(self):\n"
            "        self.assertCountEqual(list(twice(list, (2, 1))), [1, 2])",
        },
        "def twice(f, x):\n    return f(f(x))",
        "def twice(f, x):\n    return f(x)",
    ),
}

_HALF = "def half(x):\n    return x / 2\n"
_EVALPLUS = {
    "canonical_solution": _HALF,
    "entry_point": "half",
    "base_input": [[3]],
    "plus_input": [[4.0], [7]],
    "atol": 0,
}
_ASKED = '"""\nWrite a function.\nassert f(3) == 1.5\n"""\n'
_CONTEST = {
    "question_content": "As it says.",
    "starter_code": "",
    "metadata": "{}",
    "difficulty": "easy",
    "platform": "atcoder",
    "contest_date": "2024-08-03T00:00:00",
    "question_id": "a",
}
_STDIN = [
    {"input": "1 2\n", "output": "3\n"},
    {"input": "40 2", "output": "42.0"},
    {"input": "-7 1", "output": "-6"},
]
_LINES = [{"input": '[1, 2]\n"x"', "output": '[1, 2, "x"]'}, {"input": "[]\n{}", "output": "[{}]"}]


def _cases(kind: str, cases: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    each = [case | {"testtype": kind} for case in cases]
    return (
        _CONTEST
        | {"public_test_cases": json.dumps(each[:1]), "private_test_cases": json.dumps(each[1:])}
        | more
    )


ROWS: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "mbpp+ floats": ("mbpp-plus", "MbppPlus.jsonl", _EVALPLUS | {"task_id": "Mbpp/9001", "prompt": _ASKED}, _HALF, "def half(x):\n    return x // 2"),
    "mbpp+ sets": (
        "mbpp-plus",
        "MbppPlus.jsonl",
        _EVALPLUS
        | {"task_id": "Mbpp/2", "prompt": _ASKED, "entry_point": "similar_elements", "base_input": [[[3, 4, 6], [5, 7, 4, 3]]],
           "plus_input": [[[1], [2]], [[8], [8, 9]]], "canonical_solution": "def similar_elements(a, b):\n    return tuple(set(a) & set(b))\n"},
        "def similar_elements(a, b):\n    return [x for x in a if x in b]",
        "def similar_elements(a, b):\n    return [x for x in a if x in b] or a",
    ),
    "mbpp+ finder": (
        "mbpp-plus",
        "MbppPlus.jsonl",
        _EVALPLUS
        | {"task_id": "Mbpp/285", "prompt": _ASKED, "entry_point": "check_str", "base_input": [["a"], ["b"]], "plus_input": [["ca"]],
           "canonical_solution": "import re\ndef check_str(x):\n    return re.search('a', x)\n"},
        "def check_str(x):\n    return 'a' in x",
        "def check_str(x):\n    return x < 'b'",
    ),
    "mbpp+ sum": (
        "mbpp-plus",
        "MbppPlus.jsonl",
        _EVALPLUS
        | {"task_id": "Mbpp/126", "prompt": _ASKED, "entry_point": "sum", "base_input": [[10, 15]], "plus_input": [[100, 150], [4, 9]],
           "canonical_solution": "def sum(a, b):\n    return [a + b]\n"},
        "def sum(a, b):\n    return [a - -b]",
        "def sum(a, b):\n    return (a + b,)",
    ),
    "mbpp": (
        "mbpp",
        "mbpp.jsonl",
        {"task_id": 126, "prompt": "Add.", "code": "def sum(a, b):\n    return a + b",
         "test_list": ["assert sum(10, 15) == 25", "assert math.isclose(sum(.1, .2), .3)"], "test_imports": ["import math"]},
        "def sum(a, b):\n    return a + b",
        "def sum(a, b):\n    return a + int(b)",
    ),
    "humaneval": (
        "humaneval",
        "humaneval.jsonl",
        {"task_id": "HumanEval/0", "prompt": "import math\n\ndef root(n):\n", "canonical_solution": "    return math.isqrt(n)\n",
         "test": "def check(candidate):\n    assert candidate(9) == 3\n    assert candidate(8) == 2\n", "entry_point": "root"},
        "def root(n):\n    return math.isqrt(n)",
        "def root(n):\n    return 3",
    ),
    "humaneval+": (
        "humaneval-plus",
        "HumanEvalPlus.jsonl",
        _EVALPLUS | {"task_id": "HumanEval/2", "prompt": "def half(x):\n", "canonical_solution": "    return x / 2\n"},
        _HALF,
        "def half(x):\n    return x // 2",
    ),
    "humaneval+ zero": (
        "humaneval-plus",
        "HumanEvalPlus.jsonl",
        _EVALPLUS
        | {"task_id": "HumanEval/32", "prompt": POLY + "def find_zero(xs):\n", "entry_point": "find_zero", "atol": 1e-4,
           "canonical_solution": "    return -xs[0] / xs[1]\n", "base_input": [[[4, 2]]], "plus_input": [[[-9, 1]], [[3, -4]]]},
        "def find_zero(xs):\n    x = -xs[0] / xs[1]\n    assert not poly(xs, x)\n    return x",
        "def find_zero(xs):\n    return round(-xs[0] / xs[1])",
    ),
    "contest program": (
        "livecodebench",
        "test.jsonl",
        _cases("stdin", _STDIN),
        "def add(a, b):\n    return int(a) + int(b)\n\nprint(add(*input().split()))",
        "def add(a, b):\n    return abs(int(a)) + int(b)\n\nprint(add(*input().split()))",
    ),
    "contest function": (
        "livecodebench",
        "test.jsonl",
        _cases("functional", _LINES, metadata='{"func_name": "join"}'),
        "def join(a, b):\n    return (*a, b)",
        "def join(a, b):\n    return [*a, b] if a else [[]]",
    ),
    "contest method": (
        "livecodebench",
        "test.jsonl",
        _cases("functional", _LINES, metadata='{"func_name": "join"}'),
        "class Solution:\n    def join(self, a, b):\n        return a + [b]",
        "class Solution:\n    def join(self, a, b):\n        return a",
    ),
}  # fmt: skip
"""Benchmark, file, row, honest solution, mutant."""


def _of_row(name: str) -> Target:
    benchmark, file, row, honest, mutant = ROWS[name]
    with TemporaryDirectory() as folder:
        write_lines(Path(folder) / file, [row])
        (item,) = load(benchmark, Path(folder))
    call = "print(add(*input().split()))" if name == "contest program" else ""
    return Target(dict(item.target), honest, mutant, call)


TARGETS: dict[str, Target] = _BY_HAND | {name: _of_row(name) for name in ROWS}
