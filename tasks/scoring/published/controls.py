"""Tests with wrong expectations: a right solution fails each `unittest` case's control.

A control is the case with its expectations changed: another literal, a value that equals nothing, a
negated condition, an exception that nothing raises. Each is in a subtest of its own, so that the
case continues and every one of them has to fail. A case without such a place gets an assertion that
fails at its end. A solution that forges its result (changed assertions, an object equal to
everything, a literal read from the test) passes the control too.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import Any

_NEVER = "GeneratorExit"  # an exception that nothing raises
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
    "assertIsNone": "({0}, 0)[1]",
    "assertIsNotNone": "({0}, None)[1]",
    "assertRaises": _NEVER,
    "assertRaisesRegex": _NEVER,
    "assertIsInstance": f"*({{0}}, {{1}}, {_NEVER})[::2]",
} | {
    f"assert{name}": f"*({{0}}, {{1}}, {values})[2:]"
    for name, values in (
        ("NotEqual", "0, 0"),
        ("NotAlmostEqual", "0, 0"),
        ("NotIn", "0, [0]"),
        ("Greater", "0, 1"),
        ("GreaterEqual", "0, 1"),
        ("Less", "1, 0"),
        ("LessEqual", "1, 0"),
        ("Regex", "'', 'x'"),
    )
}
"""New arguments of other assertions, by which they are evaluated but fail."""
_Edit = tuple[int, int, str]  # start and end in the text's bytes, and the new text


def controls(tests: str, cases: Collection[str], entry_point: str) -> tuple[str, dict[str, int]]:
    """The tests with the controls of `cases`, and how often each must fail; none for early ends."""
    text = _Text(tests)
    edits: list[_Edit] = []
    failures: dict[str, int] = {}
    without = set[str]()
    for suite in ast.walk(ast.parse(tests)):
        for case in suite.body if isinstance(suite, ast.ClassDef) else ():
            name = getattr(case, "name", "")
            nodes = [node for part in getattr(case, "body", ()) for node in _own(part)]
            ends_early = any(isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom)) for n in nodes)
            if name in cases and isinstance(case, ast.FunctionDef) and not ends_early:
                places = _Places(text, case, entry_point)
                edits += places.edits
                failures[name] = min(places.count, failures.get(name, places.count))
            elif name in cases:
                without.add(name)
    sure = {name: count for name, count in failures.items() if name not in without}
    return (text.changed(edits) if sure else tests), sure


def excuses(tests: str, cases: Collection[str]) -> dict[str, set[str]]:
    """The outcomes besides "passed" that each case's text announces: "skipped", "expected"."""
    found: dict[str, set[str]] = {case: set() for case in cases}
    for suite in (each for each in ast.walk(ast.parse(tests)) if isinstance(each, ast.ClassDef)):
        setting_up = [each for each in suite.body if getattr(each, "name", "")[:5] == "setUp"]
        for case in suite.body:
            words = {each.lower() for each in _names(case, *setting_up, *suite.decorator_list)}
            said = found.get(getattr(case, "name", ""), set())
            said |= {"skipped"} if any(each.startswith("skip") for each in words) else set()
            said |= {"expected"} if "expectedfailure" in words else set()
    return found


def _own(part: ast.AST) -> Iterator[ast.AST]:
    yield part
    if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        for each in ast.iter_child_nodes(part):
            yield from _own(each)


class _Text:
    """A program's text, indexed by the positions of its nodes."""

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
        """Return the white space before a statement, None if other text is there."""
        start = self._starts[node.lineno - 1]
        before = self._bytes[start : start + node.col_offset].decode("utf-8", "surrogatepass")
        return None if before.strip() else before

    def changed(self, edits: Collection[_Edit]) -> str:
        data = self._bytes
        for start, end, new in sorted(edits, reverse=True):
            data = data[:start] + new.encode("utf-8", "surrogatepass") + data[end:]
        return data.decode("utf-8", "surrogatepass")


class _Places:
    """The expectations of a case that are certainly reached, and their changes."""

    def __init__(self, text: _Text, case: ast.FunctionDef, entry_point: str) -> None:
        self._text, self._self = text, case.args.args[0].arg
        self._answers = {entry_point}  # names of values that come from the solution
        self.edits: list[_Edit] = []
        self.count = 0
        self._look(case.body)
        if not self.count:
            last, self.count = case.body[-1], 1
            indent = text.indent(last)
            end = text.place(last.end_lineno or 0, last.end_col_offset or 0)
            joint = "; " if indent is None else f"\n{indent}"
            self.edits.append((end, end, f"{joint}{self._self}.assertEqual(0, 1)"))

    def _look(self, body: Sequence[ast.stmt]) -> None:
        for part in body:
            if isinstance(part, ast.Assign) and self._answers & _names(part.value):
                stored = (node for target in part.targets for node in ast.walk(target))
                self._answers |= {node.id for node in stored if isinstance(node, ast.Name)}
            elif isinstance(part, ast.Expr):
                self._change(part, "with {}.subTest(): ", self._assertion(part.value))
            elif isinstance(part, ast.Assert):
                self._change(part, "with {}.subTest(): ", self._condition(part.test))
            elif isinstance(part, ast.Try) and not part.handlers:
                self._look([*part.body, *part.finalbody])
            elif isinstance(part, ast.With):
                calls = [item.context_expr for item in part.items]
                if not any("aises" in name or "suppress" in name for name in _names(*calls)):
                    self._look(part.body)
                elif len(calls) == 1 and not part.items[0].optional_vars:
                    self._change(calls[0], "{}.subTest(), ", self._assertion(calls[0]))

    def _change(self, part: ast.stmt | ast.expr, start: str, edit: _Edit | None) -> None:
        if edit is None or (isinstance(part, ast.stmt) and self._text.indent(part) is None):
            return
        place = self._text.place(part.lineno, part.col_offset)
        self.edits += [(place, place, start.format(self._self)), edit]
        self.count += 1

    def _assertion(self, call: ast.expr) -> _Edit | None:
        given = call.args if isinstance(call, ast.Call) else []
        if not given or any(isinstance(each, ast.Starred) for each in given):
            return None
        if "KeyboardInterrupt" in _names(*given):  # uncaught, it would end the whole run
            return None
        name = _called(call)
        if name in _CALLED:
            return self._never_equal(given[0])
        if name == "assertTrue":
            return self._condition(given[0])
        if name in _FAILING:
            count = 1 + ("{1}" in _FAILING[name])
            ours = given[:count]
            texts = [self._text.of(each) for each in ours]
            if len(ours) < count:
                return None
            return *self._text.span(ours[0], ours[-1]), _FAILING[name].format(*texts)
        return self._comparison(call)

    def _condition(self, test: ast.expr) -> _Edit:
        negated = (*self._text.span(test, test), f"not ({self._text.of(test)})")
        return self._comparison(test) or negated

    def _comparison(self, test: ast.expr) -> _Edit | None:
        """Change the side of a comparison that does not come from the solution."""
        exact = True
        if isinstance(test, ast.Compare) and [type(each) for each in test.ops] == [ast.Eq]:
            sides = [test.left, *test.comparators]
        elif isinstance(test, ast.Call) and _called(test) in _EXACT | _OTHERS:
            exact = _called(test) in _EXACT
            sides = test.args[:2]
        else:
            return None
        literals = [side for side in sides if _literal(side)]
        ours = [side for side in sides if not self._answers & _names(side)]
        wrong = [*literals, *reversed(ours), sides[-1]][0]
        found = _literal(wrong) if exact else []
        if not found:
            return self._never_equal(wrong)
        return *self._text.span(wrong, wrong), repr(_another(found[0]))

    def _never_equal(self, wrong: ast.expr) -> _Edit:
        """Return an edit that adds a value that equals nothing after the existing value."""
        return *self._text.span(wrong, wrong), f"({self._text.of(wrong)}, [object()])[1]"


def _called(call: ast.expr) -> str:
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
    try:
        return [ast.literal_eval(node)]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return []


def _another(value: Any) -> Any:
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
