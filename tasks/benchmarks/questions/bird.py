"""BIRD's databases, as columns of ``sets/code/bird.yaml``: path and ``CREATE TABLE`` statements."""

import sqlite3
from functools import cache
from pathlib import Path

from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.task_sets import Task

FOLDERS = ("dev_databases", "train_databases", "databases")


def gold(task: Task) -> str:
    """The gold query."""
    return str(task.target["sql"])


def database(row: Row, column: str) -> str:
    """The path of the database that a column names, beside the row's file. Raises BadRow."""
    root, name = row.file.parent, row.text(column)
    if "/" in name or name.startswith("."):
        row.bad(column, f"{name!r} is no name of a database")
    for folder in FOLDERS:
        path = root / folder / name / f"{name}.sqlite"
        if path.is_file():
            return str(path.resolve())
    row.bad(column, f"no {name}/{name}.sqlite in {root} under {', '.join(FOLDERS)}")


def schema(row: Row, column: str) -> str:
    """The ``CREATE TABLE`` statements of the database that a column names. Raises BadRow."""
    path = database(row, column)
    try:
        return _schema(Path(path))
    except sqlite3.DatabaseError as error:
        row.bad(column, f"{path}: {error}")


@cache
def _schema(database: Path) -> str:
    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        rows = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL ORDER BY rowid"
        ).fetchall()
    finally:
        connection.close()
    return "\n\n".join(sql for (sql,) in rows)
