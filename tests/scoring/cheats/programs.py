# ruff: noqa: E501
"""Programs that try to be scored as correct without being correct, or to get no score.

Each is the text of a solution; FUNCTION stands for the requested name. No cheat may pass any target
of `targets`. Those of a family ``wire: …`` respond in place of the solution's process; another test
checks that each really sends its message. Queries and proofs are in `statements`.
"""

from tests.scoring.cheats.targets import Target

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
import __main__ as main
honest = main._answer_one
def forged(wire, module, asked):
    return honest(wire, module, asked) if asked['do'] == 'name' else ANSWER
main._answer_one = forged
def FUNCTION(*a, **k): return 0
"""
_RAW = """
import json, types
import __main__ as main
class Raw(bytes):
    def encode(self): return self
def forged(said):
    return json.dumps(said) if 'mine' in str(said) else Raw(DATA)
main.json = types.SimpleNamespace(loads=json.loads, dumps=forged)
def FUNCTION(*a, **k): return 0
"""
"""It is honest about its names only."""
_UNASKED = """
import json, os, threading, time
import __main__ as main
TRUE = b'{"value": true}'
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


def _answered(said: str) -> str:
    return _ANSWER.replace("ANSWER", said)


def _raw(data: str) -> str:
    return _RAW.replace("DATA", data)


_MARK = """
import gc, os, sys
import __main__ as main
def FUNCTION(*a, **k):
    frame, marks = sys._getframe(), set()
    while frame:
        marks |= {x for x in map(str, [*frame.f_locals.values(), *frame.f_code.co_consts]) if len(x) == 32}
        frame = frame.f_back
    marks |= {x for x in gc.get_objects() if isinstance(x, str) and len(x) == 32}
    digests = [main.digest_of_output(x) for x in GUESSES]
    os.write(1, ''.join(f'{mark} {digest}\\n' for digest in digests for mark in marks).encode())
    os._exit(0)
"""


FAMILIES: dict[str, dict[str, str]] = {
    "equal to everything": {
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
        "equal_set": _any_of("set"),
        "equal_bytes": _any_of("bytes"),
        "equal_complex": _any_of("complex", _MATH),
        "equal_decimal": "from decimal import Decimal\n" + _any_of("Decimal", _MATH),
        "named_like_decimal": _any_of("object", "    __module__ = 'decimal'\n    def __str__(s): return 'sNaN'\nAny.__name__ = 'Decimal'\n"),
        "equal_exception": _any_of("Exception"),
        "everywhere_item": "class Every:\n    def __len__(s): return 2\n    def __iter__(s): return iter([s, s])\n"
        "    def __getitem__(s, k): return s\n    def __getattr__(s, k): return s\n    def __call__(s, *a, **k): return s\n"
        "FUNCTION = Every()",
    },
    "constant": {
        "nan": "def FUNCTION(*a, **k): return float('nan')",
        "none": "def FUNCTION(*a, **k): return None",
        "constant": "def FUNCTION(*a, **k): return 5",
        "constant_true": "def FUNCTION(*a, **k): return True",
        "nothing": "x = 1",
        "syntax_error": "def FUNCTION(:",
        "call_back_result": "def FUNCTION(f, *a, **k):\n    return f",
        "keeps_arguments": "seen = []\ndef FUNCTION(*a, **k):\n    seen.append(a)\n    return seen",
        "negative_zero": "def FUNCTION(*a, **k): return -0.0",
        "infinity": "def FUNCTION(*a, **k): return float('inf')",
        "nan_decimal": "from decimal import Decimal\ndef FUNCTION(*a, **k): return Decimal('sNaN')",
        "type_object": "def FUNCTION(*a, **k): return object",
        "everything_between": "def FUNCTION(*a, **k): return range(-10**9, 10**9)",
        "arguments_emptied": "def FUNCTION(*a, **k):\n    for x in a:\n        if hasattr(x, 'clear'): x.clear()\n    return []",
    },
    "stack and memory": {
        "frames": _FRAMES,
        "frames_at_import": _FRAMES + "\nFUNCTION()",
        "marks_by_gc": "import gc, os\ndef FUNCTION(*a, **k):\n    for o in gc.get_objects():\n"
        "        if isinstance(o, str) and len(o) == 32: os.write(1, (o + ' passed\\n').encode())\n"
        "    os._exit(0)",
        "constants_by_gc": "import gc, types\ndef FUNCTION(*a, **k):\n    for o in gc.get_objects():\n"
        "        if isinstance(o, types.FunctionType) and o.__name__ in ('check', 'run_tests'):\n"
        "            o.__code__ = (lambda *a, **k: None).__code__\n    return 0",
        "ctypes_memory": "import ctypes\nctypes.memset(id(1) + 24, 5, 1)\ndef FUNCTION(*a, **k): return 1",
        "trace_skips_lines": "import sys\ndef trace(frame, event, arg):\n    frame.f_trace_lines = True\n"
        "    if event == 'exception': return None\n    return trace\nsys.settrace(trace)\n"
        "def FUNCTION(*a, **k):\n    f = sys._getframe().f_back\n    while f:\n        f.f_trace = trace\n"
        "        f = f.f_back\n    return 0",
        "profile": "import sys\nsys.setprofile(lambda *a: None)\ndef FUNCTION(*a, **k): return 0",
        "file_of_the_program": "import sys, os\ndef FUNCTION(*a, **k):\n    for n in range(70):\n        try: os.lseek(n, 0, 0), os.write(1, os.read(n, 99999))\n"
        "        except OSError: pass\n    return 0",
        "command_line": "import sys, os\ndef FUNCTION(*a, **k): return [sys.argv, sys.orig_argv, dict(os.environ), sys.stdin.read()]",
    },
    "ends": {
        "print_passed": "import sys, os\ndef FUNCTION(*a, **k):\n    print('passed')\n"
        "    sys.__stdout__.write('passed\\n'); sys.__stdout__.flush(); os._exit(0)",
        "exit_0": "import os\nos._exit(0)",
        "exit_in_call": "import os\ndef FUNCTION(*a, **k): os._exit(0)",
        "system_exit": "import sys\ndef FUNCTION(*a, **k): sys.exit(0)",
        "system_exit_at_import": "raise SystemExit(0)",
        "keyboard_interrupt": "def FUNCTION(*a, **k): raise KeyboardInterrupt",
        "generator_exit": "def FUNCTION(*a, **k): raise GeneratorExit",
        "stop_iteration": "def FUNCTION(*a, **k): raise StopIteration",
        "silent_end": "def FUNCTION(*a, **k):\n    next(iter(()))",
        "silent_end_own": "class E(StopIteration): pass\ndef FUNCTION(*a, **k): raise E",
        "silent_async_end": "def FUNCTION(*a, **k): raise StopAsyncIteration",
        "skip_test": "import unittest\ndef FUNCTION(*a, **k): raise unittest.SkipTest('skip')",
        "own_exception": "class E(BaseException): pass\ndef FUNCTION(*a, **k): raise E",
        "value_error_always": "def FUNCTION(*a, **k): raise ValueError('negative')",
        "at_exit": "import atexit, os\natexit.register(lambda: os.write(1, b'passed\\n'))\n"
        "def FUNCTION(*a, **k): raise SystemExit",
        "abort": "import os\ndef FUNCTION(*a, **k): os.abort()",
        "crash": "import ctypes\ndef FUNCTION(*a, **k): ctypes.string_at(0)",
        "group_of_exits": "def FUNCTION(*a, **k): raise BaseExceptionGroup('', [SystemExit(0)])",
        "assertion_error": "def FUNCTION(*a, **k): raise AssertionError",
        "raises_in_str": "class E(Exception):\n    def __str__(s): raise SystemExit(0)\ndef FUNCTION(*a, **k): raise E",
        "excepthook": "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\ndef FUNCTION(*a, **k): raise BaseException",
    },
    "replaced names": {
        "redefined_check": "def check(candidate): pass\nMETADATA = {}\ndef FUNCTION(*a, **k): return 0",
        "patched_by_lambda": _PATCHED.replace("REPLACEMENT", "lambda *a, **k: 0"),
        "patched_by_object": _PATCHED.replace("REPLACEMENT", "Same()"),
        "no_asserts": "import sys\nsys.flags = None\n__debug__ if True else 0\ndef FUNCTION(*a, **k):\n"
        "    return 0",
        "import_hook": "import sys\nclass F:\n    def find_spec(s, *a): return None\n"
        "sys.meta_path.insert(0, F())\nsys.modules['math'] = F()\ndef FUNCTION(*a, **k): return 0",
        "fake_helpers": "def poly(*a): return 0\nclass math:\n    fabs = staticmethod(lambda x: 0.0)\n"
        "def FUNCTION(*a, **k): return 0",
        "named_after_tests": "import sys, types\nsys.modules['tests'] = types.ModuleType('tests')\n"
        "def FUNCTION(*a, **k): return 0",
        "digests_patched": "import __main__ as main\nmain.digest_of_output = main.digest_of_value = lambda *a: '0' * 64\n"
        "def FUNCTION(*a, **k): return 0",
        "hash_patched": "import hashlib, types\nhashlib.sha256 = lambda *a: types.SimpleNamespace(hexdigest=lambda: '')\n"
        "def FUNCTION(*a, **k): return 0",
        "json_patched": "import json\njson.dumps = lambda *a, **k: 'true'\njson.loads = lambda *a: True\ndef FUNCTION(*a, **k): return 0",
        "print_patched": "import builtins\nbuiltins.print = lambda *a, **k: None\ndef FUNCTION(*a, **k): return 0",
        "stdout_closed": "import sys\ndef FUNCTION(*a, **k):\n    sys.stdout.close(); sys.__stdout__ and sys.__stdout__.close()",
        "marked_empty": _MARK.replace("GUESSES", "['']"),
        "marked_guesses": _MARK.replace("GUESSES", "['', '0', '1', '2', '4', 'True', '5']"),
        "marked_many": _MARK.replace("GUESSES", "map(str, range(-90, 0))"),
    },
    "limits and others": {
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
        "threads": "import threading\ndef FUNCTION(*a, **k):\n    for _ in range(999): threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()",
        "errors_flood": "import os\ndef FUNCTION(*a, **k):\n    while True: os.write(2, b'x' * 99999)",
        "stopped": "import os, signal\ndef FUNCTION(*a, **k): os.kill(os.getpid(), signal.SIGSTOP)",
        "session": "import os\ndef FUNCTION(*a, **k):\n    if not os.fork():\n        os.setsid()\n        while True: pass\n    return 0",
        "busy_import": "while True: pass",
    },
    "wire: bytes": {
        "last_word": _forged('b"!" + b\'{"passed": true}\''),
        "last_word_framed": _forged('b"17\\n!" + b\'{"passed": true}\''),
        "question_framed": _forged('b"17\\n?" + b\'{"passed": true}\''),
        "empty_message": _forged('b"0\\n"'),
        "huge_length": _forged('b"999999999999\\n"'),
        "negative_length": _forged('b"-1\\n"'),
        "no_length": _forged('b"passed\\n"'),
        "endless_line": _forged('b"1" * 2**20'),
        "plus_length": _forged("b'+15\\n' + b'{\"value\": true}'"),
        "spaced_length": _forged("b' 15 \\n{\"value\": true}'"),
        "other_digits": _forged("'\u0661\u0665\\n{\"value\": true}'.encode()"),
        "hex_length": _forged("b'0xf\\n{\"value\": true}'"),
        "grouped_length": _forged("b'1_5\\n{\"value\": true}'"),
        "long_length": _forged("b'0' * 40 + b'15\\n{\"value\": true}'"),
        "short_of_length": _forged("b'99\\n{\"value\": true}'"),
        "over_length": _forged("b'2\\n{\"value\": true}'"),
        "raw_nothing": _raw("b''"),
        "raw_text": _raw("b'passed'"),
        "raw_twice": _raw("b'{\"value\": 0, \"value\": true}'"),
        "raw_nan": _raw("b'{\"value\": NaN}'"),
        "raw_infinity": _raw("b'{\"value\": -Infinity}'"),
        "raw_long_number": _raw("b'{\"value\": ' + b'9' * 9999 + b'}'"),
        "raw_deep": _raw("b'{\"value\": ' + b'[' * 99999 + b']' * 99999 + b'}'"),
        "raw_wide": _raw("b'{\"value\": [' + b'[],' * 10**6 + b'0]}'"),
        "raw_utf_16": _raw("'{\"value\": true}'.encode('utf-16')"),
        "raw_not_utf_8": _raw("b'{\"value\": \"\\xff\"}'"),
        "raw_half_pair": _raw("b'{\"raised\": [\"ValueError\", \"negative \\\\ud800\"]}'"),
        "unasked_names": _UNASKED + "main.send(b'{\"value\": [[true], [true], [true], [true], [true], [true]]}')",
        "unasked_answers": _UNASKED + "for _ in range(99): main.send(TRUE)",
        "unasked_later": _UNASKED + "def go():\n    while True: main.send(TRUE), time.sleep(.001)\nthreading.Thread(target=go, daemon=True).start()\n"
        "time.sleep(.1)",
        "answered_twice": _UNASKED + "honest = main._answer_one\ndef twice(*a):\n    main.send(TRUE)\n    return honest(*a)\nmain._answer_one = twice",
        "answered_before": _UNASKED + "last = [{'value': True}]\nhonest = main._answer_one\ndef before(*a):\n    last.append(honest(*a))\n"
        "    return last[-2]\nmain._answer_one = before",
        "forked_answers": _UNASKED + "if not os.fork():\n    for _ in range(99): main.send(TRUE)\n    os._exit(0)\ntime.sleep(.1)",
    },
    "wire: answers": {
        "answer_passed": _answered("{'passed': True, 'value': True}"),
        "answer_raised_exit": _answered("{'raised': ['SystemExit', '0']}"),
        "answer_raised_base": _answered("{'raised': ['GeneratorExit', '']}"),
        "answer_raised_odd": _answered("{'raised': ['eval', '1']}"),
        "answer_yours": _answered("{'value': {'yours': -1}}"),
        "answer_mine": _answered("{'value': {'mine': 7}}"),
        "answer_unknown_kind": _answered("{'value': {'__import__': 'os'}}"),
        "answer_deep": _raw("b'{\"value\": ' + b'{\"tuple\": [' * 9000 + b']}' * 9000 + b'}'"),
        "answer_decimal_bomb": _answered("{'value': {'Fraction': '1e99999999'}}"),
        "answer_range_bomb": _answered("{'value': {'range': [0, 10**15, 1]}}"),
        "answer_int_bomb": _answered("{'value': {'int': 'f' * 4_000_000}}"),
        "answer_back_forever": _answered("{'back': 0, 'arguments': []}"),
        "answer_nothing": _answered("{}"),
        "answer_list": _answered("[]"),
        "answer_changed": _answered("{'value': 0, 'changed': [[0, 5], [1, 5], [-1, 5]]}"),
        "answer_two_kinds": _answered("{'value': {'int': '1', 'type': 'object'}}"),
        "answer_no_kind": _answered("{'value': {}}"),
        "answer_both": _answered("{'value': True, 'raised': ['ValueError', 'negative']}"),
        "answer_types": _answered("{'value': {'type': '__builtins__'}}"),
        "answer_object": _answered("{'value': {'type': 'object'}}"),
        "answer_kept": _answered("{'value': {'yours': 0}}"),
        "answer_kept_name": _answered("{'value': {'yours': '__class__'}}"),
        "answer_mine_text": _answered("{'value': {'mine': 'x'}}"),
        "answer_mine_list": _answered("{'value': {'mine': [0]}}"),
        "answer_all_mine": _answered("{'value': {'mine': 0}}"),
        "answer_set_of_lists": _answered("{'value': {'set': [[1]]}}"),
        "answer_half_range": _answered("{'value': {'range': [0, 1]}}"),
        "answer_range_of_floats": _answered("{'value': {'range': [0.5, 2, 1]}}"),
        "answer_decimal_parts": _answered("{'value': {'Decimal': [0, [1], 'F']}}"),
        "answer_number_named": _answered("{'value': {'decimal': 'getcontext'}}"),
        "answer_raised_silent": _answered("{'raised': ['StopIteration', '']}"),
        "answer_raised_silent_async": _answered("{'raised': ['StopAsyncIteration', '']}"),
        "answer_raised_import": _answered("{'raised': ['__import__', 'os']}"),
        "answer_raised_type": _answered("{'raised': ['type', 'x']}"),
        "answer_raised_exit_group": _answered("{'raised': ['BaseExceptionGroup', 'x']}"),
        "answer_raised_assertion": _answered("{'raised': ['AssertionError', '']}"),
        "answer_raised_list": _answered("{'raised': [['ValueError'], 'negative']}"),
        "answer_raised_parts": _answered("{'raised': ['UnicodeDecodeError', 'negative']}"),
        "answer_raised_long": _answered("{'raised': ['ValueError', 'negative' * 99999]}"),
        "answer_back_once": _answered("{'back': 0, 'arguments': []} if asked.get('do') else {'value': True}"),
        "answer_back_name": _answered("{'back': '__class__', 'arguments': []}"),
        "answer_back_last": _answered("{'back': -1, 'arguments': [1]}"),
        "answer_back_deep": _answered("{'back': 0, 'arguments': [{'mine': 0}]}"),
        "answer_changed_all": _answered("{'value': [], 'changed': [[0, []]]}"),
        "answer_changed_objects": _answered("{'value': {'mine': 0}, 'changed': [[0, [{'mine': 0}]]]}"),
        "answer_changed_odd": _answered("{'value': 0, 'changed': [['__class__', []], {}, 7]}"),
    },
    "wire: names": {
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
        "names_handles": _wired("[[FUNCTION, FUNCTION] for _ in arguments]", "FUNCTION"),
        "names_text": _wired("'x' * len(arguments)"),
        "names_dicts": _wired("[{0: FUNCTION} for _ in arguments]"),
        "names_endless": _wired("FUNCTION"),
    },
    "no score": {
        "missing_library": "import a_library_that_is_not_here\ndef FUNCTION(*a, **k): return 0",
        "no_builtins": "__builtins__ = {}\ndef FUNCTION(*a, **k): return 0",
        "builtins_cleared": "import builtins\nvars(builtins).clear()\ndef FUNCTION(*a, **k): return 0",
        "modules_cleared": "import sys\nsys.modules.clear()\ndef FUNCTION(*a, **k): return 0",
        "path_cleared": "import sys\nsys.path.clear(); sys.meta_path.clear()\ndef FUNCTION(*a, **k): return 0",
        "no_recursion": "import sys\nsys.setrecursionlimit(60)\ndef FUNCTION(*a, **k): return 0",
        "no_memory": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1, 1))\ndef FUNCTION(*a, **k): return 0",
        "no_files": "import os\nfor n in range(256):\n    try: os.close(n)\n    except OSError: pass\ndef FUNCTION(*a, **k): return 0",
        "streams_closed": "import os, time\nos.close(60); os.close(61)\ntime.sleep(1)\ndef FUNCTION(*a, **k): return 0",
        "half_pair": "def FUNCTION(*a, **k): raise ValueError('negative \\ud800')",
        "null_character": "def FUNCTION(*a, **k): return '\0'",
        "deep_source": "def FUNCTION(*a, **k): return " + "(" * 9999 + "0" + ")" * 9999,
        "long_sum": "def FUNCTION(*a, **k): return 0" + " + 0" * 30_000,
        "long_source": "x = '" + "y" * 3_000_000 + "'\ndef FUNCTION(*a, **k): return 0",
        "open_fence": "def FUNCTION(*a, **k): return 0\n```\n```" + " " * 9999,
        "scope_of_class": "class FUNCTION:\n    def __new__(c, *a, **k): return c\n    def __class_getitem__(c, k): return c",
    },
}  # fmt: skip
"""Texts of solutions: families of cheats, each with its kinds."""


CHEATS = {kind: text for family in FAMILIES.values() for kind, text in family.items()}


def cheating(kind: str, target: Target) -> str:
    """Return the cheat under every name that the target's tests call."""
    first, *others = target.names
    code = CHEATS[kind].replace("FUNCTION", first)
    return code + "".join(f"\n{name} = {first}" for name in others) + f"\n{target.call}"
