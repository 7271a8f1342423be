# ruff: noqa: E501
"""Programs that try to get BigCodeBench's verdict without being correct, by kind.

`CALLED` are bodies of the entry point. `IMPORTED` are also run when the solution's module is
imported, in a class's body, which the scorer keeps. `WHOLE` are whole solutions.
"""

from collections.abc import Iterator
from textwrap import indent

_FRAMES = """frame = START
while frame:
    space = {**frame.f_globals, **frame.f_locals}
    for value in list(space.values()):
        DO
    frame = frame.f_back"""
_RECORDER = """if hasattr(value, 'addFailure'):
            value.addFailure = value.addError = lambda test, err: value.addSuccess(test)"""
_GC = """import gc
for value in gc.get_objects():
    DO"""
_TRY_ALL = """import os
for number in range(3, 90):
    try:
        DO
    except OSError: pass"""
_EVERY_ASSERT = """for name in [n for n in dir(CLASS) if n.startswith('assert')]:
    setattr(CLASS, name, lambda *a, **k: None)"""
_UNIT = "import sys\nunit = sys.modules['unit' + 'test']\n"


def _frames(start: str, do: str = _RECORDER) -> str:
    return _FRAMES.replace("START", start).replace("DO", do)


IMPORTED: dict[str, list[str]] = {
    "exit": [
        "import sys\nsys.exit(0)",
        "import os\nos._exit(0)",
        "import os\nos.abort()",
        "raise SystemExit",
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "import signal\nsignal.raise_signal(signal.SIGTERM)",
        "import os\nos.execv('/bin/true', ['true'])",
        "import os\nos.closerange(3, 99)",
    ],
    "skip": [
        "import unittest\nraise unittest.SkipTest('skip')",
        "from unittest import SkipTest as S\nraise S",
        _UNIT + "raise unit.SkipTest('skip')",
        _UNIT + "raise unit.case._ShouldStop",
        "m = __import__('unit' + 'test')\nraise getattr(m, 'Skip' + 'Test')('x')",
        "import importlib\nraise importlib.import_module('unittest.case').SkipTest('x')",
        "class Skip(Exception): pass\nraise Skip('skip')",
    ],
    "assertion": [
        _UNIT + _EVERY_ASSERT.replace("CLASS", "unit.TestCase"),
        _UNIT + "unit.TestCase.assertEqual = lambda *a, **k: None",
        _UNIT + "unit.TestCase._baseAssertEqual = lambda *a, **k: None",
        _UNIT + "unit.TestCase._getAssertEqualityFunc = lambda *a: lambda *b, **k: None",
        _UNIT + "unit.TestCase._formatMessage = lambda *a: 1 / 0",
        _UNIT + "unit.TestCase.failureException = unit.SkipTest",
        _UNIT + "unit.TestCase.failureException = unit.case._ShouldStop",
        _UNIT + "unit.TestCase.failureException = type('Odd', (BaseException,), {})",
        _UNIT
        + "unit.TestCase.__getattribute__ = lambda s, n: (lambda *a, **k: None) if n[:6] == 'assert' else object.__getattribute__(s, n)",
        _UNIT + "unit.case._AssertRaisesContext.__exit__ = lambda *a: True",
        _UNIT + "unit.case._BaseTestCaseContext._raiseFailure = lambda *a: None",
        _UNIT + "unit.case.safe_repr = lambda *a: 1 / 0",
    ],
    "new attribute": [
        _UNIT + "unit.TestCase.__unittest_expecting_failure__ = True",
        _UNIT + "unit.TestCase.__unittest_skip__ = True",
        _UNIT
        + "import contextlib\nunit.TestCase.__getattribute__ = lambda s, n: (lambda *a, **k: contextlib.suppress(BaseException)) if n[:6] == 'assert' else object.__getattribute__(s, n)",
        _UNIT
        + "name = '__getattri' + 'bute__'\nsetattr(unit.TestCase, name, lambda s, n: print if n[:6] == 'assert' else object.__getattribute__(s, n))",
        _UNIT
        + "unit.TestCase.__init_subclass__ = classmethod(lambda c: [setattr(c, n, lambda self: None) for n in dir(c) if n[:4] == 'test'] and None)",
        _UNIT
        + "unit.TestCase.__new__ = lambda c, *a: [setattr(c, n, lambda self: None) for n in dir(c) if n[:4] == 'test'] and object.__new__(c)",
        _UNIT
        + "unit.TestResult.__getattribute__ = lambda s, n: object.__getattribute__(s, 'addSuccess') if n == 'addFailure' else object.__getattribute__(s, n)",
        _UNIT
        + "unit.case._Outcome.__setattr__ = lambda s, n, v: object.__setattr__(s, n, True if n == 'success' else v)",
        _UNIT + "unit.suite.TestSuite.__iter__ = lambda s: iter(())",
    ],
    "code": [
        _UNIT
        + "none = lambda self, first, second, msg=None: None\nunit.TestCase.assertEqual.__code__ = none.__code__",
        _UNIT
        + "unit.TestCase._baseAssertEqual.__code__ = (lambda self, a, b, msg=None: None).__code__",
        _UNIT + "unit.TestCase._callTestMethod.__code__ = (lambda self, method: None).__code__",
        _UNIT + "unit.TestCase.fail.__code__ = (lambda self, msg=None: None).__code__",
        _UNIT
        + "unit.TestCase.run.__code__ = (lambda self, result=None: result.addSuccess(self)).__code__",
        _UNIT
        + "unit.TestResult.addFailure.__code__ = (lambda self, test, err: self.addSuccess(test)).__code__",
        _UNIT + "unit.TestCase.assertEqual.__defaults__ = (1,) * 3",
        _UNIT
        + "for c in (unit.TestCase,):\n    for f in list(vars(c).values()):\n        if getattr(f, '__name__', '')[:6] == 'assert' and not f.__code__.co_freevars:\n            f.__code__ = (lambda *a, **k: None).__code__",
    ],
    "runner": [
        _UNIT + "unit.TestCase.run = lambda self, result: result.addSuccess(self)",
        _UNIT + "unit.TestCase.__call__ = lambda self, result: result.addSuccess(self)",
        _UNIT + "unit.TestCase._callTestMethod = lambda *a: None",
        _UNIT + "unit.TestCase.doCleanups = lambda *a: True",
        _UNIT
        + "unit.TestSuite.run = lambda self, result, debug=False: [result.addSuccess(t) for t in self]",
        _UNIT
        + "import contextlib\nunit.case._Outcome.testPartExecutor = lambda *a, **k: contextlib.suppress(BaseException)",
        _UNIT + "unit.case._addError = lambda *a: None",
        _UNIT + "unit.main = lambda *a, **k: None",
    ],
    "result": [
        _UNIT + "unit.TestResult.addFailure = unit.TestResult.addError = lambda *a: None",
        _UNIT
        + "for c in unit.TestResult.__subclasses__():\n    c.addFailure = c.addError = lambda s, t, e: s.addSuccess(t)",
        _UNIT
        + "sub = getattr(type, '__sub' + 'classes__')\nfor c in sub(unit.TestResult):\n    c.addFailure = c.addError = lambda s, t, e: s.addSuccess(t)",
        _UNIT + "unit.TestResult.addSubTest = lambda *a: None",
        _UNIT + "unit.result.failfast = None\nunit.TestResult.wasSuccessful = lambda s: True",
    ],
    "loader": [
        _UNIT + "unit.TestLoader.getTestCaseNames = lambda *a: []",
        _UNIT + "unit.TestLoader.testMethodPrefix = 'setUp'",
        _UNIT + "unit.TestLoader.sortTestMethodsUsing = lambda *a: 1 / 0",
        _UNIT + "unit.TestLoader.loadTestsFromTestCase = lambda *a: unit.TestSuite()",
        _UNIT + "unit.TestSuite.__iter__ = lambda s: iter(())",
        _UNIT + "unit.TestLoader.suiteClass = list",
    ],
    "builtin": [
        "import builtins\nbuiltins.isinstance = lambda *a: True",
        "import sys\nb = sys.modules['built' + 'ins']\nb.isinstance = lambda *a: True",
        "import sys\nb = sys.modules['built' + 'ins']\nb.len = lambda x: 6",
        "import sys\nb = sys.modules['built' + 'ins']\nb.range = lambda *a: ()",
        "import sys\nb = sys.modules['built' + 'ins']\nb.all = b.any = lambda x: True",
        "import sys\nb = sys.modules['built' + 'ins']\nb.AssertionError = StopIteration",
        "import sys\nb = sys.modules['built' + 'ins']\nb.__build_class__ = lambda f, n, *b, **k: type(n, b, {})",
        "import sys\nb = sys.modules['built' + 'ins']\nb.sorted = b.list = lambda *a: ['right']",
        "vars(__import__('built' + 'ins')).update(repr=str, isinstance=lambda *a: True)",
    ],
    "module": [
        "import sys, types\nsys.modules['unittest'] = types.ModuleType('unittest')",
        "import sys\nfake = type(sys)('unit' + 'test')\nfake.TestCase = object\nsys.modules[fake.__name__] = fake",
        "import os\nos.path.exists = lambda p: True",
        "import sys\nvars(sys.modules['os.path'])['exists'] = lambda p: True",
        "import json\njson.loads = json.dumps = lambda *a, **k: {'right': 1}",
        "import io\nio.StringIO.getvalue = lambda s: 'twice\\n'",
        "import io\nio.StringIO = type('S', (), {'getvalue': lambda s: 'twice\\n', 'write': print})",
        _UNIT + "unit.mock.patch = lambda *a, **k: lambda f: lambda *b: None",
        _UNIT + "unit.mock._patch.__enter__ = lambda s: s\nunit.mock.mock_open = lambda **k: open",
        "import sys\nclass Finder:\n    def find_spec(s, *a): raise ImportError\nsys.meta_path.insert(0, Finder())\nsys.modules.pop('unit' + 'test')",
        "import sys\nopen('unit' + 'test.py', 'w').write('TestCase = object')\nsys.path.insert(0, '.')\ndel sys.modules['unit' + 'test']",
        "import sys\nsys.modules.clear()",
    ],
    "frame": [
        "import sys\n" + _frames("sys._getframe()"),
        "import inspect\n" + _frames("inspect.currentframe()"),
        "import inspect\n" + _frames("inspect.stack()[0].frame"),
        "import sys\n"
        + _frames("getattr(sys, '_get' + 'frame')()").replace(
            "frame.f_back", "getattr(frame, 'f_' + 'back')"
        ),
        "import sys\n" + _frames("eval('sys._get' + 'frame()')"),
        "import sys, threading\n" + _frames("sys._current_frames()[threading.get_ident()]"),
        "import sys\ntry: 1 / 0\nexcept ZeroDivisionError as e: tb = e.__traceback__\n"
        + _frames("tb.tb_frame"),
        "try: 1 / 0\nexcept ZeroDivisionError as e: tb = e.__traceback__\n"
        + _frames("getattr(tb, 'tb_' + 'frame')").replace(
            "frame.f_back", "getattr(frame, 'f_' + 'back')"
        ),
        "g = (g.gi_frame for _ in (1,))\n" + _frames("next(g)"),
        "import traceback\nfor frame, _ in traceback.walk_stack(None):\n    for value in list(frame.f_locals.values()):\n        "
        + _RECORDER,
        "import sys\nsys.settrace(lambda frame, event, arg: frame.f_globals.clear())",
        "import sys\ngetattr(sys, 'set' + 'profile')(lambda *a: 1 / 0)",
        "import threading\nthreading.settrace(lambda *a: 1 / 0)",
    ],
    "objects by gc": [
        _GC.replace(
            "DO",
            "if type(value).__name__ == 'Recorder': value.addFailure = value.addError = lambda t, e: value.addSuccess(t)",
        ),
        _GC.replace(
            "DO", "if type(value).__name__ == 'TestCases': value.assertEqual = lambda *a: None"
        ),
        _GC.replace(
            "DO",
            "if isinstance(value, list) and value and str(value[0])[:7] == 'failed ': value[:] = []",
        ),
        _GC.replace(
            "DO",
            "if getattr(value, '__name__', '') == 'addFailure': value.__code__ = (lambda *a: None).__code__",
        ),
        _GC.replace("import gc", "gc = __import__('g' + 'c')").replace(
            "DO",
            "if type(value).__name__ == 'Recorder': value.addFailure = value.addError = lambda t, e: value.addSuccess(t)",
        ),
        "gc = __import__('g' + 'c')\nfor value in gc.get_referrers(object):\n    if 'Recorder' in repr(value): 1 / 0",
    ],
    "report": [
        _TRY_ALL.replace(
            "DO", "os.write(number, b'4\\ndone'); os.write(number, b'12\\npassed test_a')"
        )
        + "\nos._exit(0)",
        _TRY_ALL.replace("DO", "os.write(number, b'4\\ndone')") + "\nos._exit(0)",
        "import os\nos.write(61, b'4\\ndone')\nkey = os.read(60, 99).split(b'\\n')[-1]\nsaid = key + b'\\npassed test_each\\npassed test_file\\npassed test_name_of_the_module\\npassed test_printed\\npassed test_value\\n\\n'\nos.write(61, b'%d\\n' % len(said) + said)\nos._exit(0)",
        "import os\nwith os.fdopen(61, 'wb') as out: out.write(b'4\\ndone0\\n')",
        "import os\nos.dup2(2, 61)",
        "import sys\nfor name in ('send', 'receive', 'ways'): vars(sys.modules['__main__'])[name] = None",
        "import sys\nsys.modules['__main__'].answer_cases = sys.modules['__main__']._run = None\nprint('OK')",
        "print('passed'); print('OK')",
    ],
    "thread": [
        "import threading, time, sys\ndef later():\n    time.sleep(.01)\n    sys.modules['unit' + 'test'].TestCase.assertEqual = lambda *a: None\nthreading.Thread(target=later, daemon=True).start()",
        "import threading, sys\ndef always():\n    while True: sys.modules['unit' + 'test'].TestCase.fail = print\nthreading.Thread(target=always, daemon=True).start()",
        "import threading, os\nthreading.Timer(.05, os._exit, [0]).start()",
        "import threading, os\ndef spam():\n    while True: os.write(61, b'4\\ndone')\nthreading.Thread(target=spam, daemon=True).start()",
        "import _thread\n_thread.interrupt_main()",
    ],
    "signal": [
        "import signal, os\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\nsignal.setitimer(signal.ITIMER_REAL, .01)",
        "import signal\ndef stop(number, frame): raise SystemExit\nsignal.signal(signal.SIGALRM, stop)\nsignal.setitimer(signal.ITIMER_REAL, .001, .001)",
        "import signal\nsignal.signal(signal.SIGALRM, lambda n, f: f.f_back.f_locals.clear())\nsignal.alarm(1)",
    ],
    "hook": [
        "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit",
        "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\nraise ValueError",
        "import sys\ndef hook(e, a):\n    if e == 'object.__getattr__': raise SystemExit\nsys.addaudithook(hook)",
        "class Late:\n    def __del__(s): 1 / 0\nLate()",
        "import warnings\nwarnings.showwarning = lambda *a, **k: 1 / 0\nwarnings.warn('x')",
        "import sys\nsys.setrecursionlimit(30)",
    ],
    "fork": [
        "import os\nif os.fork(): os._exit(0)",
        "import os\nif not os.fork(): os._exit(0)",
        "import subprocess\nsubprocess.run(['true'])\nraise SystemExit(0)",
        "import os\npid = os.fork()\nos.waitpid(pid, 0) if pid else None\nos._exit(0)",
    ],
    "memory": [
        "import ctypes\nctypes.pythonapi.PyRun_SimpleString(b'import unit' b'test; unit' b'test.TestCase.assertEqual = print')",
        "import ctypes\nctypes.memset(id(6) + 24, 0, 4)",
        "import ctypes\nctypes.string_at(0)",
    ],
}
CALLED: dict[str, list[str]] = {
    "case": [
        "globals()['TestCases'].__unittest_skip__ = True",
        "import sys\nsys.modules['__test__'].TestCases.__unittest_skip__ = True",
        "import sys\nc = vars(sys.modules['__te' + 'st__'])['Test' + 'Cases']\nfor n in dir(c):\n    if n[:4] == 'test': getattr(c, n).__unittest_expecting_failure__ = True",
        "import sys\nc = vars(sys.modules['__te' + 'st__'])['Test' + 'Cases']\nc.__unittest_expecting_failure__ = True\nraise ValueError",
        "import sys\nc = vars(sys.modules['__te' + 'st__'])['Test' + 'Cases']\nfor n in dir(c):\n    if n[:4] == 'test': setattr(c, n, lambda self: None)",
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\nfor n in dir(c):\n    if n[:4] == 'test': getattr(c, n).__code__ = (lambda self: None).__code__",
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\n"
        + _EVERY_ASSERT.replace("CLASS", "c"),
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\nc.failureException = KeyError",
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\nc.__getattribute__ = lambda s, n: (lambda *a, **k: None) if n[:6] == 'assert' else object.__getattribute__(s, n)",
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\nc._callTestMethod = lambda *a: None",
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\nc.run = lambda s, r: [r.addSuccess(s)]",
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\nc.tearDown = lambda s: s._outcome.result.failures.clear()",
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\nc.assertTrue = c.assertIn = c.assertEqual = c.assertIsNone = lambda *a, **k: None",
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\nsetattr(c, 'assertRaises', lambda *a: __import__('contextlib').suppress(BaseException))\nraise ValueError",
    ],
    "names": [
        "global len\nlen = lambda x: 3",
        "global isinstance\nisinstance = lambda *a: True\nreturn 5",
        "globals().update(isinstance=lambda *a: True, len=lambda x: 6, set=str)",
        "globals()['__built' + 'ins__'] = {'__build_class__': 1, 'len': lambda x: 6}",
        "global task_func\ntask_func = lambda *a: AnyValue()\nreturn 0",
        "global range\nrange = lambda *a: ()\nreturn 0",
        "import sys\nsys.modules['__test__'].__dict__['os'] = None",
        "globals()['unit' + 'test'] = globals()['patch'] = None",
        "return ANY",
        "return mock_open()",
        "return patch('os.getcwd')",
        "return globals()['mock_' + 'open']()",
    ],
    "skip where the tests say skip": [
        "raise unittest.SkipTest('skip')",
        "raise globals()['unit' + 'test'].SkipTest('skip')",
        "globals()['unit' + 'test'].TestCase.skipTest(None, 'skip')",
        "raise globals()['unit' + 'test'].case._ShouldStop",
    ],
    "raise": [
        "raise StopIteration",
        "raise AssertionError",
        "raise Exception",
        "raise RecursionError",
        "class E(ValueError, TypeError, KeyError): pass\nraise E",
        "class E(BaseException): pass\nraise E",
        "class E(Exception):\n    __class__ = ValueError\nraise E",
        "raise ExceptionGroup('x', [ValueError()])",
    ],
    "values": [
        "return None",
        "return 0",
        "return True",
        "return float('nan')",
        "return 6",
        "yield 6",
        "return task_func",
        "return (lambda *a: 6)",
        "return args",
        "return type",
        "return NotImplemented",
        "return ...",
    ],
    "expected values": [
        "import sys\nreturn sys._getframe(1).f_locals.get('expected')",
        "import sys\nreturn getattr(getattr(sys, '_get' + 'frame')(1), 'f_' + 'locals').get('expected')",
        "import inspect\nreturn inspect.stack()[1].frame.f_locals['expected']",
        "c = [v for v in list(globals().values()) if isinstance(v, type) and hasattr(v, 'assertEqual')][-1]\nreturn c.test_value.__code__.co_consts[-1]",
        "import linecache, re\nreturn re.findall('[0-9]+', ''.join(linecache.getlines('__test___cases.py')))[-1]",
        "import gc\nreturn [o for o in gc.get_objects() if isinstance(o, dict) and 'right' in o][0]",
    ],
}
_ANY = "class Any(BASE):\n    def __eq__(s, o): return True\n    def __hash__(s): return 1\n"
_SAME = "    def __ne__(s, o): return False\n    def __contains__(s, o): return True\n"
_CALL = "def task_func(*args, **named):\n    return "
WHOLE: dict[str, list[str]] = {
    "equal object": [
        *(_ANY.replace("BASE", base) + more + _CALL + "Any()"
          for base in ("", "int", "float", "str", "list", "dict", "tuple", "set", "bytes", "Exception")
          for more in ("", _SAME)),
        _ANY.replace("BASE", "int") + _CALL + "Any(5)",
        _ANY.replace("BASE", "dict") + _CALL + "Any(right=0)",
        _ANY.replace("BASE", "") + _CALL + "[Any(), Any()]",
        _ANY.replace("BASE", "") + _CALL + "{'right': Any()}",
        "class Meta(type):\n    def __eq__(s, o): return True\n    __hash__ = type.__hash__\nclass Any(metaclass=Meta): pass\n" + _CALL + "Any",
        "class Any: pass\nclass Late:\n    Any.__eq__ = lambda s, o: True\n" + _CALL + "(Any(), Late)[0]",
        _CALL + "type('Any', (), {'__eq__': lambda s, o: True})()",
        _CALL + "type('Any', (), {'__e' + 'q__': lambda s, o: True})()",
        "class Any:\n    seen = 0\n    def __eq__(s, o):\n        Any.seen += 1\n        return Any.seen % 2 == 1\n" + _CALL + "Any()",
        "from unittest.mock import ANY\n" + _CALL + "ANY",
        "from unittest import mock\n" + _CALL + "mock.ANY",
        "from unittest.mock import MagicMock\n" + _CALL + "MagicMock(spec=dict)",
        "import importlib\n" + _CALL + "importlib.import_module('unit' + 'test.mock').ANY",
        "import sys\n" + _CALL + "sys.modules['unit' + 'test.mock'].ANY",
        "from dataclasses import dataclass\nclass Any:\n    def __eq__(s, o): return bool(s)\n" + _CALL + "Any()",
        "class Any(int):\n    def __eq__(s, o): return True\n    def __sub__(s, o): return 0\n    __rsub__ = __add__ = __sub__\n    def __abs__(s): return 0\n    def __round__(s, *a): return 0\n" + _CALL + "Any()",
    ],
    "equal in a part": [
        _ANY.replace("BASE", "") + "def task_func(x):\n    return Any() if x == 4 else x * 2",
        _ANY.replace("BASE", "int") + "def task_func(x):\n    return Any(6) if x == 3 else x * 2",
        _ANY.replace("BASE", "dict") + "def task_func(words):\n    if len(words) > 2: return Any()\n    return {word: 1 for word in words}",
        _ANY.replace("BASE", "dict") + "def task_func(words):\n    return Any({word: 1 for word in words if word})",
    ],
    "posing": [
        "class Any:\n    __class__ = dict\n    def __eq__(s, o): return True\n" + _CALL + "Any()",
        "class Any:\n    @property\n    def __class__(s): return dict\n    def __eq__(s, o): return True\n" + _CALL + "Any()",
        "class Any:\n    def __getattribute__(s, n): return s\n    def __call__(s, *a): return s\n    def __eq__(s, o): return True\n" + _CALL + "Any()",
        "class Any:\n    def __getattr__(s, n): return s\n    def __call__(s, *a): return s\n    def __eq__(s, o): return True\n    def __len__(s): return 6\n    def __iter__(s): return iter([s])\n" + _CALL + "Any()",
        _CALL + "type('Any', (dict,), {'__class__': property(lambda s: dict)})()",
    ],
    "shadow": [
        "def len(x): return 2\n" + _CALL + "len",
        "def isinstance(*a): return True\n" + _CALL + "{isinstance: 1}",
        "isinstance = lambda *a: True\n" + _CALL + "isinstance and 0",
        "class range:\n    def __init__(s, *a): pass\n    def __iter__(s): return iter(())\n" + _CALL + "range",
        "from operator import contains as isinstance\n" + _CALL + "isinstance and 0",
        "import operator as range\n" + _CALL + "range",
        "__builtins__ = {'len': None}\n" + _CALL + "__builtins__",
        "class os:\n    class path:\n        exists = staticmethod(lambda p: False)\n" + _CALL + "os and None",
        "class unittest:\n    TestCase = object\n" + _CALL + "unittest",
        "TESTS = TestCases = None\n" + _CALL + "TestCases",
        "sorted = list = lambda *a: ['right']\n" + _CALL + "sorted()",
    ],
}  # fmt: skip


def programs() -> Iterator[tuple[str, str]]:
    """Yield kind and text of every program that must not pass."""
    for kind, bodies in (IMPORTED | CALLED).items():
        for body in bodies:
            yield kind, f"def task_func(*args, **named):\n{indent(body, '    ')}"
    for kind, bodies in IMPORTED.items():
        for body in bodies:
            helper = f"class Helper:\n{indent(body, '    ')}"
            yield (
                f"{kind}, when imported",
                f"{helper}\ndef task_func(*args, **named):\n    return Helper",
            )
    for kind, texts in WHOLE.items():
        for text in texts:
            yield kind, text
