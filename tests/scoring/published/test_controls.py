"""Tests of controls with wrong expectations: each case fails for a correct solution, and the rest
is unchanged."""

import unittest
from collections import Counter
from typing import Any

import pytest

from tutti.tasks.scoring.published.controls import controls, excuses

HEAD = "import unittest\nclass TestCases(unittest.TestCase):\n    def test_a(self):\n        "
RAISES, CALL = "with self.assertRaises(ValueError)", "\n            f(2)"
STOPS, FAILING = "self.assertRaises(KeyboardInterrupt, f)", "\n        self.assertEqual(0, 1)"
ASSERTIONS = {
    "self.assertEqual(f(2), 6)": "self.assertEqual(f(2), 7)",
    "self.assertEqual(6, f(2))": "self.assertEqual(7, f(2))",
    "self.assertEqual(f(2), [1, 'é'])": "self.assertEqual(f(2), [2, 'é'])",
    "self.assertEqual(f(2), 'é')": "self.assertEqual(f(2), 'é.')",
    "self.assertEqual(f(2), {'a': True})": "self.assertEqual(f(2), {'a': False})",
    "self.assertEqual(f(2), want)": "self.assertEqual(f(2), (want, [object()])[1])",
    "x = f(2)\n        self.assertEqual(want, x)": "self.assertEqual((want, [object()])[1], x)",
    "self.assertAlmostEqual(f(2), 6.0)": "self.assertAlmostEqual(f(2), (6.0, [object()])[1])",
    "self.assertIn(f(2), want)": "self.assertIn(f(2), (want, [object()])[1])",
    "t.assert_allclose(f(2), c)": "t.assert_allclose(f(2), (c, [object()])[1])",
    "self.assertTrue(f(2) == 6)": "self.assertTrue(f(2) == 7)",
    "self.assertTrue(t.isclose(f(2), c))": "self.assertTrue(t.isclose(f(2), (c, [object()])[1]))",
    "self.assertTrue(f(2) > 3, 'low')": "self.assertTrue(not (f(2) > 3), 'low')",
    "self.assertFalse(f(2))": "self.assertFalse(not (f(2)))",
    "assert f(2) == 6": "assert f(2) == 7",
    "assert f(2)": "assert not (f(2))",
    "self.assertIsInstance(f(2), int)": "self.assertIsInstance(*(f(2), int, GeneratorExit)[::2])",
    "self.assertIsNone(f(2))": "self.assertIsNone((f(2), 0)[1])",
    "self.assertGreater(f(2), 1)": "self.assertGreater(*(f(2), 1, 0, 1)[2:])",
    "self.assertRaises(ValueError, f, 2)": "self.assertRaises(GeneratorExit, f, 2)",
    "with a as x:\n            self.assertEqual(f(x), 6)": "self.assertEqual(f(x), 7)",
    "m.assert_called_with('b', x=1)": "m.assert_called_with(('b', [object()])[1], x=1)",
}


@pytest.mark.parametrize("line", ASSERTIONS)
def test_one_expectation_is_wrong(line: str) -> None:
    """The changed side is the one that does not come from the solution."""
    text, failures = controls(HEAD + line, ["test_a"], "f")

    assert failures == {"test_a": 1}
    assert text.endswith(f" with self.subTest(): {ASSERTIONS[line]}")


@pytest.mark.parametrize(
    ("body", "control"),
    [
        (f"{RAISES}:{CALL}", f"with self.subTest(), self.assertRaises(GeneratorExit):{CALL}"),
        (f"{RAISES} as error:{CALL}", f"{RAISES} as error:{CALL}{FAILING}"),
        (STOPS, STOPS + FAILING),
        (
            "x = 1; self.assertEqual(f(2), x)",
            "x = 1; self.assertEqual(f(2), x); " + FAILING.strip(),
        ),
    ],
)
def test_errors_and_cases_without_a_place(body: str, control: str) -> None:
    """A value that is used later, would end the run, or does not begin its line is not changed."""
    assert controls(HEAD + body, ["test_a"], "f") == (HEAD + control, {"test_a": 1})


@pytest.mark.parametrize(
    "body",
    [
        "return",
        "if f(2):\n            return\n        self.assertEqual(f(2), 6)",
        "yield",
    ],
)
def test_what_may_end_early_has_no_control(body: str) -> None:
    assert controls(HEAD + body, ["test_a"], "f") == (HEAD + body, {})


def test_what_is_not_surely_run_is_not_changed() -> None:
    """Such expectations are in loops, branches, handled errors and statements after an expected
    error."""
    body = """for x in f(0):
            self.assertEqual(x, 1)
        if f(1):
            self.assertEqual(f(2), 6)
        try:
            self.assertEqual(f(2), 6)
        except AssertionError:
            pass
        with self.subTest():
            with contextlib.suppress(AssertionError):
                self.assertEqual(f(2), 6)
        f(3)"""
    text, _ = controls(HEAD + body, ["test_a"], "f")
    assert text == f"{HEAD}{body}\n        self.assertEqual(0, 1)"


def test_every_control_fails_for_a_right_solution() -> None:
    """Each fails the expected number of times; a value that equals everything makes one control
    pass."""

    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    tests = HEAD + "self.assertEqual(f(2), 6)\n        self.assertTrue(f(1))\n"
    tests += "    def test_b(self):\n        want = [3]\n        self.assertEqual(f(1)[0], want)\n"
    tests += "    def test_c(self):\n        pass\n"
    wrong, failures = controls(tests, ["test_a", "test_b", "test_c"], "f")
    assert failures == {"test_a": 2, "test_b": 1, "test_c": 1}
    right = {2: 6, 1: [[3]]}
    assert failed(tests, right.__getitem__) == {}
    assert failed(wrong, right.__getitem__) == failures
    partly = {2: Anything(), 1: [[3]]}
    assert failed(wrong, partly.__getitem__) == {"test_a": 1, "test_b": 1, "test_c": 1}


def failed(tests: str, function: Any) -> Counter[str]:
    """Return the number of failures of each case."""
    names: dict[str, Any] = {"f": function}
    exec(compile(tests, "tests", "exec"), names)
    result = unittest.TestResult()
    unittest.TestLoader().loadTestsFromTestCase(names["TestCases"]).run(result)
    found = [*result.failures, *result.errors]
    return Counter(case.id().split(".")[-1].split(" ")[0] for case, _ in found)


def test_excuses_are_those_of_the_text() -> None:
    """An excuse belongs to the case, its class or its set-up; the word alone is none."""
    tests = """
class TestCases(unittest.TestCase):
    '''Rows to skip.'''
    @unittest.skipIf(True, "x")
    def test_a(self): pass
    @unittest.expectedFailure
    def test_b(self): pass
    def test_c(self):
        skip = "skip"  # to skip
        self.skipTest("x")
    def test_d(self):
        expected = "skip"
class Other(unittest.TestCase):
    def setUp(self):
        raise unittest.SkipTest
    def test_e(self): pass
"""
    found = excuses(tests, [f"test_{each}" for each in "abcde"])
    assert found == {
        "test_a": {"skipped"},
        "test_b": {"expected"},
        "test_c": {"skipped"},
        "test_d": set(),
        "test_e": {"skipped"},
    }
