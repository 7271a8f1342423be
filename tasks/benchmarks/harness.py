"""Tasks of the user's own harness: a row has the task's ``id`` and optionally its ``question``.

``--where`` can select by other text fields of a row. The harness scores its own attempts.
"""

from collections.abc import Iterator

from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task


def read(files: Files) -> Iterator[Task]:
    """Read one task per row."""
    for row in files.rows():
        name = row.name("id")
        attributes = {
            key: value
            for key, value in row.data.items()
            if key not in ("id", "question") and isinstance(value, str)
        }
        yield Task(name, {"question": row.text_or(name, "question")}, {}, attributes)
