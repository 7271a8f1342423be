"""BigCodeBench: functions that use libraries, by their unit tests (version v0.1.4).

The code before a solution is the task's ``code_prompt`` with the body ``pass``, which the publisher
calls calibrated.
"""

import ast
import re
from collections.abc import Iterator

from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.scoring.published import modules_of
from tutti.tasks.task_sets import Task

_BODY = "\n    pass\n"
_SUITE = "TestCases"


def read(files: Files, prompt: str) -> Iterator[Task]:
    """Yield one task per row with ``task_id``, `prompt`, ``complete_prompt``, ``code_prompt``,
    ``canonical_solution``, ``test``, ``entry_point`` and ``libs`` (a list, or its text)."""
    for row in files.rows():
        entry_point = row.text("entry_point")
        if not entry_point.isidentifier():
            row.bad("entry_point", f"{entry_point!r} is no name of a function")
        complete = row.text("complete_prompt")
        target = {
            "entry_point": entry_point,
            "before": row.text("code_prompt") + _BODY,
            "tests": row.text("test"),
            "cases": _cases(row),
            "libraries": _libraries(row),
            "answer": f"{complete}\n{row.text('canonical_solution')}",
        }
        modules = " ".join(sorted(modules_of(target)))
        yield Task(
            row.text("task_id"), {"question": row.text(prompt)}, target, {"modules": modules}
        )


def _cases(row: Row) -> list[str]:
    """Return the names of the tests of ``TestCases``, with those of its bases in the same text."""
    try:
        tree = ast.parse(row.text("test"))
    except (SyntaxError, ValueError) as error:
        row.bad("test", f"is no Python: {error}")
    inner = (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef))
    outer = (each for each in tree.body if isinstance(each, ast.ClassDef))
    classes = {each.name: each for each in (*inner, *outer)}
    waiting, found, seen = [_SUITE], set[str](), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in classes or name in seen:
            continue
        seen.add(name)
        defined = (each for each in classes[name].body if isinstance(each, _FUNCTIONS))
        found |= {each.name for each in defined if each.name.startswith("test")}
        waiting += [base.id for base in classes[name].bases if isinstance(base, ast.Name)]
    if not found:
        row.bad("test", f"has no class {_SUITE} with tests")
    return sorted(found)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _libraries(row: Row) -> list[str]:
    given = row.value("libs")
    try:
        listed = ast.literal_eval(given) if isinstance(given, str) else given
    except (SyntaxError, ValueError) as error:
        row.bad("libs", f"{given!r} is not the text of a list: {error}")
    if not isinstance(listed, list) or not all(
        isinstance(each, str) and re.fullmatch(r"[\w.]+", each) for each in listed
    ):
        row.wrong(("libs",), given, "a list of modules, or its text")
    return sorted({each.split(".")[0] for each in listed})
