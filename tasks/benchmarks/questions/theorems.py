"""miniF2F, ProofNet and MOBench: theorems in Lean 4 to be proved.

Rows are in NeMo-Skills' form or as published. Without a header, the text before the theorem and its
comment is the header. A ``sorry`` at the end is removed; the statement ends with ``:= by``.
"""

import re
from collections import Counter
from collections.abc import Iterator

from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.scoring.lean import declaration
from tutti.tasks.task_sets import Task

_COMMENT = re.compile(r"/-[-!](?:(?!-/).)*-/\s*\Z", re.S)
_BY = re.compile(r":=\s*by\b")
_OPEN_END = re.compile(r"\s*:=\s*(?:by\b)?\s*(?:sorry)?\s*\Z")


def read(files: Files) -> Iterator[Task]:
    """Yield one task per row. A repeated name gets a number."""
    names: Counter[str] = Counter()
    for row in files.rows():
        header, statement = _parts(row)
        name = row.text("name")
        names[name] += 1
        informal = row.text_or("", "informal_prefix").strip()
        yield Task(
            key=name if names[name] == 1 else f"{name}#{names[name]}",
            inputs={
                "header": f"{header.strip()}\n\n",
                "informal": f"{informal}\n" if informal else "",
                "statement": statement,
            },
            target={"header": header, "statement": statement},
            attributes={"split": row.text_or("", "split")},
        )


def _parts(row: Row) -> tuple[str, str]:
    """The header, and the statement up to ``:= by`` with the definitions before its theorem."""
    text = row.text("formal_statement", "lean4_code")
    field = row.name_of("formal_statement", "lean4_code") or "formal_statement"
    header = row.text_or("", "header")
    theorem = declaration(text)
    if theorem is None:
        row.bad(field, "has no theorem")
    if not header:
        header = _COMMENT.sub("", text[: theorem.start()])
        text = text[theorem.start() :]
    return header, _up_to_by(text, row, field)


def _up_to_by(text: str, row: Row, field: str) -> str:
    theorem = declaration(text)
    assert theorem is not None, f"a statement without a theorem: {text!r}"
    start = theorem.start()
    by = _BY.search(text, start)
    if by is not None:
        return f"{text[: by.end()]}\n"
    end = _OPEN_END.search(text, start)
    if end is None:
        row.bad(field, "does not end with `:=`, `:= by` or `sorry`")
    return f"{text[: end.start()]} := by\n"
