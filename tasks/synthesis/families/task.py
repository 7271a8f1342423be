"""Generated questions over documents: how a family proposes and solves them.

Its tasks have a question, a verified answer, and the documents that the answer depends on.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Protocol

from tutti.tasks.agents import Oracle, ToolUse
from tutti.tasks.retrieval import Document
from tutti.tasks.task_sets import Slots, Task


def question_task(
    family: str, question: str, answer: str, slots: Slots, sources: Sequence[str], split: str
) -> Task:
    """A generated task; `answer` is what a correct agent puts in the box, letter by letter."""
    return Task(
        inputs={"question": question},
        target={"answer": answer},
        family=family,
        split=split,
        sources=tuple(sources),
        slots=slots,
    )


class Family(Protocol):
    """One kind of question: how to propose it and how to solve it with the tools.

    Out: `propose` yields candidate tasks (gates decide later); `solve` is the oracle's policy.
    """

    name: str

    def propose(self, documents: Sequence[Document], rng: Random) -> Iterator[Task]:
        """Yield candidates over `documents`; all random draws use `rng`."""
        ...

    def solve(self, slots: Slots) -> Oracle:
        """Solve with the tools only. Raises LookupError if the results do not contain the
        answer."""
        ...


def search_for(query: str) -> ToolUse:
    """Return a use of the `search` tool."""
    return ToolUse("search", {"query": query})


def run_python(code: str) -> ToolUse:
    """Return a use of the `python` tool."""
    return ToolUse("python", {"code": code})


def entry_lines(result: str, name: str) -> list[str]:
    """Return the lines of the document called `name` (full or last part) in a search result.

    Raises LookupError if it is not among the hits.
    """
    for entry in result.split("\n\n"):
        lines = entry.splitlines()
        if lines and (lines[0] == name or lines[0].rsplit(".", 1)[-1] == name):
            return lines
    raise LookupError(f"search did not return {name!r}")


def labelled(lines: list[str], label: str) -> str:
    """The rest of the first line that starts with `label` and a space. Raises LookupError."""
    for line in lines:
        head, _, rest = line.partition(" ")
        if head == label and rest:
            return rest
    raise LookupError(f"no line starts with {label!r} in {lines[:1]}")
