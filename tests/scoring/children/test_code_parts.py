"""Tests of the code extracted from a reply: the longest Python in it, restricted to what its entry
point uses."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.scoring.children import code_parts
from tutti.tasks.scoring.children.code_parts import kept_code, longest_code, packages

LINES = (
    "",
    "Sure, here it is:",
    "```python",
    "```",
    "def f(x):",
    "    return x",
    "    # a comment",
    "x = [",
    "]",
    "y = '''",
    "'''",
    "if x:",
    "else:",
    "try:",
    "finally: pass",
    "z = \\",
    "  1",
    "@g",
    "Done",
    "f(1)",
)


def longest_by_trying_all(text: str) -> str:
    """Return the longest code by trying every pair of lines, as the published program does."""
    lines = text.split("\n")
    best, most = (0, 0), 0
    for first in range(len(lines)):
        for last in range(first + 1, len(lines)):
            try:
                ast.parse("\n".join(lines[first : last + 1]))
            except SyntaxError:
                continue
            filled = sum(bool(line.strip()) for line in lines[first : last + 1])
            if filled > most:
                best, most = (first, last), filled
    return "\n".join(lines[best[0] : best[1] + 1])


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=14))
def test_the_longest_code_is_that_of_trying_all(lines: list[str]) -> None:
    """The faster search never misses the longest run of lines."""
    text = "\n".join(lines)
    assert longest_code(text) == longest_by_trying_all(text)


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("def f(x):\n    return g(x)\n\ndef g(x):\n    return 1\n\ndef h():\n    return 2", "fg"),
        ("import os\nK = 3\ndef f(x):\n    return K + os.n\nprint(f(1))", "IKf"),
        ("from __future__ import annotations\nimport os\ndef f(x):\n    pass", "If"),
        ("@cache\ndef g():\n    pass\ndef f(x):\n    return g()", "f"),
        ("def f(x):\n    return 1\ndef f(x):\n    return 2", "f"),
        ("class A:\n    pass\ndef f(x):\n    return x.A", "Af"),
        ("a, b = 1, 2\nd['k'] = 1\nc: int = 3\ndef f(x):\n    return a, b, c, d", "cf"),
        ("k = v = 1\ndef f(x):\n    return k, v", "kf"),
        ("o.a = v\ndef f(x):\n    return v", "vf"),
        ("async def g():\n    pass\ndef f(x=g):\n    pass", "gf"),
    ],
)
def test_what_the_entry_point_uses(code: str, kept: str) -> None:
    """Imports come first; calls and definitions that it does not reach are removed."""
    tree = ast.parse(kept_code(f"Sure!\n```python\n{code}\n```", "f"))
    names = ""
    for part in tree.body:
        if isinstance(part, ast.Import):
            names += "I"
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names += part.name
        else:
            found = [each.id for each in ast.walk(part) if isinstance(each, ast.Name)]
            names += "".join(name for name in found if name in "abcdkKv")[:1]
    assert names == kept


def test_odd_rules_are_kept() -> None:
    """A one-line function at the end is removed with the calls; without any definition everything
    stays."""
    assert kept_code("import os\ndef f(x): return 1\n", "f") == "import os"
    assert kept_code("def f(x): return 1\nx = 2\n", "f") == "def f(x): return 1\nx = 2"
    assert kept_code("print(1)\nprint(2)", "f") == "print(1)\nprint(2)"
    assert kept_code("I cannot do this.", "f") == "I cannot do this."
    assert kept_code("", "f") == ""


def test_a_long_reply_is_read_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """For 300 lines of prose around 60 of code, few of the 65,000 pairs are tried."""
    tried: list[str] = []
    is_python = code_parts.is_python

    def counted(code: str) -> bool:
        tried.append(code)
        return is_python(code)

    monkeypatch.setattr(code_parts, "is_python", counted)
    code = "def f(x):\n" + "    x += 1\n" * 58 + "    return x"
    prose = "This is a line of prose, and more.\n" * 150
    assert kept_code(f"{prose}```python\n{code}\n```\n{prose}", "f") == code
    assert len(tried) < 3000


def test_packages() -> None:
    code = "import os.path, numpy as np\ndef f():\n    from pandas.io import x\nfrom . import y"
    assert packages(code) == {"os", "numpy", "pandas"} and packages("import (") == set()
