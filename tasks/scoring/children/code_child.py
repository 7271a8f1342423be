"""Inside the sandbox: run a solution on one input and print a digest of its output.

The source of this module goes into the sandbox as text; outside, the same functions compute the
digest of the expected output, which a solution never sees. Standard library only.
"""

import hashlib
import io
import json
import os
import sys
import threading
import types
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from decimal import Decimal, InvalidOperation
from typing import Any

MODULE = "solution"
GIVEN = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools"
    " operator io sys json builtins typing"
)
"""Modules that LiveCodeBench's program imports for every solution, with all names of each."""
RECURSION = 50_000  # as LiveCodeBench's program sets it


def digest_of_output(text: str) -> str:
    """Digest of printed output, without white space at line ends and around it; 1.0 is 1."""
    lines = [" ".join(_plain(word) for word in line.split()) for line in text.strip().split("\n")]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()


def digest_of_value(value: Any) -> str:
    """Digest of a return value as JSON: a tuple is a list. TypeError if it is not JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _plain(word: str) -> str:
    if not any(character.isdigit() for character in word):
        return word
    try:
        number = Decimal(word)
    except InvalidOperation:
        return word
    if not number.is_finite() or abs(number.adjusted()) > 30:
        return word
    number = number.normalize()
    return format(number if number else Decimal(0), "f")


def _run_module(source: str, name: str) -> dict[str, Any]:
    # Dataclasses and others look up their module by name.
    module = sys.modules[name] = types.ModuleType(name)
    names = module.__dict__
    for form in ("from {} import *", "import {}"):
        exec("\n".join(map(form.format, GIVEN.split())), names)
    sys.setrecursionlimit(RECURSION)
    exec(compile(source, MODULE, "exec", dont_inherit=True), names)
    return names


def _give_input(text: str) -> None:
    reading, writing = os.pipe()

    def write_all() -> None:
        with suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:  # some read none of it
            pipe.write(text.encode("utf-8", "replace"))

    os.dup2(reading, 0)
    threading.Thread(target=write_all, daemon=True).start()
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)


def run_script(source: str, given: str) -> str:
    """Run a program with `given` as its standard input; return the digest of its output."""
    _give_input(given)
    output = io.BytesIO()
    printed = io.TextIOWrapper(output, "utf-8", "replace")
    with redirect_stdout(printed):
        try:
            _run_module(source, "__main__")
        except SystemExit as leaving:
            if leaving.code not in (None, 0):
                raise
    printed.flush()
    return digest_of_output(output.getvalue().decode("utf-8", "replace"))


def run_function(source: str, name: str, given: str) -> str:
    """Call the function, or the method of ``Solution``, with the JSON arguments in `given`, one per
    line."""
    arguments = [json.loads(line) for line in given.splitlines() if line.strip()]
    with redirect_stdout(io.StringIO()):
        names = _run_module(source, MODULE)
        function: Callable[..., Any] = (
            getattr(names["Solution"](), name) if "Solution" in names else names[name]
        )
        value = function(*arguments)
    return digest_of_value(value)
