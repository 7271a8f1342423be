"""Tests with wrong expectations: what is right for a `unittest` case fails its control.

A control is the case with one expectation changed: another literal, a value that equals nothing, a
condition negated, an exception that nothing raises. A case without such a place gets an assertion
that fails at its end. What passes a case without being right (assertions that were changed, a
report that was made up, an object equal to everything, an expected value that was read from the
test) passes the control too. The rest of the text stays as it is, so that a program cannot tell a
case from its control without knowing the answer.
"""

import ast
import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any

_NOTHING, _NEVER = "[object()]", "GeneratorExit"
_EXACT = frozenset(
    "assertEqual assertEquals assertListEqual assertDictEqual assertTupleEqual assertSetEqual"
    " assertCountEqual assertSequenceEqual assertMultiLineEqual assertIs".split()
)
"""Comparisons of two values without a tolerance: another literal is a wrong one."""
_OTHERS = frozenset(
    "assertIn assertAlmostEqual assertAlmostEquals assert_frame_equal assert_series_equal"
    " assert_index_equal assert_array_equal assert_allclose assert_array_almost_equal"
    " assert_almost_equal assert_equal allclose isclose array_equal equals".split()
)
_CALLED = frozenset(f"assert_{name}" for name in ("called_with", "called_once_with", "any_call"))
_FAILING = {
    "assertTrue": "not ({0})",
    "assertFalse": "not ({0})",
    "assertIsNone": "0",
    "assertIsNotNone": "None",
    "assertRaises": _NEVER,
    "assertRaisesRegex": _NEVER,
    "assertIsInstance": "{0}, " + _NEVER,
    "assertNotEqual": "0, 0",
    "assertNotAlmostEqual": "0, 0",
    "assertNotIn": "0, [0]",
    "assertGreater": "0, 1",
    "assertGreaterEqual": "0, 1",
    "assertLess": "1, 0",
    "assertLessEqual": "1, 0",
    "assertRegex": "'', 'x'",
}
"""The first arguments of other assertions, for which they fail."""
_Edit = tuple[int, int, str]
"""Start and end in the text's bytes, and what stands there instead."""


def controls(tests: str, cases: Collection[str], entry_point: str) -> tuple[str, set[str]]:
    """The tests with the controls of `cases`, and the names of the cases that have one: those that
    are surely run to their end. Which expectation is changed is drawn at random."""
    text = _Text(tests)
    edits: dict[str, list[_Edit]] = {}
    without = set[str]()
    for suite in ast.walk(ast.parse(tests)):
        for case in suite.body if isinstance(suite, ast.ClassDef) else ():
            name = getattr(case, "name", "")
            if name in cases and isinstance(case, ast.FunctionDef) and _runs_to_its_end(case):
                places = _Places(text, case, entry_point)
                edits.setdefault(name, []).append(places.drawn())
            elif name in cases:
                without.add(name)
    wrong = edits.keys() - without
    return text.changed([edit for name in wrong for edit in edits[name]]), wrong


def excuses(tests: str, cases: Collection[str]) -> dict[str, set[str]]:
    """What each case may come to besides "passed", because its text says so: "skipped",
    "expected"."""
    found: dict[str, set[str]] = {case: set() for case in cases}
    for suite in ast.walk(ast.parse(tests)):
        if not isinstance(suite, ast.ClassDef):
            continue
        setting_up = [each for each in suite.body if getattr(each, "name", "")[:5] == "setUp"]
        for case in suite.body:
            words = _names(case, *setting_up, *suite.decorator_list)
            for outcome, word in (("skipped", "skip"), ("expected", "expectedFailure")):
                if any(each.lower().startswith(word.lower()) for each in words):
                    found.get(getattr(case, "name", ""), set()).add(outcome)
    return found


def _runs_to_its_end(case: ast.FunctionDef) -> bool:
    left = (ast.Return, ast.Yield, ast.YieldFrom)
    return not any(isinstance(node, left) for part in case.body for node in _own(part))


def _own(part: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement without those of functions and classes inside."""
    yield part
    if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        for each in ast.iter_child_nodes(part):
            yield from _own(each)


class _Text:
    """A program's text by the places of its nodes."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode("utf-8", "surrogatepass")
        lines = self._bytes.splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def place(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def span(self, first: ast.expr, last: ast.expr) -> tuple[int, int]:
        end = self.place(last.end_lineno or 0, last.end_col_offset or 0)
        return self.place(first.lineno, first.col_offset), end

    def of(self, node: ast.expr) -> str:
        start, end = self.span(node, node)
        return self._bytes[start:end].decode("utf-8", "surrogatepass")

    def indent(self, node: ast.stmt) -> str | None:
        """What stands before a statement, None if that is not white space."""
        start = self._starts[node.lineno - 1]
        before = self._bytes[start : start + node.col_offset].decode("utf-8", "surrogatepass")
        return None if before.strip() else before

    def changed(self, edits: Collection[_Edit]) -> str:
        data = self._bytes
        for start, end, new in sorted(edits, reverse=True):
            data = data[:start] + new.encode("utf-8", "surrogatepass") + data[end:]
        return data.decode("utf-8", "surrogatepass")


class _Places:
    """The expectations of a case that can be changed."""

    def __init__(self, text: _Text, case: ast.FunctionDef, entry_point: str) -> None:
        self._text, self._case = text, case
        self._answers = {entry_point}  # names of values that come from the solution
        self.compared: list[_Edit] = []
        self.other: list[_Edit] = []
        self._look(case.body)

    def drawn(self) -> _Edit:
        """One of them; a comparison if there is one, since that also finds false equality."""
        places = self.compared or self.other or [self._at_the_end()]
        return random.SystemRandom().choice(places)

    def _at_the_end(self) -> _Edit:
        last = self._case.body[-1]
        indent = self._text.indent(last)
        end = self._text.place(last.end_lineno or 0, last.end_col_offset or 0)
        joint = "; " if indent is None else f"\n{indent}"
        return end, end, f"{joint}{self._case.args.args[0].arg}.assertEqual(0, 1)"

    def _look(self, body: Sequence[ast.stmt]) -> None:
        """Look through the statements that are run whatever happens."""
        for part in body:
            if isinstance(part, ast.Assign) and self._answers & _names(part.value):
                stored = (node for target in part.targets for node in ast.walk(target))
                self._answers |= {node.id for node in stored if isinstance(node, ast.Name)}
            elif isinstance(part, ast.Expr):
                self._assertion(part.value)
            elif isinstance(part, ast.Assert):
                self._condition(part.test)
            elif isinstance(part, ast.Try) and not part.handlers:
                self._look([*part.body, *part.finalbody])
            elif isinstance(part, ast.With):
                calls = [item.context_expr for item in part.items]
                for call in calls:
                    self._assertion(call)
                if not any("aises" in name or "suppress" in name for name in _names(*calls)):
                    self._look(part.body)

    def _assertion(self, call: ast.expr) -> None:
        given = call.args if isinstance(call, ast.Call) else []
        if not given or any(isinstance(each, ast.Starred) for each in given):
            return
        name = _called(call)
        if name in _CALLED:
            self.compared.append((*self._text.span(given[0], given[0]), _NOTHING))
        elif name == "assertTrue":
            self._condition(given[0])
        elif not self._comparison(call) and name in _FAILING:
            new = _FAILING[name]
            last = given[min(new.count(","), len(given) - 1)]
            self.other.append(
                (*self._text.span(given[0], last), new.format(self._text.of(given[0])))
            )

    def _condition(self, test: ast.expr) -> None:
        if not self._comparison(test):
            self.other.append((*self._text.span(test, test), f"not ({self._text.of(test)})"))

    def _comparison(self, test: ast.expr) -> bool:
        """Change the side of a comparison that does not come from the solution; whether it is one
        that fails then."""
        exact = True
        if isinstance(test, ast.Compare) and [type(each) for each in test.ops] == [ast.Eq]:
            sides = [test.left, *test.comparators]
        elif isinstance(test, ast.Call) and _called(test) in _EXACT | _OTHERS:
            exact = _called(test) in _EXACT
            sides = test.args[:2]
        else:
            return False
        literals = [side for side in sides if _literal(side)]
        ours = [side for side in sides if not self._answers & _names(side)]
        wrong = [*literals, *reversed(ours), sides[-1]][0]
        found = _literal(wrong) if exact else []
        new = repr(_another(found[0])) if found else _NOTHING
        self.compared.append((*self._text.span(wrong, wrong), new))
        return True


def _called(call: ast.expr) -> str:
    """The name of the method that is called."""
    method = call.func if isinstance(call, ast.Call) else call
    return method.attr if isinstance(method, ast.Attribute) else ""


def _names(*nodes: ast.AST) -> set[str]:
    parts = (part for node in nodes for part in ast.walk(node))
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in parts
        if isinstance(part, (ast.Name, ast.Attribute))
    }


def _literal(node: ast.expr) -> list[Any]:
    """Its value in a list, empty if it is no literal."""
    try:
        return [ast.literal_eval(node)]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return []


def _another(value: Any) -> Any:
    """A value of the same type that is not equal."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        return value + 1 if value + 1 != value else -value
    if isinstance(value, str):
        return f"{value}."
    if isinstance(value, bytes):
        return value + b"."
    if isinstance(value, dict) and value:
        first = next(iter(value))
        return value | {first: _another(value[first])}
    if isinstance(value, (list, tuple, set)) and value:
        first, *rest = value
        return type(value)([_another(first), *rest])
    return 0
