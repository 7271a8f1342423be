"""Files of sets: tasks as lines of JSON, and parts of judged candidates.

A part is a folder that is complete or absent: a killed run resumes after the existing parts. Its
candidates become rows of `tasks` and `gate_verdicts`.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from tutti.errors import UsageError
from tutti.storage import now
from tutti.tasks.task_sets.gate import Judged
from tutti.tasks.task_sets.task import Task

TASKS = "tasks.jsonl"
"""The file of a set, or of each of its databases."""
TASK: TypeAdapter[Task] = TypeAdapter(Task)
T = TypeVar("T", bound=Task)
JUDGED = "judged.parquet"
ROW = pa.schema(
    [
        ("task", pa.string()),
        ("task_id", pa.string()),
        ("accepted", pa.bool_()),
        ("gates", pa.list_(pa.string())),
        ("measured", pa.list_(pa.float64())),
        ("reason", pa.string()),
    ]
)
"""A candidate: the task in JSON, and the gates that it was shown to, in order; the last one
rejected it unless it is accepted."""
Row = Mapping[str, Any]
"""A candidate by the columns of `ROW`, ``task`` as a task."""


def task_line(task: Task) -> str:
    """A task as a line of JSON, without defaults, and without its id, which follows from the
    rest."""
    return TASK.dump_json(task, exclude_defaults=True, exclude={"stored_id"}).decode()


def write_tasks(file: Path, tasks: Iterable[Task]) -> None:
    """Write a file of tasks; the same tasks give the same bytes."""
    with file.open("w") as out:
        out.writelines(task_line(each) + "\n" for each in tasks)


def read_tasks(file: Path, of: "TypeAdapter[T]") -> Iterator[T]:
    """Yield the tasks of a file. Raises UsageError with file, line, field and value."""
    with file.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield of.validate_json(line)
            except ValidationError as error:
                raise UsageError(f"{file}, line {number}: {first_error(error)}") from None


def first_error(error: ValidationError) -> str:
    """Return the first error: field, what is wrong with it, and its value."""
    one: dict[str, Any] = dict(error.errors()[0])
    where = ".".join(str(part) for part in one["loc"])
    return f"{where}: {one['msg']}, given {str(one['input'])[:80]!r}"


def write_part(
    folder: Path,
    judged: Iterable[Judged[Any]],
    write_files: Callable[[Path], None] = lambda folder: None,
) -> Path:
    """Write candidates and the files of `write_files`; return the folder."""
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    write_files(temporary)
    rows = [each.as_row() | {"task": task_line(each.task)} for each in judged]
    pq.write_table(pa.Table.from_pylist(rows, ROW), temporary / JUDGED)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    return folder


def is_judged(folder: Path) -> bool:
    """Whether the part exists."""
    return (folder / JUDGED).is_file()


def read_part(folder: Path, of: "TypeAdapter[Task]", most: int | None = None) -> Iterator[Row]:
    """Yield the first `most` candidates."""
    for row in pq.read_table(folder / JUDGED).slice(0, most).to_pylist():
        yield row | {"task": of.validate_json(row["task"])}


def read_verdicts(folder: Path) -> list[dict[str, Any]]:
    """Return the candidates without their tasks: ``task_id``, ``accepted``, ``gates``."""
    columns = ["task_id", "accepted", "gates"]
    found: list[dict[str, Any]] = pq.read_table(folder / JUDGED, columns=columns).to_pylist()
    return found


def task_row(row: Row, task_set_id: str) -> dict[str, Any]:
    """Return a row of `tasks`; its slots include the task's attributes."""
    task: Task = row["task"]
    is_accepted = row["accepted"]
    return {
        "task_set_id": task_set_id,
        "task_id": row["task_id"],
        "status": "accepted" if is_accepted else "rejected",
        "reason": "" if is_accepted else f"{row['gates'][-1]}: {row['reason']}",
        "gated_at": now(),
        "family": task.family,
        "template": task.template or None,
        "split": task.split,
        "question": task.question,
        "answer": task.answer,
        "slots": json.dumps({**task.slots, **task.attributes}, sort_keys=True),
        "sources": list(task.sources),
        "difficulty": json.dumps(task.difficulty, sort_keys=True),
    }


def verdict_rows(row: Row, gates: Sequence[str], task_set_id: str) -> Iterator[dict[str, Any]]:
    """Yield a row of `gate_verdicts` for each gate that judged a candidate. `gates`: all gates of
    the set, in order."""
    at, last = now(), len(row["gates"]) - 1
    for place, gate in enumerate(row["gates"]):
        passed = row["accepted"] or place < last
        yield {
            "task_set_id": task_set_id,
            "task_id": row["task_id"],
            "gate": gate,
            "position": gates.index(gate) + 1,
            "passed": passed,
            "reason": "" if passed else row["reason"],
            "measured": row["measured"][place],
            "gated_at": at,
        }
