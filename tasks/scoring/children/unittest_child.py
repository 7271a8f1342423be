"""Inside the sandbox: run a solution and its `unittest` cases in one process, and report each case.

The source of this module is passed to both sides of a dialogue as text. `ask_for_cases` runs apart
from the solution: it takes the code from the reply (`code_parts`) and looks for the libraries.
`answer_cases` runs the solution and the tests together, because such tests patch names of the
solution's module. It keeps its own references to what it needs, compares `unittest` and the
builtins with what they were, and learns the token of its report only after the last case. Standard
library only, Python 3.9 or later.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack
    from typing import Any

    Send = Callable[[bytes], None]
    Receive = Callable[[], bytes]

    def kept_code(text: str, entry_point: str) -> str: ...
    def packages(code: str) -> set[str]: ...


MODULE = "__test__"
SUITE = "TestCases"
MOCKED = ("open", "print", "input", "__import__", "_")
"""Builtins that tests replace, or that Python sets."""
ENVIRONMENT = {
    "TZ": "UTC",
    "HOME": ".",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
MOST_OUTPUT = 2000


def ask_for_cases(given: dict[str, Any], token: bytes, send: Send, receive: Receive) -> None:
    """Send the last word, JSON: ``missing`` (libraries), or ``code`` and the other side's
    ``report``. Needs the names of `code_parts` beside it.

    `given`: ``reply`` (text), ``before`` (what stands before its code), ``tests`` (Python),
    ``entry_point``, ``libraries`` (modules that the task needs), ``known`` (further ones that are
    never the solution's mistake).
    """
    import json

    code = kept_code(given["reply"], given["entry_point"])
    tasks = {*given["libraries"], *packages(given["before"]), *packages(given["tests"])}
    missing = _missing(tasks | (packages(code) & {*given["known"]}))
    if missing:
        send(b"!" + json.dumps({"missing": missing}).encode())
        return
    send(b"?" + f"{given['before']}{code}".encode("utf-8", "replace"))
    receive()
    send(b"?" + token)
    report = receive().decode("utf-8", "replace")
    send(b"!" + json.dumps({"code": code, "report": report}).encode())


def _missing(modules: set[str]) -> list[str]:
    import sys
    from importlib.util import find_spec

    return sorted(name for name in modules - {*sys.modules} if find_spec(name) is None)


def answer_cases(tests: str, send: Send, receive: Receive) -> None:
    """Run the solution that comes as the first message and its tests; report under the token that
    comes as the second: a line for each case, an empty line, the end of the last traceback."""
    import os
    import time

    process, own_process, leave = os.getpid(), os.getpid, os._exit
    os.environ.update(ENVIRONMENT, HOME=os.getcwd())
    time.tzset()
    lines, output = _run(receive().decode("utf-8", "replace"), tests)
    if own_process() != process:  # a fork by the solution, which came back
        leave(1)
    send(b"done")
    report = "\n".join(lines) + "\n\n" + output
    send(receive() + b"\n" + report.encode("utf-8", "replace"))


def _run(source: str, tests: str) -> tuple[list[str], str]:
    """The outcome of each case as "passed NAME", and the last error's end."""
    import builtins
    import os
    import sys
    import traceback
    import types
    import unittest

    shown = traceback.format_exc
    vars(builtins).update(exit=None, quit=None)  # as the publisher has them
    intact = _watch()
    recorder, lines, errors = _recorder(intact)
    load = unittest.TestLoader().loadTestsFromTestCase
    case = unittest.TestCase
    module = types.ModuleType(MODULE)
    names = vars(module)
    names.update({"__file__": f"{MODULE}.py", "sys": sys, "os": os, "environ": os.environ})
    try:
        with _streams():
            exec(compile(source, f"{MODULE}.py", "exec", dont_inherit=True), names)
            if not intact():
                return ["changed solution"], ""
            exec(compile(tests, f"{MODULE}_cases.py", "exec", dont_inherit=True), names)
            sys.modules[MODULE] = module
            if not intact() or not issubclass(names[SUITE], case):
                return ["changed tests"], ""
            load(names[SUITE]).run(recorder)
    except BaseException:
        return ["failed module"], shown()[-MOST_OUTPUT:]
    if not intact():
        lines.append("changed tests")
    return lines, errors[-1][-MOST_OUTPUT:] if errors else ""


def _streams() -> ExitStack:
    """Standard streams that keep what is written in memory, for tests that look there; reading from
    them is an OSError."""
    import contextlib
    import io
    import sys

    class Kept(io.StringIO):
        def read(self, *_: Any) -> str:
            raise OSError("cannot be read")

        readline = readlines = read  # type: ignore[assignment]

        def readable(self) -> bool:
            return False

    stream, stack = Kept(), contextlib.ExitStack()
    stack.enter_context(contextlib.redirect_stdout(stream))
    stack.enter_context(contextlib.redirect_stderr(stream))
    given, sys.stdin = sys.stdin, stream
    stack.callback(setattr, sys, "stdin", given)
    return stack


def _recorder(intact: Callable[[], bool]) -> tuple[Any, list[str], list[str]]:
    """A test result, the list of its lines and the list of its tracebacks."""
    import unittest

    lines: list[str] = []
    errors: list[str] = []
    note = lines.append
    failure, error = unittest.TestResult.addFailure, unittest.TestResult.addError

    class Recorder(unittest.TestResult):
        def addSuccess(self, test: Any) -> None:
            note(f"{'passed' if intact() else 'changed'} {test._testMethodName}")

        def addSkip(self, test: Any, reason: str) -> None:
            note(f"skipped {test._testMethodName}")

        def addExpectedFailure(self, test: Any, err: Any) -> None:
            note(f"passed {test._testMethodName}")

        def addUnexpectedSuccess(self, test: Any) -> None:
            note(f"passed {test._testMethodName}")

        def addFailure(self, test: Any, err: Any) -> None:
            note(f"failed {getattr(test, '_testMethodName', 'class')}")
            failure(self, test, err)
            errors.append(self.failures[-1][1])

        def addError(self, test: Any, err: Any) -> None:
            note(f"failed {getattr(test, '_testMethodName', 'class')}")
            error(self, test, err)
            errors.append(self.errors[-1][1])

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                self.addFailure(test, err)

    return Recorder(), lines, errors


def _watch() -> Callable[[], bool]:
    """A function that tells whether `unittest` and the builtins are what they are now."""
    import builtins
    import sys
    import unittest.mock as mock

    kept: list[tuple[Mapping[str, Any], str, Any]] = [
        (vars(builtins), name, value)
        for name, value in vars(builtins).items()
        if name not in MOCKED
    ]
    for key, module in list(sys.modules.items()):
        if not f"{key}.".startswith("unittest."):
            continue
        kept.append((sys.modules, key, module))
        for name, value in vars(module).items():
            if callable(value):  # `mock_open` fills variables when it is first called
                kept.append((vars(module), name, value))
            if isinstance(value, type) and value.__module__ == key:
                kept += [(vars(value), each, found) for each, found in vars(value).items()]

    def intact() -> bool:
        for where, name, value in kept:  # noqa: SIM110 - no builtin is used here: it could be the changed one
            if where.get(name) is not value:
                return False
        return True

    assert mock.__name__ in sys.modules
    return intact
