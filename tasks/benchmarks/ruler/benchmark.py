"""RULER: questions about long texts, generated from rows of knobs.

Each item is the longest whose prompt, with the publisher's room for the response, has at most
`length` tokens of the row's tokenizer, or words without one. Values are not comparable with
published ones, because essays, qa_1, qa_2 and the beginning of the answer are left out.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from random import Random

from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.ruler.tasks import TASKS, Question, RulerTask
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

FIELDS = frozenset({"task", "length", "items", "seed", "tokenizer"})
LONGEST = 131_072  # the paper's longest; cwe has different words for no more
MOST_ITEMS = 10_000  # more is a typing error
TRIED_SIZES = 12  # lengths grow nearly in proportion to sizes: 3 to 5 suffice

Count = Callable[[str], int]
"""The length of a text."""


def count_words(text: str) -> int:
    """Words between white space."""
    return len(text.split())


def read(files: Files) -> Iterator[Task]:
    """`items` items per row. Raises BadRow."""
    for row in files.rows():
        if unknown := sorted(set(row.data) - FIELDS):
            row.bad(unknown[0], f"is unknown; there are {', '.join(sorted(FIELDS))}")
        name, length = row.text("task"), _whole(row, "length", 1, LONGEST)
        if name not in TASKS:
            row.bad("task", f"there is no task {name!r}; there are {', '.join(TASKS)}")
        seed, count = row.whole("seed"), _counter(row)
        unit = "tokens" if row.name_of("tokenizer") else "words"
        for number in range(_whole(row, "items", 1, MOST_ITEMS)):
            made = generate(TASKS[name], f"{seed}/{name}/{length}/{number}", length, count)
            if made is None:
                row.bad("length", f"{length} {unit} do not hold the shortest question of {name}")
            yield Task(
                key=f"{name}-{length}-{seed}-{number}",
                inputs={"question": made.text},
                target={"references": list(made.references), "match": "all"},
                attributes={"task": name, "length": str(length), "unit": unit},
            )


def generate(task: RulerTask, seed: str, length: int, count: Count) -> Question | None:
    """Return the longest question that, with the room for the response, has at most `length`. Sizes
    are estimated by the secant of the two last ones. None if the smallest does not fit."""
    best: Question | None = None
    fits, too_long = 0, task.largest + 1
    size, last = task.smallest, (0, 0)
    for _ in range(TRIED_SIZES):
        question = task.make(Random(seed), size, length)
        used = count(question.text) + task.room
        if used <= length:
            fits, best = size, question
        elif best is None:
            return None
        else:
            too_long = size
        grown = max((used - last[1]) / (size - last[0]), 0.01)
        last = (size, used)
        guess = 2 * size if size == task.smallest else size + int((length - used) // grown)
        size = min(max(guess, fits + 1), too_long - 1)
        if size <= fits:
            break
    return best


def _whole(row: Row, name: str, least: int, most: int) -> int:
    value = row.whole(name)
    if not least <= value <= most:
        row.bad(name, f"{value} is not between {least} and {most}")
    return value


def _counter(row: Row) -> Count:
    """The function that measures the row's lengths. Raises BadRow for an unusable tokenizer."""
    if row.name_of("tokenizer") is None:
        return count_words
    path = row.file.parent / row.text("tokenizer")
    try:
        library = importlib.import_module("tokenizers")
    except ImportError:
        row.bad(
            "tokenizer",
            f"the package tokenizers is not installed: `{sys.executable} -m pip install "
            "tokenizers`, or leave the field out to count words",
        )
    if not path.is_file():
        row.bad("tokenizer", f"{path} does not exist")
    try:
        tokenizer = library.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower one for a file that it cannot read
        row.bad("tokenizer", f"{path} is no tokenizer.json: {error}")
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def gold(task: Task) -> str:
    """All references."""
    return ", ".join(task.target["references"])
