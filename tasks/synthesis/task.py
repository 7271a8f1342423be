"""A task: a question, its verified answer, and the documents it is based on."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Protocol

from tutti.storage import artifact_id
from tutti.tasks.agents import Oracle, ToolUse
from tutti.tasks.retrieval import Document

Slots = dict[str, str]


@dataclass(frozen=True)
class Task:
    """One question with a verifiable answer."""

    family: str
    question: str
    answer: str
    """What a correct agent puts in the box, character for character."""
    slots: Slots
    """The subject of the question; the oracle agent solves the task from these, never from
    `answer`."""
    sources: tuple[str, ...]
    """Names of the documents the answer depends on."""
    split: str

    @property
    def task_id(self) -> str:
        """Content hash: the same question with the same answer is the same task."""
        return artifact_id("task", [self.family, self.question, self.answer])

    def as_row(self) -> dict[str, Any]:
        """Plain JSON-able form with its id; `Task.from_row` reads it back."""
        return {"task_id": self.task_id, **asdict(self)}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "Task":
        """The inverse of `as_row`. Raises KeyError for a missing field."""
        return cls(
            family=row["family"],
            question=row["question"],
            answer=row["answer"],
            slots=dict(row["slots"]),
            sources=tuple(row["sources"]),
            split=row["split"],
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
        """Solve with the tools alone. Raises LookupError if the results do not contain the
        answer."""
        ...


def search_for(query: str) -> ToolUse:
    """A use of the `search` tool."""
    return ToolUse("search", {"query": query})


def run_python(code: str) -> ToolUse:
    """A use of the `python` tool."""
    return ToolUse("python", {"code": code})


def entry_lines(result: str, name: str) -> list[str]:
    """The lines of the document called `name` (full or last part) in a search result.

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
