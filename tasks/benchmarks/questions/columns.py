"""Columns that need code: functions of a row and column names that return a task's value, or None.

The files in ``sets/`` name these functions.
"""

import re
from typing import Any

from tutti.tasks.benchmarks.rows import Row

LARGEST = 999
_NUMBER_AT_END = re.compile(r"####\s*(-?[\d,]*\.?\d+)\.?\s*$")
"""The last line of a solution of GSM8K: "#### 1,234"."""


def joined(row: Row, *names: str) -> str:
    """Join the texts of a list."""
    return ", ".join(row.texts(*names))


def together(row: Row, *names: str) -> str:
    """Join the texts of several columns."""
    return "".join(row.text(name) for name in names)


def count(row: Row, *names: str) -> str:
    """The number of texts in a list."""
    return str(len(row.texts(*names)))


def unless_empty(row: Row, *names: str) -> str | None:
    """Return the text; None if it is missing or empty."""
    return row.text_or("", *names) or None


def links(row: Row, *names: str) -> list[str] | None:
    """Return a list of texts, or a Python literal of one; None if it is missing."""
    if row.name_of(*names) is None:
        return None
    found = row.literal(*names)
    if not isinstance(found, list) or not all(isinstance(link, str) for link in found):
        row.wrong(names, found, "a list of texts")
    return found


def small_number(row: Row, *names: str) -> str:
    """Normalise AIME's answers: "016" and 16 are both 16."""
    answer = row.name(*names).strip()
    if not answer.isascii() or not answer.isdigit() or int(answer) > LARGEST:
        row.bad(row.name_of(*names) or names[0], f"{answer!r} is not 0 to {LARGEST}")
    return str(int(answer))


def field(row: Row, *names: str) -> str:
    """Return the second part of Omni-MATH's ``Mathematics -> Algebra -> Equations``."""
    domain = next(iter(row.texts(*names)), "")
    return domain.split(" -> ")[min(1, domain.count(" -> "))]


def last_number(row: Row, *names: str) -> str:
    """Return GSM8K's answer: the number, or the number at the end of a solution."""
    if _is_number(given := row.value(*names)):
        return str(given)
    found = _NUMBER_AT_END.search(row.text(*names))
    if found is None:
        row.bad("answer", "does not end in '#### <number>'")
    return found[1].replace(",", "")


def solution(row: Row, *names: str) -> str:
    """Return GSM8K's solution: the answer, or the solution beside a numeric answer."""
    is_beside = _is_number(row.value(*names))
    return row.text_or("", "solution") if is_beside else row.text(*names)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def first_kind(row: Row, *names: str) -> str:
    """Return IFEval's group of the first instruction."""
    return row.texts(*names)[0].split(":")[0]


def instruction_arguments(row: Row, *names: str) -> list[dict[str, Any]]:
    """Return IFEval's arguments, one object for each instruction, without null ones: some copies of
    the data fill in every name that any instruction has."""
    kinds, arguments = row.texts("instruction_id_list"), row.objects(*names)
    if not kinds or len(kinds) != len(arguments):
        row.bad(names[0], f"{len(arguments)} for {len(kinds)} instructions")
    return [{k: v for k, v in one.data.items() if v is not None} for one in arguments]


def in_metadata(row: Row, name: str) -> str | None:
    """Return SimpleQA's column in its metadata; None without metadata."""
    return _metadata(row).text(name) if row.name_of("metadata") else None


def beside_metadata(row: Row, name: str) -> str | None:
    """Return SimpleQA's column of a table without metadata."""
    return None if row.name_of("metadata") else row.text_or("", name) or None


def answer_type(row: Row, name: str) -> str | None:
    """Return SimpleQA's type of answer, in its metadata or beside the question."""
    return in_metadata(row, name) or beside_metadata(row, name)


def _metadata(row: Row) -> Row:
    found = row.literal("metadata")
    if not isinstance(found, dict):
        row.wrong(("metadata",), found, "an object")
    return row.inner("metadata", found)
