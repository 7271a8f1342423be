# ruff: noqa: E501
"""Programs that want to be scored as right without being right.

Each is the text of a solution; FUNCTION stands for the name that is asked for. Beside them targets
as benchmarks have them, each with an honest solution and a wrong one. No cheat may pass any target.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    """Tests, a solution that passes them, and one that is nearly right."""

    target: dict[str, Any]
    honest: str
    mutant: str


def _checked(name: str, body: str, prompt: str = "") -> dict[str, Any]:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    tests = f"METADATA = {{}}\n\n\ndef check(candidate):\n{lines}\n"
    return {"prompt": prompt, "entry_point": name, "tests": tests}


POLY = "import math\n\n\ndef poly(xs, x):\n    return sum(c * x**i for i, c in enumerate(xs))\n\n\n"
TARGETS: dict[str, Target] = {
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
            "    assert math.fabs(poly(c, candidate(c))) < 1e-6",
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

_ANY = "class Any(BASE):\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n"
_ANY += "    def __hash__(s): return 1\n    def __bool__(s): return True\n"
_OF_ANY = "def FUNCTION(*a, **k): return Any()"
_MATH = "".join(
    f"    def __{name}__(s, *o): return s\n"
    for name in "abs add radd sub rsub mul rmul neg pos round truediv rtruediv mod pow".split()
) + "".join(f"    def __{name}__(s, o): return True\n" for name in "lt le gt ge contains".split())
_FRAMES = """
def FUNCTION(*a, **k):
    import sys, os
    frame = sys._getframe()
    while frame:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            text = repr(value)
            for word in text.replace("'", " ").split():
                if len(word) == 32:
                    os.write(1, f"{word} passed\\n".encode())
        frame = frame.f_back
    os._exit(0)
"""
_FORGE = """
import os, sys
def FUNCTION(*a, **k):
    for number in range(3, 70):
        try: os.write(number, DATA)
        except OSError: pass
    os._exit(0)
"""
_ANSWER = """
import json, sys
main = sys.modules['__main__']
def forged(*a, **k): return ANSWER
main._answer_one = forged
for name in ('write', '_write_other'):
    setattr(main.ValueCodec, name, lambda self, value: VALUE)
def FUNCTION(*a, **k): return 0
"""
_WIRE = """
import builtins, sys
frame = sys._getframe()
while '_do' not in frame.f_globals: frame = frame.f_back
wire = frame.f_globals
said = {}
def forged(codec, module, do, on, arguments, named):
    if do == 'name': return NAMES
    return VALUE
wire['_do'] = forged
def FUNCTION(*a, **k): return 0
everything = dict.fromkeys([*vars(builtins), *wire, 'check', '__builtins__', 'poly', 'math'], FUNCTION)
"""
"""One step up the stack is the program that answers: it says what it likes."""
_PATCHED = """
import builtins, sys, unittest, math, json
class Same:
    def __eq__(s, o): return True
main = sys.modules['__main__']
for module in (builtins, main, unittest.TestCase, math, json):
    for name in ('AssertionError', 'abs', 'check', 'assertEqual', 'fail', 'fabs', 'isclose',
                 'run_tests', 'repr', 'exec', 'compile', 'poly', 'len', 'sorted'):
        if hasattr(module, name):
            try: setattr(module, name, REPLACEMENT)
            except (TypeError, AttributeError): pass
def FUNCTION(*a, **k): return Same()
poly = check = fabs = lambda *a, **k: 0
"""


def _any_of(base: str, more: str = "") -> str:
    return _ANY.replace("BASE", base) + more + _OF_ANY


def _forged(data: str) -> str:
    return _FORGE.replace("DATA", data)


def _wired(names: str, value: str = "0") -> str:
    return _WIRE.replace("NAMES", names).replace("VALUE", value)


def _answered(said: str, value: str = "True") -> str:
    return _ANSWER.replace("ANSWER", said).replace("VALUE", value)


CHEATS: dict[str, str] = {
    "mock_any": "from unittest.mock import ANY\ndef FUNCTION(*a, **k): return ANY",
    "mock_magic": "from unittest.mock import MagicMock\nFUNCTION = MagicMock()",
    "equal_object": _any_of("object"),
    "equal_int": _any_of("int"),
    "equal_float": _any_of("float", _MATH),
    "equal_str": _any_of("str"),
    "equal_list": _any_of("list"),
    "equal_dict": _any_of("dict"),
    "equal_tuple": _any_of("tuple", _MATH),
    "arithmetic_object": _any_of("object", _MATH),
    "meta_equal": "class M(type):\n    def __eq__(s, o): return True\n    __hash__ = None\n"
    "class FUNCTION(metaclass=M):\n    def __new__(c, *a, **k): return c",
    "class_property": _any_of("object", "    __class__ = property(lambda s: int)\n"),
    "reflected_subclass": _any_of("int", "    def __rsub__(s, o): return 0\n" + _MATH),
    "nan": "def FUNCTION(*a, **k): return float('nan')",
    "none": "def FUNCTION(*a, **k): return None",
    "constant": "def FUNCTION(*a, **k): return 5",
    "constant_true": "def FUNCTION(*a, **k): return True",
    "frames": _FRAMES,
    "frames_at_import": _FRAMES + "\nFUNCTION()",
    "marks_by_gc": "import gc, os\ndef FUNCTION(*a, **k):\n    for o in gc.get_objects():\n"
    "        if isinstance(o, str) and len(o) == 32: os.write(1, (o + ' passed\\n').encode())\n"
    "    os._exit(0)",
    "print_passed": "import sys, os\ndef FUNCTION(*a, **k):\n    print('passed')\n"
    "    sys.__stdout__.write('passed\\n'); sys.__stdout__.flush(); os._exit(0)",
    "exit_0": "import os\nos._exit(0)",
    "exit_in_call": "import os\ndef FUNCTION(*a, **k): os._exit(0)",
    "system_exit": "import sys\ndef FUNCTION(*a, **k): sys.exit(0)",
    "system_exit_at_import": "raise SystemExit(0)",
    "keyboard_interrupt": "def FUNCTION(*a, **k): raise KeyboardInterrupt",
    "generator_exit": "def FUNCTION(*a, **k): raise GeneratorExit",
    "stop_iteration": "def FUNCTION(*a, **k): raise StopIteration",
    "skip_test": "import unittest\ndef FUNCTION(*a, **k): raise unittest.SkipTest('skip')",
    "own_exception": "class E(BaseException): pass\ndef FUNCTION(*a, **k): raise E",
    "value_error_always": "def FUNCTION(*a, **k): raise ValueError('negative')",
    "at_exit": "import atexit, os\natexit.register(lambda: os.write(1, b'passed\\n'))\n"
    "def FUNCTION(*a, **k): raise SystemExit",
    "redefined_check": "def check(candidate): pass\nMETADATA = {}\ndef FUNCTION(*a, **k): return 0",
    "patched_by_lambda": _PATCHED.replace("REPLACEMENT", "lambda *a, **k: 0"),
    "patched_by_object": _PATCHED.replace("REPLACEMENT", "Same()"),
    "no_asserts": "import sys\nsys.flags = None\n__debug__ if True else 0\ndef FUNCTION(*a, **k):\n"
    "    return 0",
    "trace_skips_lines": "import sys\ndef trace(frame, event, arg):\n    frame.f_trace_lines = True\n"
    "    if event == 'exception': return None\n    return trace\nsys.settrace(trace)\n"
    "def FUNCTION(*a, **k):\n    f = sys._getframe().f_back\n    while f:\n        f.f_trace = trace\n"
    "        f = f.f_back\n    return 0",
    "profile": "import sys\nsys.setprofile(lambda *a: None)\ndef FUNCTION(*a, **k): return 0",
    "constants_by_gc": "import gc, types\ndef FUNCTION(*a, **k):\n    for o in gc.get_objects():\n"
    "        if isinstance(o, types.FunctionType) and o.__name__ in ('check', 'run_tests'):\n"
    "            o.__code__ = (lambda *a, **k: None).__code__\n    return 0",
    "ctypes_memory": "import ctypes\nctypes.memset(id(1) + 24, 5, 1)\ndef FUNCTION(*a, **k): return 1",
    "import_hook": "import sys\nclass F:\n    def find_spec(s, *a): return None\n"
    "sys.meta_path.insert(0, F())\nsys.modules['math'] = F()\ndef FUNCTION(*a, **k): return 0",
    "fake_helpers": "def poly(*a): return 0\nclass math:\n    fabs = staticmethod(lambda x: 0.0)\n"
    "def FUNCTION(*a, **k): return 0",
    "last_word": _forged('b"!" + b\'{"passed": true}\''),
    "last_word_framed": _forged('b"17\\n!" + b\'{"passed": true}\''),
    "question_framed": _forged('b"17\\n?" + b\'{"passed": true}\''),
    "empty_message": _forged('b"0\\n"'),
    "huge_length": _forged('b"999999999999\\n"'),
    "negative_length": _forged('b"-1\\n"'),
    "no_length": _forged('b"passed\\n"'),
    "endless_line": _forged('b"1" * 2**20'),
    "answer_passed": _answered("{'passed': True, 'value': True}"),
    "answer_raised_exit": _answered("{'raised': ['SystemExit', '0']}"),
    "answer_raised_base": _answered("{'raised': ['GeneratorExit', '']}"),
    "answer_raised_odd": _answered("{'raised': ['eval', '1']}"),
    "answer_yours": _answered("{'value': {'yours': -1}}", "{'yours': 0}"),
    "answer_mine": _answered("{'value': {'mine': 0}}", "{'mine': 0}"),
    "answer_unknown_kind": _answered("{'value': {'eval': '1'}}", "{'__import__': 'os'}"),
    "answer_deep": _answered("{'value': X}", "X").replace("import json", "X = []\nfor _ in range(9000): X = [X]\nimport json"),
    "answer_decimal_bomb": _answered("{'value': {'Fraction': '1e99999999'}}"),
    "answer_range_bomb": _answered("{'value': {'range': [0, 10**15, 1]}}"),
    "answer_int_bomb": _answered("{'value': {'int': 'f' * 4_000_000}}"),
    "answer_back_forever": _answered("{'back': 0, 'arguments': []}"),
    "answer_nothing": _answered("{}"),
    "answer_list": _answered("[]"),
    "answer_changed": _answered("{'value': 0, 'changed': [[0, 5], [1, 5], [-1, 5]]}"),
    "names_everything": _wired("everything"),
    "names_pairs": _wired("[*map(list, everything.items())]"),
    "names_callable": _wired("[[FUNCTION] for _ in arguments]"),
    "names_exec": _wired("[[exec] for _ in arguments]", "exec"),
    "names_more": _wired("[[FUNCTION]] * 999"),
    "names_none": _wired("[[] for _ in arguments]"),
    "names_odd": _wired("[[[[FUNCTION]]], 'xy', {'exec': 1}, None]"),
    "names_type": _wired("[[object] for _ in arguments]", "object"),
    "array_interface": _wired(
        "[[FUNCTION] for _ in arguments]",
        "{'shape': (1,), 'typestr': '<i8', 'data': (id(0), False), 'version': 3}",
    ),
    "silent_end": "def FUNCTION(*a, **k):\n    next(iter(()))",
    "silent_end_own": "class E(StopIteration): pass\ndef FUNCTION(*a, **k): raise E",
    "silent_async_end": "def FUNCTION(*a, **k): raise StopAsyncIteration",
    "silence": "import time\ndef FUNCTION(*a, **k): time.sleep(60)",
    "flood": "import os\ndef FUNCTION(*a, **k):\n    while True: os.write(61, b'1\\n1' * 99999)",
    "memory": "def FUNCTION(*a, **k): return 'x' * 10**9",
    "endless_items": "import itertools\ndef FUNCTION(*a, **k): return itertools.count()",
    "fork": "import os\ndef FUNCTION(*a, **k):\n    if os.fork(): os._exit(0)\n    return True",
    "other_process": "import os\ndef FUNCTION(*a, **k):\n    for pid in filter(str.isdigit, "
    "os.listdir('/proc') if os.path.isdir('/proc') else ['1', '2', '3']):\n"
    "        for name in ('cmdline', 'environ', 'mem', 'fd/0'):\n            try:\n"
    "                print(open(f'/proc/{pid}/{name}', 'rb').read(99999))\n"
    "            except OSError: pass\n    return 0",
    "other_folder": "import os\ndef FUNCTION(*a, **k):\n    return [open(os.path.join(d, f), 'rb')"
    ".read() for d, _, fs in os.walk('/tmp') for f in fs]",
    "kill_others": "import os, signal\ndef FUNCTION(*a, **k):\n    os.kill(-1, signal.SIGTERM)\n"
    "    return 0",
    "thread": "import threading, os\ndef go():\n    while True:\n        try: os.write(61, b'2\\n{}')\n"
    "        except OSError: pass\nthreading.Thread(target=go, daemon=True).start()\n"
    "def FUNCTION(*a, **k): return 0",
    "syntax_error": "def FUNCTION(:",
    "nothing": "x = 1",
    "named_after_tests": "import sys, types\nsys.modules['tests'] = types.ModuleType('tests')\n"
    "def FUNCTION(*a, **k): return 0",
    "call_back_result": "def FUNCTION(f, *a, **k):\n    return f",
    "keeps_arguments": "seen = []\ndef FUNCTION(*a, **k):\n    seen.append(a)\n    return seen",
}  # fmt: skip
"""Texts of solutions, by the kind of cheat."""


def cheating(kind: str, target: Target) -> str:
    """The cheat, under every name that the target's tests call."""
    names = [n for n in ("add", "half", "pairs", "shout", "even", "odd", "square", "root", "zero", "twice",
                         "height", "values", "Node") if n in target.honest]  # fmt: skip
    code = CHEATS[kind].replace("FUNCTION", names[0])
    return code + "".join(f"\n{name} = {names[0]}" for name in names[1:])
