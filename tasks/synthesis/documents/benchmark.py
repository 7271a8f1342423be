"""A set of questions about documents as a benchmark: the agent searches the set's index.

In: a folder with ``tasks.jsonl``. Out: a `Benchmark` whose tasks are the questions of a split.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from tutti.errors import UsageError
from tutti.tasks.benchmarks import Benchmark, BenchmarkError, Files
from tutti.tasks.synthesis.domains import SPEC, SPLITS
from tutti.tasks.task_sets import SETTINGS, TASK, TASKS, Task, read_tasks


def has_questions(folder: Path) -> bool:
    """Whether a folder is a set of questions about documents: tasks without a domain."""
    is_set = (folder / TASKS).is_file() and not (folder / SPEC).is_file()
    return (is_set and not (folder / SETTINGS).is_file()) or searched_index(folder) is not None


def searched_index(folder: Path) -> str | None:
    """Return the id of the index that the questions of a set are about; None for another folder."""
    file = folder / SETTINGS
    return json.loads(file.read_text()).get("index_id") if file.is_file() else None


def document_benchmark(name: str, folder: Path, split: str | None = None) -> Benchmark:
    """Return the benchmark of the set in `folder`; `split` is ``test`` by default."""
    return Benchmark(
        name=name,
        read=partial(_read, folder, split or SPLITS[0]),
        splits={each: (TASKS,) for each in SPLITS},
        scorer="short_answer",
        prompt="documents",
        licence="yours",
        own=folder,
        search_index=searched_index(folder),
        gold=lambda task: f"Answer: {task.target['answer']}",
    )


def _read(folder: Path, split: str, _: Files) -> Iterator[Task]:
    try:
        for number, task in enumerate(read_tasks(folder / TASKS, TASK), 1):
            needed = ("inputs", "question"), ("target", "answer"), ("slots", "source")
            lost = [f"{part}.{name}" for part, name in needed if name not in getattr(task, part)]
            if lost:
                where = f"{folder / TASKS}, line {number}"
                raise BenchmarkError(f"{where}: {lost[0]}: is missing")
            if task.split == split:
                own = {"kind": task.template, "split": split, "source": task.slots["source"]}
                yield replace(task, key=task.task_id, stored_id=task.task_id, attributes=own)
    except UsageError as error:
        raise BenchmarkError(str(error)) from None
