"""Tests of BigCodeBench: a solution with its `unittest` cases, and cheats that do not get the
verdict."""

import ast
import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.scoring.published.bigcodebench_cheats import programs
from tests.scoring.published.bigcodebench_targets import ARRAYS, KNOWN, LIBRARIES, TARGETS
from tutti.tasks.sandbox import CODE_PYTHON, Sandbox, SandboxLimits
from tutti.tasks.scoring import Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.published.bigcodebench import LIMITS, BigCodeBench

TESTS = """
import io
import os
import unittest
from unittest.mock import mock_open, patch

class TestCases(unittest.TestCase):
    def setUp(self):
        self.path = "values.txt"

    def test_value(self):
        self.assertEqual(task_func(3), 6)

    def test_file(self):
        with patch("builtins.open", mock_open(read_data="7")):
            self.assertEqual(task_func("values.txt"), 14)

    def test_name_of_the_module(self):
        with patch(__name__ + ".os.path.exists", return_value=False):
            self.assertIsNone(task_func("values.txt"))

    def test_printed(self):
        with patch("sys.stdout", new_callable=io.StringIO) as printed:
            task_func(1)
        self.assertEqual(printed.getvalue(), "twice\\n")

    def test_each(self):
        for value in range(3):
            with self.subTest(value=value):
                self.assertEqual(task_func(value), 2 * value)
"""
GOLD = """import os
def task_func(x):
    print("twice")
    if isinstance(x, str):
        if not os.path.exists("."):
            return None
        with open(x) as file:
            x = int(file.read())
    return x * 2
"""
TARGET: dict[str, Any] = {
    "tests": TESTS,
    "cases": ["test_each", "test_file", "test_name_of_the_module", "test_printed", "test_value"],
    "entry_point": "task_func",
    "before": "import os\ndef task_func(x):\n\n    pass\n",
    "libraries": ["os"],
}
WITH_LIBRARIES = os.environ.get(CODE_PYTHON)
SHORT = replace(LIMITS, seconds=10.0)

WRONG = {
    "wrong": "return x",
    "raises": "raise ValueError(x)",
    "nothing": "pass",
}
CHEATS = {
    "exit": "import sys; sys.exit(0)",
    "os_exit": "import os; os._exit(0)",
    "abort": "import os; os.abort()",
    "keyboard": "raise KeyboardInterrupt",
    "skip": "import unittest; raise unittest.SkipTest('passed')",
    "skip_class": "import sys; c = sys.modules['__test__'].TestCases\n"
    "    c.__unittest_skip__ = True; return 0",
    "assertions": "import unittest\n    for name in dir(unittest.TestCase):\n"
    "        if name.startswith('assert'):\n"
    "            setattr(unittest.TestCase, name, lambda *a, **k: None)",
    "run": "import unittest; unittest.TestCase.run = lambda *a: None",
    "result": "import unittest; unittest.TestResult.addFailure = lambda *a: None\n"
    "    unittest.TestResult.addError = lambda *a: None; raise ValueError",
    "main": "import unittest; unittest.main = lambda *a, **k: None; return 0",
    "class": "import sys, unittest\n    class TestCases(unittest.TestCase):\n"
    "        def test_value(self): pass\n    sys.modules['__test__'].TestCases = TestCases",
    "methods": "import sys\n    c = sys.modules['__test__'].TestCases\n"
    "    for n in list(vars(c)):\n        n.startswith('test') and delattr(c, n)",
    "builtins": "import builtins\n    builtins.range = lambda n: []; builtins.isinstance = print",
    "printed": "import sys, os\n    for i in range(1, 70):\n        try: os.write(i, b'ok\\n')\n"
    "        except OSError: pass\n    print('OK', file=sys.__stdout__); os._exit(0)",
    "report": "import os\n    for i in range(3, 70):\n        try: os.write(i, b'4\\ndone26\\n'"
    " + b'0' * 32 + b'\\npassed test_value')\n        except OSError: pass\n    os._exit(0)",
    "fork": "import os\n    if os.fork(): os._exit(0)\n    return x * 2",
    "at_exit": "import atexit, os; atexit.register(os._exit, 0); raise SystemExit",
    "kill": "import os, signal; os.kill(os.getppid(), signal.SIGKILL); os.kill(os.getpid(), 9)",
    "deep": "return task_func(x)",
}


def reply(body: str) -> str:
    return f"Here it is:\n```python\nimport os\ndef task_func(x):\n    {body}\n```\nIt works."


async def scored(
    sandbox: Sandbox, text: str, limits: SandboxLimits = SHORT, **changed: Any
) -> Score:
    """Return the score of a reply; without `limits`, limits are used that no honest solution
    reaches."""
    scorer = BigCodeBench(limits)
    given = ScoringResources(sandbox=sandbox)
    return await scorer.score(TARGET | changed, Submission(None, text), given)


@pytest.fixture(autouse=True)
def _standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CODE_PYTHON, raising=False)


async def test_the_gold_solution(sandbox: Sandbox) -> None:
    """The solution is fenced or bare; tests patch its module, builtins, `open` and standard
    output."""
    for text in (GOLD, f"Sure:\n```python\n{GOLD}```\nThis works."):
        score = await scored(sandbox, text)
        assert score.correct and score.detail == {"status": "ok", "cases": 5}, score.detail
        assert score.answer is not None and score.answer.startswith("import os\ndef task_func")


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_solutions(sandbox: Sandbox, name: str) -> None:
    """The detail names the cases and has the end of an error message."""
    score = await scored(sandbox, reply(WRONG[name]))
    assert score.correct is False and score.value == 0.0
    assert "failed test_value" in score.detail["failed"] and "Error" in score.detail["output"]


@pytest.mark.parametrize("name", CHEATS)
async def test_no_cheat_passes(sandbox: Sandbox, name: str) -> None:
    """The cheats are exits, forks, changed tests and forged reports."""
    score = await scored(sandbox, reply(CHEATS[name]))
    assert score.correct is False, score.detail


@pytest.mark.parametrize(
    "name", ["exit", "os_exit", "skip", "assertions", "class", "report", "fork"]
)
async def test_no_cheat_passes_where_it_is_imported(sandbox: Sandbox, name: str) -> None:
    """The cheats act before the tests exist."""
    body = CHEATS[name].replace("return 0", "pass").replace("return x * 2", "pass")
    cheat = f"class Helper:\n    {body}\ndef task_func(x):\n    return Helper"
    assert "return" not in body
    assert (await scored(sandbox, f"```python\n{cheat}\n```")).correct is False


async def test_a_changed_unittest_is_named(sandbox: Sandbox) -> None:
    """Code that accesses it, and code that passes without being correct, is named, too."""
    unit = "import sys\n    unit = sys.modules['unit' + 'test']\n    "
    for body, status in (
        (unit + "unit.TestCase.assertEqual = print", "changed what its tests use"),
        ("import os; os.path.exists = print; return x", "error"),
        (unit + "raise unit.case._ShouldStop", "passes wrong tests"),
        (CHEATS["assertions"], "reaches for its tests"),
    ):
        assert (await scored(sandbox, reply(body))).detail["status"] == status


@pytest.mark.parametrize("name", TARGETS)
async def test_honest_solutions_pass(sandbox: Sandbox, name: str) -> None:
    """Honest solutions include classes with comparisons, libraries that inspect frames, caches and
    threads."""
    tests, right = TARGETS[name]
    code = f"""import collections, functools, inspect, logging, sys, threading, warnings
class Point:
    def __eq__(self, other): return isinstance(other, Point)
    def __lt__(self, other): return False
class Helper:
    pair = collections.namedtuple("pair", "a b")
    cached = functools.lru_cache(max)
{right.replace("def task_func", "def inner")}
def task_func(*args):
    global state
    state = Helper.pair(Point() == Point(), Helper.cached(1, 2))
    logging.getLogger("x").warning("%s", inspect.signature(inner))
    warnings.warn(str(inspect.getmodule(inner)))
    getattr(sys.stdout, "flush")()
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    try:
        return inner(*args)
    except TypeError as error:
        logging.exception(error.__class__.__name__)
        raise
"""
    score = await scored(sandbox, f"```python\n{code}```", tests=tests, cases=cases_of(tests))
    assert score.correct, score.detail


def cases_of(tests: str) -> list[str]:
    """Return the names of the tests."""
    functions = (node for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.FunctionDef))
    return [each.name for each in functions if each.name.startswith("test")]


async def passing(sandbox: Sandbox, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the programs that pass their own tests."""
    room = asyncio.Semaphore(2)

    async def one(tests: str, code: str) -> bool:
        async with room:
            given: dict[str, Any] = {"tests": tests, "cases": cases_of(tests)}
            score = await scored(sandbox, f"```python\n{code}\n```", **given)
            return score.correct is True

    outcomes = await asyncio.gather(*(one(*pair) for pair in pairs))
    return [code for (_, code), correct in zip(pairs, outcomes, strict=True) if correct]


@pytest.mark.slow
async def test_no_listed_program_passes(sandbox: Sandbox) -> None:
    """Each program runs with its own tests; the e2e tests run all with all tests."""
    tests = [given for given, _ in TARGETS.values()]
    pairs = [(tests[at % len(tests)], code) for at, (_, code) in enumerate(programs())]
    assert len(pairs) > 300 and await passing(sandbox, pairs) == []


@pytest.mark.e2e
@pytest.mark.parametrize("name", TARGETS)
async def test_no_listed_program_passes_any_tests(sandbox: Sandbox, name: str) -> None:
    """The test makes about 1,100 runs."""
    assert await passing(sandbox, [(TARGETS[name][0], code) for _, code in programs()]) == []


@pytest.mark.slow
async def test_no_comparison_of_a_library_is_bought(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cheats change `numpy.testing` and pandas, or return arrays that equal everything."""
    if WITH_LIBRARIES is None:
        pytest.skip(f"{CODE_PYTHON} names no Python with numpy and pandas")
    monkeypatch.setenv(CODE_PYTHON, WITH_LIBRARIES)
    (head, *cases), right = ARRAYS[0].split("    def test_"), ARRAYS[1]
    for case in cases:
        tests = f"{head}    def test_{case}"
        assert await passing(sandbox, [(tests, code) for code in [right, *LIBRARIES]]) == [right]


@pytest.mark.slow
async def test_what_is_known_to_pass(sandbox: Sandbox) -> None:
    """docs/security.md names the cheats that the scorer cannot stop. One that no longer passes
    belongs in the other list."""
    assert await passing(sandbox, list(KNOWN.values())) == [code for _, code in KNOWN.values()]


async def test_endless_solutions_end(sandbox: Sandbox) -> None:
    """A solution that ignores signals is ended, too."""
    limits = replace(LIMITS, seconds=1.5)
    for body in ("while True: pass", "import time; time.sleep(600)"):
        score = await scored(sandbox, reply(body), limits)
        assert not score.correct and score.detail["status"] == "timeout"


async def test_memory_is_limited(sandbox: Sandbox) -> None:
    limits = replace(LIMITS, memory_mb=400, seconds=20.0)
    score = await scored(sandbox, reply("return len(bytearray(2**30))"), limits)
    assert not score.correct and "MemoryError" in score.detail["output"]


async def test_published_limits() -> None:
    """The limits are 240 s plus the two seconds that its program adds, and 30 GiB of address
    space."""
    assert BigCodeBench().limits.seconds == 242 and BigCodeBench().limits.memory_mb == 30 * 1024


async def test_the_calibration_is_in_front(sandbox: Sandbox) -> None:
    """The prompt's imports are available to a reply without imports; a reply cannot hide them."""
    tests = "import unittest\nclass TestCases(unittest.TestCase):\n    def test_a(self):\n"
    tests += "        self.assertEqual(task_func(4), 2)"
    before = "from math import sqrt\ndef task_func(x):\n\n    pass\n"
    text = reply("return sqrt(x)")
    given: dict[str, Any] = {"tests": tests, "cases": ["test_a"], "before": before}
    assert (await scored(sandbox, text, **given)).correct
    assert not (await scored(sandbox, text, **{**given, "before": ""})).correct


async def test_annotations_are_evaluated(sandbox: Sandbox) -> None:
    """The published program has no ``from __future__`` line before the solution either."""
    text = "def task_func(x: Nothing):\n    return x"
    score = await scored(sandbox, text)
    assert not score.correct and "NameError" in score.detail["output"]


async def test_skipped_cases_count_only_where_the_tests_say_so(sandbox: Sandbox) -> None:
    """The excuse counts only for its own case, not for others. The same holds for an expected
    failure."""
    head = "import unittest\nclass TestCases(unittest.TestCase):\n"
    case = "    def test_a(self):\n        self.assertEqual(task_func(0), 0)\n"
    gone = "raise getattr(globals()['unit' + 'test'], 'Skip' + 'Test')('x')"
    for mark in ("skip('x')", "expectedFailure"):
        tests = f"{head}    @unittest.{mark}\n    def test_b(self):\n        self.fail()\n{case}"
        given: dict[str, Any] = {"tests": tests, "cases": ["test_a", "test_b"]}
        assert (await scored(sandbox, reply("return x"), **given)).correct
        score = await scored(sandbox, reply(gone), **given)
        assert not score.correct and "skipped test_a" in score.detail["failed"]


async def test_cases_that_may_end_early_have_no_control(sandbox: Sandbox) -> None:
    tests = "import unittest\nclass TestCases(unittest.TestCase):\n    def test_a(self):\n"
    tests += "        if task_func(1) == 1:\n            return\n        self.fail()"
    given: dict[str, Any] = {"tests": tests, "cases": ["test_a"]}
    assert (await scored(sandbox, reply("return x"), **given)).correct
    assert not (await scored(sandbox, reply("return 2"), **given)).correct


async def test_a_missing_library_is_nobodys_fault(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library of the task or its tests is named with its install command. One that only the
    solution imports is the solution's mistake; otherwise a wrong solution could avoid its score."""
    python = "/usr/bin/python3"
    before = "import sklearn, no_such_thing\n"
    for changed, text in (
        ({"libraries": ["sklearn"]}, GOLD),
        ({"before": before + TARGET["before"]}, GOLD),
        ({"tests": f"from sklearn import svm\n{TESTS}"}, GOLD),
    ):
        with pytest.raises(ScorerFailed, match=r"sklearn.*pip install .*scikit-learn"):
            await scored(sandbox, text, **changed)
    for name in ("no_such_thing", "sklearn"):
        score = await scored(sandbox, f"import {name}\n{GOLD}")
        assert score.correct is False and name in score.detail["output"]
    monkeypatch.setenv(CODE_PYTHON, python + "-none")
    with pytest.raises(ScorerFailed, match=f"{CODE_PYTHON}={python}-none: is no Python"):
        await scored(sandbox, GOLD)


async def test_without_a_sandbox_it_is_an_error() -> None:
    with pytest.raises(ScorerFailed, match="needs a sandbox"):
        await BigCodeBench().score(TARGET, Submission(None, GOLD), ScoringResources())
