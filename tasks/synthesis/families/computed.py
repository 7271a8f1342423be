"""Families whose answer is computed from lookups: searches, then Python."""

from collections.abc import Iterator, Sequence
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.families.by_document import MAX_PARAMETERS, DocumentFamily, Draft
from tutti.tasks.synthesis.families.lookups import default_in
from tutti.tasks.synthesis.families.task import (
    entry_lines,
    labelled,
    question_task,
    run_python,
    search_for,
)
from tutti.tasks.task_sets import Slots, Task

OPERATIONS = {"plus": "+", "minus": "-", "times": "*"}
LARGEST_DEFAULT = 100_000
SUM_QUESTIONS = (
    "How many parameters do {first} and {second} take together?",
    "Add the parameter counts of {first} and {second}.",
)


def _arithmetic(document: Document, rng: Random) -> Draft | None:
    parameters = document.parameters or ()
    choices = [p for p in parameters if _is_small_integer(p.default)]
    if not choices or len(parameters) > MAX_PARAMETERS:
        return None
    chosen, word, number = rng.choice(choices), rng.choice(sorted(OPERATIONS)), rng.randint(2, 99)
    value = int(str(chosen.default))
    results = {"plus": value + number, "minus": value - number, "times": value * number}
    slots = {"name": document.name, "parameter": chosen.name, "word": word, "number": str(number)}
    return slots, str(results[word])


def _is_small_integer(default: str | None) -> bool:
    digits = (default or "").removeprefix("-")
    return digits.isdecimal() and int(digits) <= LARGEST_DEFAULT


def _solve_arithmetic(slots: Slots) -> Oracle:
    result = yield search_for(slots["name"])
    default = default_in(entry_lines(result, slots["name"]), slots["parameter"])
    operator = OPERATIONS[slots["word"]]
    printed = yield run_python(f"print({default} {operator} {slots['number']})")
    return printed.strip()


ARITHMETIC = DocumentFamily(
    "arithmetic",
    (
        "What is the default of {parameter} in {name} {word} {number}?",
        "Compute the default of {parameter} in {name} {word} {number}.",
    ),
    _arithmetic,
    _solve_arithmetic,
    most=2,
)


class CountSum:
    """Sum of the parameter counts of two functions; the longest trajectory, with four calls."""

    name = "count_sum"

    def propose(self, documents: Sequence[Document], rng: Random) -> Iterator[Task]:
        """Random pairs of documents of the same split; half as many pairs as documents."""
        by_split: dict[str, list[Document]] = {}
        for document in documents:
            if document.parameters and len(document.parameters) <= MAX_PARAMETERS:
                by_split.setdefault(document.split, []).append(document)
        for split, members in sorted(by_split.items()):
            for _ in range(len(members) // 2):
                first, second = rng.sample(members, 2)
                total = len(first.parameters or ()) + len(second.parameters or ())
                slots = {"first": first.name, "second": second.name}
                question = rng.choice(SUM_QUESTIONS).format(**slots)
                sources = (first.name, second.name)
                yield question_task(self.name, question, str(total), slots, sources, split)

    def solve(self, slots: Slots) -> Oracle:
        """Search both documents, read their counts, and add them in Python."""
        counts = []
        for name in (slots["first"], slots["second"]):
            result = yield search_for(name)
            counts.append(labelled(entry_lines(result, name), "takes"))
        printed = yield run_python(f"print({' + '.join(counts)})")
        return printed.strip()
