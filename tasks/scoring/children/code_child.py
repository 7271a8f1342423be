"""Inside the sandbox: run a solution on one input and print a digest of its output.

The source of this module goes into the sandbox as text; outside, `digest_of_output` and
`digest_of_value` make the digests of the expected output. So a solution never sees the expected
output, and producing it is the only way to pass. Standard library only.
"""

import hashlib
import io
import json
import sys
import types
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

MODULE = "solution"


def digest_of_output(text: str) -> str:
    """Digest of printed output: ignores white space at line ends and around the text, and reads 1.0
    as 1."""
    lines = [" ".join(_plain(word) for word in line.split()) for line in text.strip().split("\n")]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()


def digest_of_value(value: Any) -> str:
    """Digest of a function's return value as JSON: a tuple is a list. TypeError if it is not
    JSON."""
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


def _run_module(source: str) -> dict[str, Any]:
    # Dataclasses and others look up their module by name.
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    exec(compile(source, MODULE, "exec"), module.__dict__)
    return module.__dict__


def run_script(source: str, given: str) -> str:
    """Run a whole program with `given` as its standard input; returns the digest of its output."""
    printed = io.StringIO()
    sys.stdin, sys.stdout, kept = io.StringIO(given), printed, sys.stdout
    try:
        exec(compile(source, MODULE, "exec"), {"__name__": "__main__"})
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise
    finally:
        sys.stdin, sys.stdout = sys.__stdin__, kept
    return digest_of_output(printed.getvalue())


def run_function(source: str, name: str, given: str) -> str:
    """Call the function, or the method of ``Solution``, with one JSON argument per line of
    `given`."""
    names = _run_module(source)
    arguments = [json.loads(line) for line in given.splitlines() if line.strip()]
    function: Callable[..., Any] = (
        getattr(names["Solution"](), name) if "Solution" in names else names[name]
    )
    return digest_of_value(function(*arguments))
