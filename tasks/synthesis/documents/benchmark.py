"""A set of questions about documents as a benchmark: the agent searches the index that it is of.

In: a folder with ``questions.jsonl``. Out: a `Benchmark` whose tasks are the questions of a split.
The scorer ``short_answer`` compares a number as a number and anything else as a short text.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tutti.tasks.benchmarks import Benchmark, BenchmarkError, Files, Task
from tutti.tasks.synthesis.documents.question import QUESTIONS, DocumentTask
from tutti.tasks.task_sets import SETTINGS

SPLITS = ("test", "validation", "train")


def has_questions(folder: Path) -> bool:
    """Whether a folder is of a set of questions about documents."""
    return (folder / QUESTIONS).is_file()


def searched_index(folder: Path) -> str | None:
    """The id of the index that the questions of a set are about; None for another folder."""
    file = folder / SETTINGS
    if not has_questions(folder) or not file.is_file():
        return None
    index_id: str = json.loads(file.read_text())["index_id"]
    return index_id


def document_benchmark(name: str, folder: Path, split: str | None = None) -> Benchmark:
    """The benchmark of the set in `folder`; `split` is ``test`` where it is not named."""
    return Benchmark(
        name=name,
        read=_Reader(folder, split or SPLITS[0]).read,
        splits={each: (QUESTIONS,) for each in SPLITS},
        scorer="short_answer",
        prompt="documents",
        licence="yours",
        own=folder,
        search_index=searched_index(folder),
        gold=_gold,
    )


def read_questions(folder: Path) -> Iterator[DocumentTask]:
    """The questions of a set, in their order. Raises BenchmarkError with file, line and field."""
    file = folder / QUESTIONS
    with file.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                row: dict[str, Any] = json.loads(line)
                row.pop("task_id", None)
                yield DocumentTask.model_validate(row)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"])
                raise BenchmarkError(f"{file}:{number}: {where}: {first['msg']}") from None
            except (ValueError, AttributeError) as error:
                raise BenchmarkError(f"{file}:{number}: no JSON object: {error}") from None


@dataclass(frozen=True)
class _Reader:
    folder: Path
    split: str

    def read(self, _: Files) -> Iterator[Task]:
        """The split's questions."""
        return (_task(each) for each in read_questions(self.folder) if each.split == self.split)


def _task(task: DocumentTask) -> Task:
    return Task(
        key=task.task_id,
        inputs={"question": task.question},
        target={"answer": task.answer},
        attributes={"kind": task.kind, "split": task.split, "source": task.source},
    )


def _gold(task: Task) -> str:
    return f"Answer: {task.target['answer']}"
