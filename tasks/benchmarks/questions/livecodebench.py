"""LiveCodeBench's format: contest problems with public and hidden tests.

Hidden tests are a pickle of text inside zlib inside base64, read by an unpickler without classes
and functions, so that a file of unknown origin cannot run code here.
"""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Iterator
from typing import Any, NoReturn

from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

MAX_TESTS_BYTES = 2**29  # unpacked size; the largest problem has about a third of it
FUNCTION = "functional"
KINDS = ("stdin", FUNCTION)


class _OnlyText(pickle.Unpickler):
    """Unpickles text, numbers, lists and dicts; refuses any class or function."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in hidden tests")


def read(files: Files) -> Iterator[Task]:
    """Yield one task per row with ``question_id``, ``question_content``, ``starter_code``,
    ``public_test_cases``, ``private_test_cases``, ``metadata``, ``difficulty``, ``platform``,
    ``contest_date``."""
    for row in files.rows():
        cases = row.objects("public_test_cases") + _private(row)
        kinds = {case.text("testtype") for case in cases}
        if len(kinds) != 1 or not kinds <= set(KINDS):
            row.bad("public_test_cases", f"test types {sorted(kinds)}: need one of {KINDS}")
        target: dict[str, Any] = {}
        if FUNCTION in kinds:
            target["entry_point"] = row.object("metadata").text("func_name")
        target["cases"] = [
            {"input": case.text("input", empty=True), "output": case.text("output", empty=True)}
            for case in cases
        ]
        starter = row.text_or("", "starter_code")
        yield Task(
            key=row.name("question_id"),
            inputs={"question": row.text("question_content"), "starter": _shown(starter)},
            target=target,
            attributes={
                "difficulty": row.text("difficulty"),
                "platform": row.text("platform"),
                "month": str(row.value("contest_date"))[:7],
            },
        )


def _shown(starter: str) -> str:
    if starter.strip():
        return f"Begin with this and keep its names:\n\n```python\n{starter}\n```"
    return "Read the input from standard input and print the output."


def _private(row: Row) -> list[Row]:
    packed = row.text("private_test_cases")
    if packed.lstrip().startswith("["):
        return row.objects("private_test_cases")
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(packed, validate=True), MAX_TESTS_BYTES)
        if unpacker.unconsumed_tail:
            row.bad("private_test_cases", f"more than {MAX_TESTS_BYTES} bytes unpacked")
        found: Any = _OnlyText(io.BytesIO(raw)).load()
        inner = row.inner("", {"private_test_cases": json.loads(found)})
    except (binascii.Error, zlib.error, pickle.UnpicklingError, ValueError, TypeError) as error:
        row.bad("private_test_cases", f"cannot be unpacked: {error}")
    except (EOFError, IndexError, AttributeError, KeyError) as error:  # of a truncated pickle
        row.bad("private_test_cases", f"cannot be unpacked: {error!r}")
    return inner.objects("private_test_cases")
