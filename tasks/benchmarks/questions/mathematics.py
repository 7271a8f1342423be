"""Sets of problems whose files need code: MathOdyssey and MGSM."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from tutti.tasks.benchmarks.errors import BadRow
from tutti.tasks.benchmarks.prepared import ANSWER as PREPARED
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import ExcludedRow, Task

_NUMBER = re.compile(r"-?[\d,]*\.?\d+")
_LAYOUT = re.compile(r"(?:\\\\|\\noindent|\\end\{problem\}|\s)+$")
"""What is left of the source's layout at the end of a field of MathOdyssey."""
_WORD = re.compile(r"[A-Za-z]{2,}")


def read_math_odyssey(files: Files) -> Iterator[Task | ExcludedRow]:
    """Yield one task per row ``{"Problem_1": {…}}`` with ``question``, ``answer``, ``label`` and
    ``level``, or per row of NeMo-Skills'. A full stop and dollar signs around an answer are
    removed. A problem whose answer is a word ("Yes", 15 of 387) is excluded."""
    for number, row in enumerate(files.published(), 1):
        name, problem = str(number), row
        if row.name_of(PREPARED) is None:
            if len(row.data) != 1:
                row.bad("", f"has {len(row.data)} fields, not one problem")
            (name,) = row.data
            problem = row.object(name)
        answer = _LAYOUT.sub("", problem.text("answer")).rstrip(".").strip()
        if answer.startswith("$") and answer.endswith("$") and answer.count("$") == 2:
            answer = answer.strip("$").strip()
            answer = answer.rstrip(".").strip()
        if not answer:
            problem.bad("answer", "is empty")
        if _WORD.fullmatch(answer):
            yield ExcludedRow(name, "the answer is a word, which no program compares")
            continue
        yield Task(
            key=name.removeprefix("Problem_"),
            inputs={"question": _LAYOUT.sub("", problem.text("question"))},
            target={"answer": answer},
            attributes={"subject": problem.text("label"), "level": problem.text("level")},
        )


def read_mgsm(files: Files) -> Iterator[Task]:
    """Yield one task per line with question and answer, without a heading; its id is the language
    and the line."""
    for path in files.paths:
        try:
            yield from _of_language(path)
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadRow(path, None, "", f"not a table: {error}") from error


def _of_language(path: Path) -> Iterator[Task]:
    language = path.stem.removeprefix("mgsm_")
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        for number, row in enumerate(rows, 1):
            if len(row) != 2 or not row[0].strip():
                raise BadRow(path, number, "", f"{len(row)} fields, not question, answer")
            if _NUMBER.fullmatch(row[1].strip()) is None:
                raise BadRow(path, number, "answer", f"{row[1]!r} is no number")
            target = {"answer": row[1].strip().replace(",", "")}
            name = f"{language}-{number}"
            yield Task(name, {"question": row[0]}, target, {"language": language})
