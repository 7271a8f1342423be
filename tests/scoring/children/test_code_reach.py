"""Tests of names by which a solution accesses its tests, and of honest code without them."""

import pytest

from tutti.tasks.scoring.children import code_parts

TESTS = "import unittest\nfrom unittest.mock import patch, ANY as anything\nimport math, json\n"
TESTS += "class TestCases(unittest.TestCase):\n    def test_a(self):\n"
TESTS += "        self.assertEqual(len(task_func(math.pi)), json.loads('1'))\n"
BEFORE = "import math, random\ndef task_func(x):\n    pass\n"
REACHING = {
    "import unittest": "unittest",
    "from unittest.mock import Mock": "unittest",
    "m = __import__('unittest.mock')": "unittest",
    "import gc as g": "gc",
    "from builtins import len": "builtins.len",
    "import sys\nf = sys._getframe()": "_getframe",
    "f = getattr(sys, '_getframe')": "_getframe",
    "def f(e): return e.__traceback__.tb_frame": "tb_frame",
    "def f(): return globals()['TestCases']": "TestCases",
    "def f(): return anything": "anything",
    "class A:\n    __class__ = int": "__class__",
    "A = type('A', (), {'__class__': int})": "__class__",
    "A = type('A', (), dict(__class__=int))": "__class__",
    "def len(x): return 1": "len",
    "len = lambda x: 1": "len",
    "from operator import index as len": "len",
    "class math: pi = 3": "math",
}
HONEST = [
    "import inspect, types, ctypes, signal, threading, sys",
    "def f(x): return x.__class__.__name__, type(x), getattr(x, 'mock', None)",
    "def f(patch, gc=0): return patch + gc",
    "from numpy import sum, abs",
    "import numpy as math",
    "def f(x):\n    len = 3\n    def map(y): return y\n    return len",
    "def sum(x): return 1",
    "class A:\n    def __eq__(self, o): return self is o\n    def __lt__(self, o): return False",
    "def f(x):\n    '''Not a unittest.'''\n    return x.__code__.co_argcount, x.__self__",
    "import random\nrandom.seed(0)\nPATCH = {'mock': 1, 'anything': 2}",
    "not python",
]


@pytest.mark.parametrize("code", REACHING)
def test_names_that_reach_for_the_tests(code: str) -> None:
    assert code_parts.reach(code, BEFORE, TESTS) == REACHING[code]


def test_honest_code_is_not_refused() -> None:
    """Honest code has local names, attributes of values, imports under their own names, and words
    in strings."""
    assert [code for code in HONEST if code_parts.reach(code, BEFORE, TESTS)] == []
