# ruff: noqa: E501
"""Correct solutions by unusual but legal means; each passes its tests in the sandbox.

For a benchmark's row: a key of `targets.TARGETS` and a solution different from the one there.
"""

from dataclasses import dataclass
from typing import Any

from tests.scoring.cheats.targets import TARGETS


@dataclass(frozen=True)
class Honest:
    """Correct solution and its target."""

    target: dict[str, Any]
    code: str


def _asked(tests: str, code: str, entry_point: str = "f", prompt: str = "") -> Honest:
    return Honest({"tests": tests, "entry_point": entry_point, "prompt": prompt}, code)


def _of(name: str, code: str) -> Honest:
    return Honest(TARGETS[name].target, code)


HONEST: dict[str, Honest] = {
    # what the name is
    "lambda": _asked("assert f(2) == 4", "f = lambda x: x * 2"),
    "callable object": _asked("assert f(2) == 4", "class Double:\n    def __call__(self, x): return 2 * x\n\nf = Double()"),
    "partial": _asked("assert f(3) == 8", "from functools import partial\nf = partial(pow, 2)"),
    "builtin": _asked("assert f([3, 1]) == [1, 3]", "f = sorted"),
    "type": _asked("assert f('7') == 7", "f = int"),
    "bound method": _asked("assert f('a-b') == ['a', 'b']", "class Split:\n    def on(self, x): return x.split('-')\n\nf = Split().on"),
    "static method": _asked("assert f(1) == 2", "class Next:\n    @staticmethod\n    def of(x): return x + 1\n\nf = Next.of"),
    "closure": _asked("assert [f(), f(), f()] == [1, 2, 3]", "def counter():\n    n = 0\n    def step():\n        nonlocal n\n        n += 1\n        return n\n    return step\n\nf = counter()"),
    "global state": _asked("f(1)\nassert f(2) == [1, 2]", "seen = []\ndef f(x):\n    seen.append(x)\n    return seen"),
    "default that is kept": _asked("f(1)\nassert f(2) == [1, 2]", "def f(x, seen=[]):\n    seen.append(x)\n    return seen"),
    "decorator": _asked("assert f(1) == 4", "import functools\ndef twice(g):\n    @functools.wraps(g)\n    def inner(x): return g(g(x))\n    return inner\n\n@twice\ndef f(x): return x * 2"),
    "cache": _asked("assert f(90) == 2880067194370816120", "import functools\n@functools.cache\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)"),
    "recursion": _asked("assert f(5000) == 5000", "import sys\nsys.setrecursionlimit(20_000)\ndef f(n): return 1 + f(n - 1) if n else 0"),
    "late definition": _asked("assert f(2) == 5", "def f(x): return later(x)\n\ndef later(x): return x + 3"),
    "main guard": _asked("assert f(2) == 4", "def f(x): return 2 * x\n\nif __name__ == '__main__':\n    import sys\n    sys.exit(f(int(input())))"),
    "own tests": _asked("assert f(2) == 4", "def f(x): return 2 * x\n\nassert f(1) == 2\nprint('all passed')"),
    "doctest": _asked("assert f(2) == 4", "def f(x):\n    '''\n    >>> f(1)\n    2\n    '''\n    return 2 * x\n\nimport doctest\ndoctest.run_docstring_examples(f, {'f': f})"),
    "prints": _asked("assert f(2) == 4", "import sys\ndef f(x):\n    print('x' * 100_000)\n    print('x' * 9000, file=sys.stderr)\n    return 2 * x"),
    "star import": _asked("assert f(9) == 3", "from math import *\ndef f(x): return int(sqrt(x))"),
    "future annotations": _asked("assert f(2) == 4", "from __future__ import annotations\ndef f(x: Nothing) -> Unknown: return 2 * x"),
    "match": _asked("assert [f([]), f([1]), f({'a': 2})] == [0, 1, 2]", "def f(x):\n    match x:\n        case []: return 0\n        case [one]: return one\n        case {'a': a}: return a"),
    "thread": _asked("assert f([1, 2]) == [2, 4]", "from concurrent.futures import ThreadPoolExecutor\ndef f(xs):\n    with ThreadPoolExecutor(2) as pool: return list(pool.map(lambda x: 2 * x, xs))"),
    "asyncio": _asked("assert f(2) == 4", "import asyncio\nasync def go(x):\n    await asyncio.sleep(0)\n    return 2 * x\n\ndef f(x): return asyncio.run(go(x))"),
    "evaluated": _asked("assert f('1 + 2') == 3", "def f(x): return eval(x)"),
    "metaclass": _asked("assert f(3).value == 3", "class Meta(type):\n    def __call__(cls, x):\n        made = super().__call__()\n        made.value = x\n        return made\n\nclass f(metaclass=Meta): pass"),
    # what it returns
    "generator": _asked("assert list(f(3)) == [0, 1, 2]\nassert sum(f(3)) == 3 and 2 in f(3)", "def f(n):\n    yield from range(n)"),
    "lazy map": _asked("assert list(f([1, 2])) == ['1', '2']\nassert set(f([1])) == {'1'}", "def f(x): return map(str, x)"),
    "views": _asked("assert sorted(f({'b': 1, 'a': 2})) == ['a', 'b']\nassert len(f({'a': 1})) == 1", "def f(x): return x.keys()"),
    "named tuple": _asked("assert f(1) == (1, 2)", "from collections import namedtuple\nPair = namedtuple('Pair', 'a b')\ndef f(x): return Pair(x, x + 1)"),
    "kinds of dict": _asked("assert f('aab') == [{'a': 2, 'b': 1}, {'a': 1}, {}]", "from collections import Counter, OrderedDict, defaultdict\ndef f(x): return [Counter(x), OrderedDict(a=1), defaultdict(list)]"),
    "enumeration": _asked("assert f() == 2", "from enum import IntEnum\nclass Colour(IntEnum):\n    RED = 2\n\ndef f(): return Colour.RED"),
    "text of a subclass": _asked("assert f() == 'x' and f().upper() == 'X'", "class Text(str): pass\ndef f(): return Text('x')"),
    "data class": _asked("assert (f(1, 2).x, f(1, 2).y, f(1, 2).length()) == (1, 2, 3)", "from dataclasses import dataclass\n@dataclass(order=True, slots=True)\nclass f:\n    x: int\n    y: int = 0\n    def length(self): return self.x + self.y"),
    "properties": _asked("a = f(2)\na.side = 3\nassert a.area == 9", "class f:\n    def __init__(self, side): self._side = side\n    @property\n    def area(self): return self._side ** 2\n    @property\n    def side(self): return self._side\n    @side.setter\n    def side(self, x): self._side = x"),
    "inheritance": _asked("assert f().kind() == 'base sub'", "class Base:\n    def kind(self): return 'base'\n\nclass f(Base):\n    def kind(self): return super().kind() + ' sub'"),
    "container": _asked("a = f()\na.push(1)\na.push(2)\nassert len(a) == 2 and a[0] == 1 and list(a) == [1, 2] and a.pop() == 2", "class f:\n    def __init__(self): self.held = []\n    def push(self, x): self.held.append(x)\n    def pop(self): return self.held.pop()\n    def __len__(self): return len(self.held)\n    def __getitem__(self, k): return self.held[k]\n    def __iter__(self): return iter(self.held)"),
    "linked objects": _asked("a, b = f(1), f(2)\na.next = b\nassert a.next is b and a.next.value == 2 and b.next is None", "class f:\n    def __init__(self, value): self.value, self.next = value, None"),
    "exact numbers": _asked("from decimal import Decimal\nfrom fractions import Fraction\nassert f(1, 3) == (Fraction(1, 3), Decimal('0.1'))", "from decimal import Decimal\nfrom fractions import Fraction\ndef f(a, b): return Fraction(a, b), Decimal('0.1')"),
    "large integers": _asked("import math\nassert f(3000) == math.factorial(3000)", "import math\ndef f(n): return math.prod(range(1, n + 1))"),
    "complex and sets": _asked("assert f([1, 1]) == {(1, 1j), frozenset({1})}", "def f(x): return {(x[0], 1j), frozenset(x)}"),
    "deep structure": _asked("assert f(200) == f(200) and f(2) == [[[]]]", "def f(n):\n    made = []\n    for _ in range(n): made = [made]\n    return made"),
    "long list": _asked("assert f(200_000)[-1] == 199_999", "def f(n): return list(range(n))"),
    # what it does with its arguments
    "changed list": _asked("x = [3, 1]\nassert f(x) is None and x == [1, 3]", "def f(x): x.sort()"),
    "changed rows": _asked("x = [[1, 2], [3, 4]]\nf(x)\nassert x == [[2, 1], [4, 3]]", "def f(x):\n    for row in x: row.reverse()"),
    "changed dict and set": _asked("x, y = {1: 2}, {3}\nf(x, y)\nassert x == {} and y == {3, 4}", "def f(x, y):\n    x.clear()\n    y.add(4)"),
    "many arguments": _asked("assert f(1, 2, z=3) == (1, (2,), {'z': 3}) and f(x=1) == (1, (), {})", "def f(x, *rest, **named): return x, rest, named"),
    "calls back": _asked("assert f(lambda x: x + 1, [1, 2]) == [2, 3] and f(len, ['ab']) == [2]", "def f(g, xs): return [g(x) for x in xs]"),
    "errors of calls back": _asked("def no(x):\n    raise KeyError(x)\n\nassert f(no) == 'none'", "def f(g):\n    try: return g(1)\n    except KeyError: return 'none'"),
    # errors
    "own error": _asked("try:\n    f(-1)\nexcept ValueError as error:\n    assert str(error) == 'negative: -1'\nelse:\n    raise AssertionError", "class Negative(ValueError):\n    def __init__(self, x): super().__init__(f'negative: {x}')\n\ndef f(x):\n    raise Negative(x)"),
    "error of a cause": _asked("import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        with self.assertRaises(ZeroDivisionError):\n            f(1)", "def f(x):\n    try: [][x]\n    except IndexError as error: raise ZeroDivisionError('no') from error"),
    "caught end": _asked("assert f([1, 2]) == 3", "def f(xs):\n    total, it = 0, iter(xs)\n    while True:\n        try: total += next(it)\n        except StopIteration: return total"),
    # names that others have
    "name of a builtin": _asked("assert sum(1, 2) == 3", "import builtins\ndef sum(a, b): return builtins.sum((a, b))", "sum"),
    "name of a module": _asked("assert string(1) == '1'", "def string(x): return str(x)", "string"),
    "names of the tests": _of("humaneval+", "def near(x): return x\ndef check(x): return x\ndef is_float(x): return x\nINPUTS = REFERENCE = 7\ndef half(x): return near(check(is_float(x))) / 2"),
    "names of the comparison": _of("mbpp+ floats", "def compare(x): return x\ndef is_right(x): return x\nsolution = case = 3\ndef half(x): return compare(is_right(x)) * 0.5"),
    "names of the process": _asked("assert f(2) == 4", "def send(x): return x\nreceive = answer = wire = module = send\ndef f(x): return receive(2 * x)"),
    "helper of the prompt": _of("helper", "def zero(xs):\n    x = -xs[0] / xs[1]\n    assert abs(poly(xs, x)) < 1e-9\n    return x"),
    "helper made anew": _of("helper", "def poly(xs, x): return xs[0] + xs[1] * x\ndef zero(xs): return -xs[0] / xs[1]"),
    "body only": _of("humaneval", "    return math.isqrt(n)"),
    # whole programs
    "bytes of the input": _of("contest program", "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))"),
    "file of the input": _of("contest program", "print(sum(map(int, open(0).read().split())))"),
    "lines of the input": _of("contest program", "import sys\nfor line in sys.stdin:\n    print(sum(map(int, line.split())), flush=True)"),
    "bytes of the output": _of("contest program", "import sys\nsys.stdout.buffer.write(b'%d' % sum(map(int, input().split())))"),
    "main and exit": _of("contest program", "import sys\nfrom dataclasses import dataclass\n@dataclass\nclass Two:\n    a: int\n    b: int\n\ndef main():\n    two = Two(*map(int, sys.stdin.readline().split()))\n    sys.stdout.write(str(two.a + two.b))\n\nif __name__ == '__main__':\n    main()\n    sys.exit(0)"),
    "large stack": _of("contest program", "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(2**26)\ndef main(): print(sum(map(int, input().split())))\nthread = threading.Thread(target=main)\nthread.start()\nthread.join()"),
    "prints of a function": _of("contest function", "def join(a, b):\n    print('x' * 9000)\n    return a + [b]"),
    "helpers of a method": _of("contest method", "from functools import cache\nclass Solution:\n    def __init__(self): self.made = []\n    def join(self, a, b):\n        self.made += a\n        return self.last(b)\n    def last(self, b): return self.made + [b]"),
}  # fmt: skip
