"""Tests with wrong expectations: each case fails for what is right, and the rest stays as it is."""

import unittest
from typing import Any

import pytest

from tutti.tasks.scoring.published.controls import controls, excuses

HEAD = "import unittest\nclass TestCases(unittest.TestCase):\n    def test_a(self):\n        "
ASSERTIONS = {
    "self.assertEqual(f(2), 6)": "self.assertEqual(f(2), 7)",
    "self.assertEqual(6, f(2))": "self.assertEqual(7, f(2))",
    "self.assertEqual(f(2), [1, 'é'])": "self.assertEqual(f(2), [2, 'é'])",
    "self.assertEqual(f(2), 'é')": "self.assertEqual(f(2), 'é.')",
    "self.assertEqual(f(2), {'a': True})": "self.assertEqual(f(2), {'a': False})",
    "self.assertEqual(f(2), want)": "self.assertEqual(f(2), [object()])",
    "x = f(2); self.assertEqual(want, x)": "x = f(2); self.assertEqual([object()], x)",
    "self.assertAlmostEqual(f(2), 6.0)": "self.assertAlmostEqual(f(2), [object()])",
    "self.assertIn(f(2), want)": "self.assertIn(f(2), [object()])",
    "np.testing.assert_allclose(f(2), want)": "np.testing.assert_allclose(f(2), [object()])",
    "self.assertTrue(f(2) == 6)": "self.assertTrue(f(2) == 7)",
    "self.assertTrue(np.allclose(f(2), want))": "self.assertTrue(np.allclose(f(2), [object()]))",
    "self.assertTrue(f(2) > 3, 'low')": "self.assertTrue(not (f(2) > 3), 'low')",
    "self.assertFalse(f(2))": "self.assertFalse(not (f(2)))",
    "assert f(2) == 6": "assert f(2) == 7",
    "assert f(2)": "assert not (f(2))",
    "self.assertIsInstance(f(2), int)": "self.assertIsInstance(f(2), GeneratorExit)",
    "self.assertIsNone(f(2))": "self.assertIsNone(0)",
    "self.assertGreater(f(2), 1)": "self.assertGreater(0, 1)",
    "self.assertRaises(ValueError, f, 2)": "self.assertRaises(GeneratorExit, f, 2)",
    "with self.assertRaises(ValueError): f(2)": "with self.assertRaises(GeneratorExit): f(2)",
    "with a as x: self.assertEqual(f(x), 6)": "with a as x: self.assertEqual(f(x), 7)",
    "run.assert_called_with('b', shell=True)": "run.assert_called_with([object()], shell=True)",
    "pass": "pass; self.assertEqual(0, 1)",
}


@pytest.mark.parametrize("line", ASSERTIONS)
def test_one_expectation_is_wrong(line: str) -> None:
    """The side that does not come from the solution; nothing else is changed."""
    head = HEAD.replace("\n        ", " ") if line == "pass" else HEAD
    text, controlled = controls(head + line, ["test_a"], "f")
    assert text.endswith(ASSERTIONS[line]) and controlled == {"test_a"}


@pytest.mark.parametrize(
    "body",
    [
        "return",
        "if f(2):\n            return\n        self.assertEqual(f(2), 6)",
        "yield",
    ],
)
def test_what_may_end_early_has_no_control(body: str) -> None:
    assert controls(HEAD + body, ["test_a"], "f") == (HEAD + body, set())


def test_what_is_not_surely_run_is_not_changed() -> None:
    """Loops, branches, handled errors and what follows an error that is expected."""
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
    """And passes for one that equals everything."""

    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    tests = HEAD + "self.assertEqual(f(2), 6)\n    def test_b(self):\n        want = [3]\n"
    tests += "        self.assertEqual(f(1)[0], want)\n    def test_c(self):\n        pass\n"
    wrong, controlled = controls(tests, ["test_a", "test_b", "test_c"], "f")
    assert controlled == {"test_a", "test_b", "test_c"}
    right = {2: 6, 1: [[3]]}
    assert failures(tests, right.__getitem__) == set()
    assert failures(wrong, right.__getitem__) == controlled
    assert failures(wrong, lambda x: [Anything()] if x == 1 else Anything()) == {"test_c"}


def failures(tests: str, function: Any) -> set[str]:
    """The names of the cases that fail."""
    names: dict[str, Any] = {"f": function}
    exec(compile(tests, "tests", "exec"), names)
    result = unittest.TestResult()
    unittest.TestLoader().loadTestsFromTestCase(names["TestCases"]).run(result)
    return {case.id().split(".")[-1] for case, _ in [*result.failures, *result.errors]}


def test_excuses_are_those_of_the_text() -> None:
    """Of the case, its class or what sets it up; the word alone says nothing."""
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
        "skip"
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
