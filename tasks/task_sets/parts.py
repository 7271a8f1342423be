"""A part of a set: candidates that the gates have judged, in a folder that is whole or not there.

A run that was killed goes on after the parts that it finds.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from tutti.tasks.task_sets.files import task_line
from tutti.tasks.task_sets.gate import Judged
from tutti.tasks.task_sets.task import Task

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


def write_part(
    folder: Path,
    judged: Iterable[Judged[Any]],
    write_files: Callable[[Path], None] = lambda folder: None,
) -> Path:
    """Write candidates, and what `write_files` adds; returns the folder."""
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
    """Whether the part is there."""
    return (folder / JUDGED).is_file()


def read_part(
    folder: Path, of: "TypeAdapter[Task]", most: int | None = None
) -> Iterator[dict[str, Any]]:
    """The first `most` candidates by the columns of `ROW`, ``task`` as a task."""
    for row in pq.read_table(folder / JUDGED).slice(0, most).to_pylist():
        yield row | {"task": of.validate_json(row["task"])}


def read_verdicts(folder: Path) -> list[dict[str, Any]]:
    """The candidates without their tasks: ``task_id``, ``accepted``, ``gates``."""
    columns = ["task_id", "accepted", "gates"]
    found: list[dict[str, Any]] = pq.read_table(folder / JUDGED, columns=columns).to_pylist()
    return found
