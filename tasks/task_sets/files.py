"""Tasks as lines of JSON: the files of sets, which one can read and edit."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from tutti.errors import UsageError
from tutti.tasks.task_sets.task import Task

TASKS = "tasks.jsonl"
"""The file of a set, or of each of its databases."""
TASK: TypeAdapter[Task] = TypeAdapter(Task)
T = TypeVar("T", bound=Task)


def task_line(task: Task) -> str:
    """A task as a line: fields with their defaults are left out; its id follows from the others."""
    return TASK.dump_json(task, exclude_defaults=True, exclude={"stored_id"}).decode()


def write_tasks(file: Path, tasks: Iterable[Task]) -> None:
    """Write a file of tasks; the same tasks give the same bytes."""
    with file.open("w") as out:
        out.writelines(task_line(each) + "\n" for each in tasks)


def read_tasks(file: Path, of: "TypeAdapter[T]") -> Iterator[T]:
    """The tasks of a file one by one. Raises UsageError with file, line, field and value."""
    with file.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield of.validate_json(line)
            except ValidationError as error:
                raise UsageError(f"{file}, line {number}: {first_error(error)}") from None


def first_error(error: ValidationError) -> str:
    """The field, what is wrong with it, and its value."""
    one: dict[str, Any] = dict(error.errors()[0])
    where = ".".join(str(part) for part in one["loc"])
    return f"{where}: {one['msg']}, given {str(one['input'])[:80]!r}"
