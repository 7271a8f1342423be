"""MBPP+: 378 small functions of MBPP with EvalPlus's inputs (release v0.2.0, ``MbppPlus.jsonl``).

A solution passes if it returns what the reference returns for all base and plus inputs, by the rule
of `comparison`, whose text is part of the tasks' ids. The time limit holds for all inputs.
"""

import inspect
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from tutti.tasks.benchmarks.evalplus import comparison
from tutti.tasks.benchmarks.rows import Row, read_rows
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

_PROMPT = re.compile(r'\s*"""\s*(.+?)\n(assert .+?)\s*"""\s*', re.DOTALL)
# In a namespace of its own: some entry points have names that the comparison uses (convert, sum).
_TESTS = 'exec({source!r}, {{"solution": {entry_point}, "case": {case!r}}})\n'


def read(files: Files) -> Iterator[Task]:
    """One task per row with ``task_id``, ``prompt`` (a docstring: a sentence and an assertion),
    ``canonical_solution``, ``entry_point``, ``base_input``, ``plus_input`` and ``atol``."""
    source = f"{inspect.getsource(comparison)}\ncompare(solution, case)\n"
    rows = (read_rows(path, infinity=True) for path in files.paths)  # Mbpp/404 has -Infinity
    for row in chain.from_iterable(rows):
        found = _PROMPT.fullmatch(row.text("prompt"))
        if found is None:
            row.bad("prompt", "is no docstring of a question and an assertion")
        case = _case(row)
        tests = _TESTS.format(source=source, entry_point=case["entry_point"], case=case)
        yield Task(
            key=row.text("task_id"),
            inputs={"question": found[1], "tests": found[2]},
            target={
                "tests": tests,
                "entry_point": case["entry_point"],
                "answer": row.text("canonical_solution"),
            },
        )


def _case(row: Row) -> dict[str, Any]:
    name = row.text("task_id")
    number = re.fullmatch(r"Mbpp/(\d+)", name)
    if number is None:
        row.bad("task_id", f"{name!r} is not Mbpp/ and a number")
    entry_point = row.text("entry_point")
    if not entry_point.isidentifier():
        row.bad("entry_point", f"{entry_point!r} is no name of a function")
    task = int(number[1])
    inputs = [*_inputs(row, "base_input", task), *_inputs(row, "plus_input", task)]
    if not inputs:
        row.bad("base_input", "is empty, and so is plus_input")
    return {
        "task": task,
        "inputs": json.dumps(inputs),
        "reference": row.text("canonical_solution"),
        "entry_point": entry_point,
        "tolerance": row.number("atol"),
    }


def _inputs(row: Row, field: str, task: int) -> list[Any]:
    """Return the inputs as JSON values. The release has ``{}`` for none (Mbpp/793)."""
    inputs = [] if row.json(field) == {} else row.array(field)
    for place, given in enumerate(inputs):
        if not isinstance(given, list):
            row.bad(f"{field}.{place}", f"{given!r} is not a list of arguments")
        try:
            comparison.converted(task, [given])
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            row.bad(f"{field}.{place}", f"has not the form of task {task}'s inputs: {error}")
    return inputs
