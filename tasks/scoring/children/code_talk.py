"""Inside the sandbox: remote calls from the process of the tests to the process of the solution.

The source of this module is passed to both processes as text. No line of the solution runs in the
process of the tests: the tests call a proxy that asks the other process and gets plain data back.
So a solution cannot reach the tests, the expected values, the comparison, or the verdict; it can
only answer calls. Standard library only.

A solution may rewrite its own process and answer with any bytes. They can become: JSON values, read
as exact builtin types, ``Decimal``, ``Fraction``, the types in `TYPES`, a function that the tests
passed before, or a `Handle`, which is equal to itself only and whose special attributes are not
asked for (numpy would read memory at an address in ``__array_interface__``); a builtin exception
with a text, but not one that ends an iteration silently; new contents of the lists, dicts and sets
that were passed to a call; values of names that the tests use and neither they, the prompt nor
Python define. Nothing is compiled, executed or imported by name. Anything else is an error, and the
solution is wrong.
"""

from __future__ import annotations

import builtins
import json
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:  # like typing's, whose import takes as long as all the others together
    from collections.abc import Callable, Iterator
    from typing import Any

    Send = Callable[[bytes], None]
    Receive = Callable[[], bytes]

SOLUTION, TESTS = "solution", "tests"
SAFE_INT = 2**53  # beyond it, JSON numbers are not exact integers everywhere
MOST_ITEMS = 100_000  # limit for iterables that are not lists
SAID_CHARS = 2000
PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range)
EXACT: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: bytes.__bytes__,
    list: list,
}
"""Conversions of a value of a subclass to the builtin type."""
TYPES: dict[str, Any] = {kind.__name__: kind for kind in (*PLAIN, object, type(None), Exception)}
"""Types that are passed by name; functions are not, because some of them run code."""

SILENT = (StopIteration, StopAsyncIteration)
NUMBERS = {"Decimal": "decimal", "Fraction": "fractions"}
"""Types that are passed by value, and their modules."""


class Unsupported(Exception):
    """The tests pass a value that cannot be passed; the solution is not wrong because of it."""


class ValueCodec:
    """Encodes and decodes values; keeps objects that stay in this process, by number."""

    def __init__(self, of_number: Callable[[int], Any]) -> None:
        """`of_number` creates the proxy of an object in the other process."""
        self.kept: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._of_number = of_number

    def keep(self, value: Any) -> int:
        """Return the number of an object that stays in this process."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.kept)
            self.kept.append(value)
        return self._numbers[id(value)]

    def write(self, value: Any) -> Any:
        """Encode a value as JSON; an instance of a subclass of a builtin type as that type."""
        kind: Any = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if abs(value) < SAFE_INT else {"int": hex(value)}
        if kind is float:
            return {"float": repr(value)}
        if kind is list:
            return [self.write(each) for each in value]
        if kind is Handle:
            return {"yours": vars(value)["_number"]}
        name = getattr(value, "__name__", "") if isinstance(value, type) else ""
        if name and TYPES.get(name) is value:
            return {"type": name}
        kind = next((kind for kind in PLAIN if isinstance(value, kind)), None)
        if kind is None:
            name = type(value).__name__
            if type(value).__module__ == NUMBERS.get(name):
                return {name: str(value)}
            return {"mine": self.keep(value)}
        if kind in EXACT and type(value) is not kind:
            return self.write(EXACT[kind](value))
        if kind is dict:
            return {"dict": [[self.write(k), self.write(v)] for k, v in dict.items(value)]}
        if kind is complex:
            return {"complex": [repr(value.real), repr(value.imag)]}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind is range:
            return {"range": [self.write(x) for x in (value.start, value.stop, value.step)]}
        return {kind.__name__: [self.write(each) for each in kind.__iter__(value)]}

    def read(self, said: Any) -> Any:
        """Decode a value: of exact builtin types, or a proxy of an object."""
        if type(said) is list:
            return [self.read(each) for each in said]
        if type(said) is not dict:
            return said
        ((kind, inner),) = said.items()
        readers: dict[str, Callable[[Any], Any]] = {
            "dict": lambda pairs: {self.read(key): self.read(value) for key, value in pairs},
            "tuple": lambda items: tuple([self.read(each) for each in items]),
            "set": lambda items: {self.read(each) for each in items},
            "frozenset": lambda items: frozenset([self.read(each) for each in items]),
            "int": lambda text: int(text, 16),
            "float": float,
            "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
            "bytes": bytes.fromhex,
            "range": lambda parts: range(*map(self.read, parts)),
            **dict.fromkeys(NUMBERS, lambda text: getattr(__import__(NUMBERS[kind]), kind)(text)),
            "type": TYPES.__getitem__,
            "yours": self.kept.__getitem__,
            "mine": self._of_number,
        }
        return readers[kind](inner)


class Handle:
    """In the tests' process: a proxy of an object of the solution."""

    def __init__(self, ask: Callable[..., Any], number: int) -> None:
        vars(self).update(_ask=ask, _number=number)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._ask("call", self, arguments, named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__name__":
            raise AttributeError(name)
        return self._ask("get", self, (name,))

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("set", self, (name, value))

    def __getitem__(self, key: Any) -> Any:
        return self._ask("item", self, (key,))

    def __len__(self) -> int:
        return int(self._ask("len", self, ()))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ask("items", self, ()))


# The solution's side


def answer(source: str, send: Send, receive: Receive) -> None:
    """Run the solution, then answer requests endlessly."""

    def stand_in(number: int) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            said = {"back": number, "arguments": [wire.write(each) for each in arguments]}
            send(json.dumps(said).encode())
            return _outcome(wire, json.loads(receive()))

        return call

    wire = ValueCodec(stand_in)
    module = sys.modules[SOLUTION] = types.ModuleType(SOLUTION)
    exec(compile(source, SOLUTION, "exec"), module.__dict__)
    while True:
        asked = json.loads(receive())
        said = _answer_one(wire, module, asked)
        send(json.dumps(said).encode())


def _answer_one(
    wire: ValueCodec, module: types.ModuleType, asked: dict[str, Any]
) -> dict[str, Any]:
    arguments, named = wire.read(asked["arguments"]), wire.read(asked["named"])
    try:
        said = {"value": wire.write(_do(wire, module, asked["do"], asked["on"], arguments, named))}
    except Exception as error:
        said = {"raised": _raised(error)}
    after = [wire.write(each) for each in arguments]
    changed = [[i, new] for i, new in enumerate(after) if new != asked["arguments"][i]]
    return said | ({"changed": changed} if asked["do"] == "call" and changed else {})


def _do(
    wire: ValueCodec, module: types.ModuleType, do: str, on: Any, arguments: list[Any], named: Any
) -> Any:
    if do == "name":
        return [[vars(module)[name]] if name in vars(module) else [] for name in arguments]
    value = wire.read(on)
    if do == "call":
        return value(*arguments, **named)
    if do == "set":
        return setattr(value, *arguments)
    if do == "items":
        found = []
        for each in value:
            found.append(each)
            if len(found) > MOST_ITEMS:
                raise OverflowError(f"more than {MOST_ITEMS} items")
        return found
    if do == "item":
        return value[arguments[0]]
    return len(value) if do == "len" else getattr(value, arguments[0])


def _raised(error: Exception) -> list[str]:
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return [kind.__name__, str(error)[:SAID_CHARS]]


def _outcome(wire: ValueCodec, said: dict[str, Any]) -> Any:
    if "raised" not in said:
        return wire.read(said["value"])
    name, text = said["raised"]
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or kind in SILENT:
        raise RuntimeError(text)
    try:
        error = kind(text)
    except TypeError:  # an exception whose constructor needs more than a text
        raise RuntimeError(text) from None
    raise error


# The tests' side


class SolutionClient:
    """Sends requests to the solution's process on behalf of the tests."""

    def __init__(self, send: Send, receive: Receive) -> None:
        self._send, self._receive = send, receive
        self._handles: dict[int, Handle] = {}
        self._named: set[Handle] = set()
        self.wire = ValueCodec(
            lambda number: self._handles.setdefault(number, Handle(self.ask, number))
        )

    def ask(self, do: str, on: Any, arguments: Any, named: Any = None) -> Any:
        """Send a request and return its result; also applies changes to the arguments.

        Raises Unsupported only for calls by the tests' own names: elsewhere another object can be
        the solution's choice.
        """
        try:
            written, by_name = self._written(list(arguments)), self._written(named or {})
        except Unsupported as error:
            if on in self._named:
                raise
            raise TypeError(str(error)) from None
        said = {"do": do, "on": self.wire.write(on), "arguments": written, "named": by_name}
        answer = self._exchange(said)
        while "back" in answer:
            function = self.wire.kept[answer["back"]]
            try:
                value = function(*self.wire.read(answer["arguments"]))
                outcome = {"value": self.wire.write(value)}
            except Exception as error:
                outcome = {"raised": _raised(error)}
            answer = self._exchange(outcome)
        for place, changed in answer.get("changed", ()) if do == "call" else ():
            old, new = arguments[place], self.wire.read(changed)
            if type(old) is list and type(new) is list:
                old[:] = new
            elif type(old) in (dict, set) and type(new) is type(old):
                old.clear()
                old.update(new)
        return _outcome(self.wire, answer)

    def names(self, wanted: list[str]) -> dict[str, Any]:
        """The names among the given that the solution defines, with their values."""
        found = self.ask("name", None, wanted)
        values = {name: each[0] for name, each in zip(wanted, found, strict=True) if each}
        for name, value in values.items():
            if isinstance(value, Handle):  # another one than answers refer to
                values[name] = Handle(self.ask, vars(value)["_number"])
                self._named.add(values[name])
        return values

    def last_word(self, said: dict[str, Any]) -> None:
        self._send(b"!" + json.dumps(said).encode())

    def _exchange(self, said: dict[str, Any]) -> dict[str, Any]:
        self._send(b"?" + json.dumps(said).encode())
        answer: dict[str, Any] = json.loads(self._receive())
        return answer

    def _written(self, value: Any) -> Any:
        kept = len(self.wire.kept)
        written = self.wire.write(value)
        for mine in self.wire.kept[kept:]:
            if not callable(mine) or isinstance(mine, type):
                raise Unsupported(f"an argument of type {type(mine).__name__} cannot be passed")
        return written


def run_tests(
    prelude: str, tests: str, entry_point: str | None, send: Send, receive: Receive
) -> None:
    """Run tests against the other process and send the verdict; they may use `prelude`."""
    asker = SolutionClient(send, receive)
    module = sys.modules[TESTS] = types.ModuleType(TESTS)
    names = module.__dict__
    try:
        exec(compile(prelude, "prompt", "exec"), names)
        code = compile(tests, TESTS, "exec")
    except Exception as error:
        asker.last_word({"broken": f"{type(error).__name__}: {error}"[:SAID_CHARS]})
        return
    wanted = {*_names_in(code), *([entry_point] if entry_point else [])}
    # An entry point with a builtin's name (MBPP's `sum`) is the solution's all the same.
    free = sorted(wanted - set(names) - (set(vars(builtins)) - {entry_point}))
    for name in set(free) & sys.stdlib_module_names - {entry_point}:
        # a module name that the solution rebinds must not change for the tests
        names[name] = __import__(name)
    try:
        names.update(asker.names([name for name in free if name not in names]))
        exec(code, names)
        _run_suites(names)
    except Unsupported as error:
        asker.last_word({"broken": str(error)})
    except BaseException:
        import traceback

        asker.last_word({"passed": False, "output": traceback.format_exc()[-SAID_CHARS:]})
    else:
        asker.last_word({"passed": True})


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names_in(inner)


def _run_suites(names: dict[str, Any]) -> None:
    if "unittest" not in sys.modules:
        return
    import unittest

    cases = [
        each
        for each in names.values()
        if isinstance(each, type) and issubclass(each, unittest.TestCase)
    ]
    for case in cases:
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
        for _, trace in [*result.errors, *result.failures]:
            raise AssertionError(trace)
