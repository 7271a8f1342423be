"""Conversion of rows of NeMo-Skills' `prepare_data` (8b18f39) to their publishers' names.

Options of a question, which are in its text and as ``A``, ``B``, …, become a list and leave the
text. Other rows are unchanged.
"""

from dataclasses import replace
from string import ascii_uppercase
from typing import Any

from tutti.tasks.benchmarks.rows import Row

ANSWER = "expected_answer"
PUBLISHED = {
    "answer": (ANSWER,),
    "question": ("problem",),
    "prompt": ("messages",),
    "solution": ("reference_solution",),
    "subject": ("subtopic", "subcategory"),
    "category": ("subset_for_metrics",),
}


def as_published(row: Row) -> Row:
    """Return the row under its publisher's names. Raises BadRow if a text lacks its own options."""
    if row.name_of(ANSWER) is None:
        return row
    named = {name: row.name_of(*theirs) for name, theirs in PUBLISHED.items()}
    data: dict[str, Any] = {name: row.data[theirs] for name, theirs in named.items() if theirs}
    data |= row.data
    if isinstance(row.data.get("options"), str):
        options = [row.data[letter] for letter in ascii_uppercase if letter in row.data]
        question, shown, after = row.text("problem").rpartition(row.data["options"])
        if not shown or after:
            row.bad("problem", "does not end with the options")
        data |= {"question": question.rstrip("\n"), "options": options, "choices": options}
    return replace(row, data=data)
