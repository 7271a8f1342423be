"""MBPP: small Python programs from a sentence and some assertions; by default the sanitised set."""

import builtins
import re
from collections.abc import Iterator

from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task


def read(files: Files) -> Iterator[Task]:
    """Yield one task per row with ``task_id``, ``prompt`` (``text`` in the full set), ``code``,
    ``test_list`` and ``test_imports`` (``test_setup_code`` in the full set)."""
    for row in files.rows():
        tests = row.texts("test_list")
        if not tests:
            row.bad("test_list", "is empty")
        before = list(row.texts_or("test_imports"))
        before.append(row.text_or("", "test_setup_code"))
        yield Task(
            key=row.name("task_id"),
            inputs={"question": row.text("prompt", "text"), "tests": "\n".join(tests)},
            target={
                "tests": "\n".join([*(line for line in before if line), *tests]) + "\n",
                "answer": row.text("code"),
                **_entry_point(row.text("code"), tests[0]),
            },
        )


def _entry_point(code: str, test: str) -> dict[str, str]:
    """Return the requested function if it has a builtin's name (Mbpp/126: ``sum``), because the
    scorer's tests would otherwise call Python's."""
    called = re.match(r"assert (\w+)\(", test)
    if called is None or not hasattr(builtins, called[1]):
        return {}
    return {"entry_point": called[1]} if re.search(rf"^def {called[1]}\b", code, re.M) else {}
