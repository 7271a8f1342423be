# ruff: noqa: E501
"""Tests for BigCodeBench's cheats, and cheats that pass.

`TARGETS` are tests with an honest solution. `KNOWN` are cheats that the scorer cannot stop;
docs/security.md names their kinds.
"""

from textwrap import indent

_WORDS = """
import unittest
from unittest.mock import ANY

class TestCases(unittest.TestCase):
    '''Empty words are to skip.'''

    def setUp(self):
        self.words = ["right", "", "right"]

    def test_words(self):
        expected = {"right": 2}
        self.assertEqual(task_func(self.words), expected)

    def test_kind(self):
        found = task_func(["a", "b"])
        self.assertIsInstance(found, dict)
        self.assertIn("a", found)
        self.assertEqual(sorted(found), ["a", "b"])

    def test_none(self):
        self.assertFalse(task_func([]))
        self.assertTrue(len(task_func(["a"])) == 1)

    def test_error(self):
        with self.assertRaises(TypeError):
            task_func(None)
"""
_NUMBERS = """
import unittest

class TestCases(unittest.TestCase):
    def test_number(self):
        self.assertEqual(task_func(3), 6)

    def test_other(self):
        expected = 8
        self.assertEqual(task_func(4), expected)

    def test_text(self):
        result = task_func("a")
        self.assertEqual(result, "aa")
"""
_FILES = """
import json
import os
import unittest

class TestCases(unittest.TestCase):
    def tearDown(self):
        if os.path.exists("out.json"):
            os.remove("out.json")

    def test_file(self):
        self.assertIsNone(task_func({"a": 1}, "out.json"))
        self.assertTrue(os.path.exists("out.json"))
        with open("out.json") as file:
            self.assertDictEqual(json.load(file), {"a": 1})

    def test_number(self):
        self.assertAlmostEqual(task_func(0.1, None), 0.3, places=7)
        self.assertGreater(task_func(2, None), 5)

    def test_text(self):
        text = task_func("ab", None)
        self.assertTrue(isinstance(text, str) and len(text) == 6)
        self.assertListEqual([text], ["ababab"])
"""
TARGETS: dict[str, tuple[str, str]] = {
    "words": (
        _WORDS,
        "def task_func(words):\n    found = {}\n    for word in words:\n        if word:\n"
        "            found[word] = found.get(word, 0) + 1\n    return found",
    ),
    "numbers": (_NUMBERS, "def task_func(x):\n    return x * 2"),
    "files": (
        _FILES,
        "import json\ndef task_func(value, path):\n    if path is None:\n        return value * 3\n"
        "    with open(path, 'w') as file:\n        json.dump(value, file)",
    ),
}
"""Tests and a right solution, by name."""


_WEAK = """
import pathlib
import unittest

class TestCases(unittest.TestCase):
    def test_value(self):
        expected = [6]
        self.assertEqual(task_func(3), expected)

    def test_other(self):
        expected = [8]
        self.assertEqual(task_func(4), expected)
"""
_CHECKED = """
import pathlib
import unittest

class TestCases(unittest.TestCase):
    def test_file(self):
        task_func("a.txt")
        self.assertTrue(pathlib.Path("a.txt").is_file())

    def test_kind(self):
        self.assertTrue(task_func("b.txt").strip().startswith("b"))
"""
_UP = "getattr(frame, 'f_' + 'back')"
_PEEK = "getattr(UP, 'f_' + 'locals')['expected']".replace("UP", _UP)
KNOWN: dict[str, tuple[str, str]] = {
    "a frame from a library, by names put together": (
        _WEAK,
        "import inspect\ndef task_func(x):\n    frame = getattr(inspect, 'current' + 'frame')()\n"
        f"    return {_PEEK}",
    ),
    "a frame for code under another file's name": (
        _WEAK,
        "import sys\ndef task_func(x):\n"
        "    frame = eval(compile('sys._get' 'frame(1)', sys.__file__ if 0 else 'a.py', 'eval'))\n"
        f"    return {_PEEK}".replace("sys.__file__ if 0 else ", ""),
    ),
    "the frame that a signal brings": (
        _WEAK,
        "import signal\ndef task_func(x):\n    found = []\n    def take(number, frame):\n"
        f"        found.append({_PEEK})\n    signal.signal(signal.SIGUSR1, take)\n"
        "    signal.raise_signal(signal.SIGUSR1)\n    return found[0]",
    ),
    "constants of the tests' functions, by names put together": (
        _WEAK,
        "def task_func(x):\n    for v in list(globals().values()):\n"
        "        if isinstance(v, type) and hasattr(v, 'test_value'):\n"
        "            case = v.test_value if x == 3 else v.test_other\n"
        "            return [getattr(case.__code__, 'co_' + 'consts')[1]]",
    ),
    "a class's method that the tests look with": (
        _CHECKED,
        "import pathlib\ndef task_func(path):\n    pathlib.Path.is_file = lambda self: True\n"
        "    return path",
    ),
    "a value with every attribute, where no test compares": (
        _CHECKED.replace("pathlib.Path", "task_func"),
        "class Every:\n    def __getattr__(self, name): return self\n"
        "    def __call__(self, *args): return self\ndef task_func(x):\n    return Every()",
    ),
}
"""Tests and a program that passes them, by how it does."""

_ARRAYS = """
import unittest
import numpy as np
import pandas as pd

class TestCases(unittest.TestCase):
    def test_array(self):
        np.testing.assert_allclose(task_func([1, 2]), [2.0, 4.0])
        np.testing.assert_array_equal(task_func([0]), [0.0])

    def test_close(self):
        self.assertTrue(np.allclose(task_func([3]), [6.0]))

    def test_equal(self):
        self.assertTrue(pd.Series(task_func([1])).equals(pd.Series([2.0])))

    def test_frame(self):
        expected = pd.DataFrame({"a": [2.0, 4.0]})
        pd.testing.assert_frame_equal(pd.DataFrame({"a": task_func([1, 2])}), expected)
"""
_NP, _PD = "import numpy as np\n", "import numpy as np\nimport pandas as pd\n"
_OWN = "class Any(np.ndarray):\n    def METHOD: return True\n"
_OWN += "def task_func(x): return np.asarray(x, dtype=float).view(Any)"
ARRAYS: tuple[str, str] = (
    _ARRAYS,
    f"{_NP}def task_func(x):\n    return np.asarray(x, dtype=float) * 2",
)
LIBRARIES: list[str] = [
    f"{head}class Helper:\n{indent(body, '    ')}\ndef task_func(x):\n    (Helper)\n    return np.asarray(x, dtype=float)"
    for head, body in (
        (_NP, "np.testing.assert_allclose = np.testing.assert_array_equal = print"),
        (_NP, "np.testing._private.utils.assert_array_compare = print"),
        (_NP, "np.testing.assert_allclose.__code__ = (lambda *a, **k: None).__code__"),
        (_NP, "np.allclose = lambda *a, **k: True"),
        (_NP, "np.isclose = np.all = lambda *a, **k: True"),
        (_NP, "np.array_equal = np.equal = lambda *a, **k: True"),
        (_PD, "pd.testing.assert_frame_equal = print"),
        (_PD, "import pandas._testing as t\nt.assert_frame_equal = t.assert_almost_equal = print"),
        (_PD, "pd.testing.assert_frame_equal.__code__ = (lambda *a, **k: None).__code__"),
        (_PD, "pd.DataFrame.equals = pd.Series.equals = lambda *a: True"),
        (_PD, "pd.core.generic.NDFrame.equals = lambda *a: True\nnp.allclose = lambda *a: True\nnp.testing.assert_allclose = np.testing.assert_array_equal = pd.testing.assert_frame_equal = lambda *a: None"),
        (_PD, "import sys, types\nsys.modules['numpy.testing'] = sys.modules['pandas.testing'] = types.ModuleType('x')"),
    )
] + [
    _NP + _OWN.replace("METHOD", method)
    for method in (
        "__eq__(s, o)", "__array_ufunc__(s, *a, **k)", "__array_function__(s, *a, **k)",
        "__abs__(s)", "all(s, *a, **k)", "__sub__(s, o)",
    )
]  # fmt: skip
"""Programs that change how numpy and pandas compare."""
