"""BFCL's categories that its package `bfcl-eval` itself must run: several turns, memory, Java and
JavaScript.

A task of a memory category is a scenario with all of its questions, because they share the memory
that its conversations filled. Web search and vector memory are not included.
"""

from collections import Counter
from collections.abc import Iterator

from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task


def read(files: Files) -> Iterator[Task]:
    """One task per question. Raises BadRow."""
    for row in files.rows():
        name = row.text("id")
        category = name.rpartition("_")[0]
        attributes = {"category": category, "turns": str(len(row.array("question")))}
        if row.name_of("involved_classes") is not None:
            attributes["classes"] = "+".join(sorted(row.texts("involved_classes")))
        yield Task(name, {"question": _asked(row)}, {}, attributes)


def read_scenarios(files: Files, category: str) -> Iterator[Task]:
    """One task per scenario of a memory. Raises BadRow."""
    rows = list(files.rows())
    for scenario, number in sorted(Counter(row.text("scenario") for row in rows).items()):
        question = f"{number} questions about what the user of scenario {scenario} said before."
        attributes = {"category": category, "questions": str(number)}
        yield Task(f"{category}_{scenario}", {"question": question}, {}, attributes)


def _asked(row: Row) -> str:
    first = row.array("question")[:1]
    if not first or not isinstance(first[0], list) or not first[0]:
        row.bad("question", "the first turn has no message")
    messages = row.inner("", {"question": first[0]}).objects("question")
    return messages[-1].text("content")
