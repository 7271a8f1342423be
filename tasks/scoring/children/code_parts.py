"""Inside the sandbox: the part of a reply that BigCodeBench's program runs (its `sanitize`), and
whether that part reaches for the tests that run beside it.

The source of this module is passed as text to a process that runs no solution. The rules are those
of ``bigcodebench`` 0.2.5, with Python's own parser: the longest run of lines that is Python; of it
the imports, and the functions, classes and assignments that the entry point uses. It drops
decorated definitions and ``from __future__``. Standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import ast
import builtins
import codeop
import warnings
from bisect import bisect_left, bisect_right
from itertools import accumulate, product

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

INCOMPLETE = getattr(codeop, "PyCF_ALLOW_INCOMPLETE_INPUT", 0)  # Python 3.11 or later
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
UNREADABLE = (SyntaxError, ValueError, MemoryError, RecursionError)
_REACHING = frozenset(
    "unittest SkipTest MagicMock TestCases __test__ __builtins__ __subclasses__ cell_contents"
    " co_consts f_back f_locals f_globals tb_frame gi_frame cr_frame ag_frame _getframe"
    " _current_frames _current_exceptions currentframe getouterframes getinnerframes walk_stack"
    " walk_tb settrace setprofile".split()
)
"""The test framework, and ways to the frames and values of the program that runs the tests."""
_MODULES = frozenset(["atexit", "bdb", "builtins", "gc", "mock", "pdb"])
_POSING = frozenset(["__class__", "__getattribute__", "__instancecheck__", "__subclasscheck__"])
"""Methods by which a class passes for another one."""


def kept_code(text: str, entry_point: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _kept_parts(longest_code(text.strip()), entry_point) or longest_code(text)


def longest_code(text: str) -> str:
    """The first of the longest runs of lines, two or more, that is Python; else the first line."""
    lines = text.split("\n")
    filled = [0, *accumulate(bool(line.strip()) for line in lines)]  # lines with text before each
    # Code cannot begin with an indented statement.
    starts = [
        place
        for place, line in enumerate(lines)
        if line[:1] not in (" ", "\t") or line.strip()[:1] in ("", "#", "\\", "\f")
    ]
    ends = {start: _last_end(lines, start) for start in starts}
    for count, start in product(range(filled[-1], 0, -1), starts):
        first = max(start + 2, bisect_left(filled, filled[start] + count))
        last = min(ends[start], bisect_right(filled, filled[start] + count) - 1)
        codes = ("\n".join(lines[start:end]) for end in range(first, last + 1))
        code = next(filter(is_python, codes), None)
        if code is not None:
            return code
    return lines[0]


def is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except UNREADABLE:
        return False
    return True


def _last_end(lines: list[str], start: int) -> int:
    """A line after which no run from `start` is Python, as the parser failed before its end."""
    length = 1
    while INCOMPLETE and start + length < len(lines):
        code = "\n".join(lines[start : start + length]) + "\n"
        try:
            compile(code, "reply", "exec", ast.PyCF_ONLY_AST | INCOMPLETE, dont_inherit=True)
        except SyntaxError as error:
            if "incomplete input" not in str(error):
                return start + length
        except UNREADABLE:
            return len(lines)
        length *= 2
    return len(lines)


def _kept_parts(code: str, entry_point: str) -> str:
    if not is_python(code):
        return ""
    imports: list[str] = []
    definitions: dict[str, tuple[ast.stmt, str]] = {}
    for part in ast.parse(code).body:
        source = ast.get_source_segment(code, part) or ""
        if isinstance(part, ast.Import) or (
            isinstance(part, ast.ImportFrom) and part.module != "__future__"
        ):
            imports.append(source)
        name = _defined(part)
        if name is not None:
            definitions.setdefault(name, (part, source))
    uses = {name: set(_identifiers(part)) for name, (part, _) in definitions.items()}
    waiting, reached = [entry_point], {entry_point}
    while waiting:
        new = uses.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    kept = [source for name, (_, source) in definitions.items() if name in reached]
    return _without_calls("\n".join([*imports, *kept]), entry_point).strip()


def _defined(part: ast.stmt) -> str | None:
    """The name that a statement defines. Like the published rule, it uses c for ``a.b = c``."""
    if isinstance(part, _DEFINITIONS):
        return None if part.decorator_list else part.name
    if isinstance(part, ast.Assign):
        named = [part.targets[0], *([] if part.targets[1:] else [part.value])]
    elif isinstance(part, ast.AnnAssign):
        named = [part.target, *([part.value] if part.value else [])]
    else:
        return None
    return next((each.id for each in named if isinstance(each, ast.Name)), None)


def _identifiers(part: ast.AST) -> Iterator[str]:
    """All identifiers in a statement: names, attributes, parameters, keywords."""
    nodes = (node for node in ast.walk(part) if not isinstance(node, ast.Constant))
    values = (value for node in nodes for _, value in ast.iter_fields(node))
    for value in values:
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                yield from each.split(".")


def _without_calls(code: str, entry_point: str) -> str:
    """`code` up to the first of the last lines without indentation that name the entry point."""
    lines = code.splitlines()
    cut = len(lines)
    for place in range(len(lines) - 1, -1, -1):
        if lines[place].startswith(" "):
            break
        if entry_point in lines[place]:
            cut = place
    return "\n".join(lines[:cut])


def packages(code: str) -> set[str]:
    """Return the top-level packages that a program imports; none if it is not Python."""
    found: set[str] = set()
    for each in ast.walk(_tree(code)):
        if isinstance(each, ast.Import):
            found |= {alias.name.split(".")[0] for alias in each.names}
        elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
            found.add(each.module.split(".")[0])
    return found


def reach(code: str, before: str, tests: str) -> str:
    """Return the first name by which a solution reaches for its tests, "" if there is none.

    Names that the tests use also count: a builtin or an import of `before` that the tests use and
    the solution defines, and names that the tests import of ``unittest`` and the solution uses.
    Names composed at run time are not detected here.
    """
    ours, theirs = _tree(code), _tree(tests)
    bound, imported = _bound(ours), _imported(ours)
    used = {node.id for node in ast.walk(theirs) if isinstance(node, ast.Name)}
    own_builtins = used & {*vars(builtins)}
    own = own_builtins | used & {*_imported(_tree(before))}
    framework = {name for name, of in _imported(theirs).items() if of.startswith("unittest")}
    texts = {node.value for node in ast.walk(ours) if isinstance(node, ast.Constant)}
    plain = {text for text in texts if isinstance(text, str)}
    words = {*_identifiers(ours), *(word for text in plain for word in text.split("."))}
    loaded = {node.id for node in ast.walk(ours) if isinstance(node, ast.Name)} - bound
    found = words & _REACHING | (bound | plain) & _POSING | loaded & framework
    found |= {of for of in imported.values() if of.split(".")[0] in _MODULES}
    for part in ours.body:
        found |= ({part.name} if isinstance(part, _DEFINITIONS) else _bound(part)) & own
    found |= {name for name, of in imported.items() if of.split(".")[-1] != name} & own_builtins
    return min(found, default="")


def _tree(code: str) -> ast.Module:
    return ast.parse(code if is_python(code) else "")


def _imported(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for each in node.names:
                found[each.asname or each.name] = start + each.name
    return found


def _bound(part: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(part):
        if isinstance(node, _DEFINITIONS):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.arg, ast.keyword)) and node.arg:
            found.add(node.arg)
    return found
