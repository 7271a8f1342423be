"""Inside the sandbox: run a solution and its `unittest` cases in one process, and report each case.

The source of this module is passed to both sides of a dialogue as text. `ask_for_cases` runs
separately from the solution. `answer_cases` runs the solution and the tests together, because such
tests patch names of the solution's module. It keeps its own references to what it needs, compares
`unittest`, the builtins and the names that the tests use with their first values, hides its frames,
and receives the second half of its report's token only after the last case. Standard library only,
Python 3.9 or later.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack
    from typing import Any

    Send = Callable[[bytes], None]
    Receive = Callable[[], bytes]
    Kept = list[tuple[Mapping[str, Any], str, Any]]

    def kept_code(text: str, entry_point: str) -> str: ...
    def packages(code: str) -> set[str]: ...
    def reach(code: str, before: str, tests: str) -> str: ...


MODULE = "__test__"
SUITE = "TestCases"
HIDDEN = frozenset(
    "sys._getframe sys._current_frames sys._current_exceptions sys.settrace sys.setprofile"
    " gc.get_objects gc.get_referrers gc.get_referents".split()
)
"""Python's audit events by which a program finds frames and objects that it was not given."""
FRAMES = frozenset(["tb_frame", "gi_frame", "cr_frame", "ag_frame"])
PATCHING = frozenset(["patch", "object", "dict", "multiple", "setattr", "delattr"])
ENVIRONMENT = {
    "TZ": "UTC",
    "HOME": ".",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
MOST_OUTPUT = 2000
HALF = 32  # how much of the token comes before the solution is run


def ask_for_cases(given: dict[str, Any], token: bytes, send: Send, receive: Receive) -> None:
    """Extract the code from the reply, and send the final message as JSON: ``missing`` (libraries),
    ``code`` and ``reaches`` (the name for which it is refused), or ``code`` and the other side's
    ``report``. Needs the names of `code_parts`.

    `given`: ``reply``, ``before`` (the text before its code), ``tests``, ``entry_point``,
    ``modules`` (those that the task needs; a module that only the solution imports is its own
    mistake).
    """
    import json
    import sys
    from importlib.util import find_spec

    code = kept_code(given["reply"], given["entry_point"])
    missing = sorted(n for n in set(given["modules"]) - {*sys.modules} if find_spec(n) is None)
    if missing:
        send(b"!" + json.dumps({"missing": missing}).encode())
        return
    found = reach(code, given["before"], given["tests"])
    if found:
        send(b"!" + json.dumps({"code": code, "reaches": found}).encode())
        return
    send(b"?" + token[:HALF] + f"{given['before']}{code}".encode("utf-8", "replace"))
    receive()
    send(b"?" + token[HALF:])
    report = receive().decode("utf-8", "replace")
    send(b"!" + json.dumps({"code": code, "report": report}).encode())


def answer_cases(before: str, tests: str, send: Send, receive: Receive) -> None:
    """Run the first message's solution and its tests, and report under the whole token:

    a line for each case, an empty line, the end of the last traceback.
    """
    import os
    import time

    process, own_process, leave = os.getpid(), os.getpid, os._exit
    os.environ.update(ENVIRONMENT, HOME=os.getcwd())
    time.tzset()
    given = receive()
    token, source = given[:HALF], given[HALF:].decode("utf-8", "replace")
    lines, output = _run(source, before, tests)
    if own_process() != process:  # a fork by the solution, which came back
        leave(1)
    send(b"done")
    report = "\n".join(lines) + "\n\n" + output
    send(token + receive() + b"\n" + report.encode("utf-8", "replace"))


def _run(source: str, before: str, tests: str) -> tuple[list[str], str]:
    import builtins
    import os
    import sys
    import traceback
    import types
    import unittest

    shown = traceback.format_exc
    vars(builtins).update(exit=None, quit=None)  # as the publisher has them
    module = types.ModuleType(MODULE)
    names = vars(module)
    names.update({"__file__": f"{MODULE}.py", "sys": sys, "os": os, "environ": os.environ})
    names["__builtins__"] = vars(builtins)
    kept: Kept = []
    intact = _watch(kept)
    recorder, lines, errors = _recorder(intact)
    load = unittest.TestLoader().loadTestsFromTestCase
    case = unittest.TestCase
    try:
        patched = _patched(tests)
        used = _used(tests) - patched
        kept += _given(patched) + _of_modules(before, tests, patched)
        with _streams():
            _hide()
            exec(compile(source, f"{MODULE}.py", "exec", dont_inherit=True), names)
            if not intact():
                return ["changed solution"], ""
            exec(compile(tests, f"{MODULE}_cases.py", "exec", dont_inherit=True), names)
            sys.modules[MODULE] = module
            kept += [(names, name, names.get(name)) for name in used]
            if not intact() or not issubclass(names[SUITE], case):
                return ["changed tests"], ""
            load(names[SUITE]).run(recorder)
    except BaseException:
        return ["failed module"], shown()[-MOST_OUTPUT:]
    if not intact():
        lines.append("changed tests")
    return lines, errors[-1][-MOST_OUTPUT:] if errors else ""


def _hide() -> None:
    """Deny the solution's own code its callers' frames and foreign objects, permanently."""
    import sys

    frame_of, hidden, frames, own = sys._getframe, HIDDEN, FRAMES, (f"{MODULE}.py", "<")
    looking, refusal = list[str](), PermissionError("not for a solution")

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in hidden and (event != "object.__getattr__" or args[1] not in frames):
            return
        if not looking:  # this function asks, too
            looking.append(event)
            name = frame_of(1).f_code.co_filename
            looking.clear()
            if name.startswith(own):
                raise refusal

    sys.addaudithook(hook)


def _streams() -> ExitStack:
    """Standard streams in memory, for tests that read them; reading from them is an OSError."""
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

        def addExpectedFailure(self, test: Any, err: Any = None) -> None:
            note(f"expected {test._testMethodName}")

        addUnexpectedSuccess = addExpectedFailure

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


def _watch(kept: Kept) -> Callable[[], bool]:
    """A function that checks whether each name still has its recorded value."""

    def intact() -> bool:
        for where, name, value in kept:  # noqa: SIM110 - no builtin is used here: it could be the changed one
            if where.get(name) is not value:
                return False
        return True

    return intact


def _patched(tests: str) -> set[str]:
    """Return names that the tests set or patch anywhere, which may therefore change."""
    import ast

    names = {"_", "stdin", "stdout", "stderr"}  # `_` is set by Python
    for node in ast.walk(ast.parse(tests)):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            names.add(node.attr)
        elif isinstance(node, ast.Call) and _path(node.func)[-1] in PATCHING:
            names |= {each.arg for each in node.keywords if each.arg}
            inner = [part for each in node.args for part in ast.walk(each)]
            texts = [part.value for part in inner if isinstance(part, ast.Constant)]
            names |= {name for text in texts for name in str(text).split(".")}
        elif isinstance(node, ast.Constant) and "." in str(node.value):
            names |= {*str(node.value).split(".")}
    return names


def _given(patched: set[str]) -> Kept:
    import builtins
    import sys
    import unittest.mock as mock

    kept: Kept = [
        (vars(builtins), name, value)
        for name, value in vars(builtins).items()
        if name not in patched
    ]
    assert mock.__name__ in sys.modules
    for key, module in list(sys.modules.items()):
        if not f"{key}.".startswith("unittest."):
            continue
        kept.append((sys.modules, key, module))
        for name, value in vars(module).items():
            if callable(value):  # `mock_open` fills variables when it is first called
                kept.append((vars(module), name, value))
            if isinstance(value, type) and value.__module__ == key:
                kept += [(vars(value), each, found) for each, found in vars(value).items()]
    return kept


def _of_modules(before: str, tests: str, patched: set[str]) -> Kept:
    import ast
    import sys
    import types

    known: dict[str, Any] = {}
    kept: Kept = []
    tree = ast.parse(tests)
    for node in [*ast.parse(before).body, *tree.body]:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            exec(compile(ast.Module([node], []), "imports", "exec", dont_inherit=True), known)
            of = node.module if isinstance(node, ast.ImportFrom) else ""
            names = [each.name for each in node.names]
            kept += [(sys.modules, each, sys.modules[each]) for each in ([of] if of else names)]
            where = vars(sys.modules[of]) if of else {}
            kept += [(where, each, where.get(each)) for each in names]
    for path in map(_path, ast.walk(tree)):
        value = known.get(path[0])
        for name in path[1:]:
            where = vars(value) if isinstance(value, types.ModuleType) else {}
            value = where.get(name)
            kept.append((where, name, value))
    found = (each for each in kept if each[0] is sys.modules or callable(each[2]))
    return [each for each in found if each[1] not in patched]


def _used(tests: str) -> set[str]:
    import ast

    nodes = list(ast.walk(ast.parse(tests)))
    functions = (
        each for each in nodes if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    used = {each.id for each in nodes if isinstance(each, ast.Name)} | {"__builtins__"}
    for node in [part for each in functions for part in ast.walk(each)]:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            used.discard(node.id)
        elif isinstance(node, ast.Global):
            used -= {*node.names}
        elif isinstance(node, ast.arg):
            used.discard(node.arg)
    return used


def _path(node: ast.AST) -> list[str]:
    """Return the names of ``a.b.c``; the first is "" for an expression other than a name."""
    import ast

    if isinstance(node, ast.Attribute):
        return [*_path(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]
