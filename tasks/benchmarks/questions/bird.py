"""BIRD: questions in words to SQL over real SQLite databases.

The folder is the publisher's: ``dev.json`` beside ``dev_databases/<db>/<db>.sqlite``. Each task
carries its database's path and, in the prompt, its ``CREATE TABLE`` statements.

Scored by BIRD's EX; rules ``soft_f1``, ``r_ves`` (BIRD's too) and ``strict`` (ours: the order of
rows counts where the gold query has one).
"""

import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

FOLDERS = ("dev_databases", "train_databases", "databases")


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``db_id``, ``question``, ``evidence``, ``SQL`` and ``difficulty``."""
    for number, row in enumerate(files.rows()):
        database = _database(files.root, row)
        try:
            schema = _schema(database)
        except sqlite3.DatabaseError as error:
            row.bad("db_id", f"{database}: {error}")
        yield Task(
            key=row.name("question_id") if row.name_of("question_id") else str(number),
            inputs={
                "question": row.text("question"),
                "evidence": row.text_or("", "evidence"),
                "schema": schema,
            },
            target={
                "sql": row.text("SQL", "query", "sql"),
                "db_id": row.text("db_id"),
                "database": str(database),
            },
            attributes={
                "database": row.text("db_id"),
                "difficulty": row.text_or("", "difficulty"),
            },
        )


def gold(task: Task) -> str:
    """The gold query."""
    return str(task.target["sql"])


def _database(root: Path, row: Row) -> Path:
    name = row.text("db_id")
    if "/" in name or name.startswith("."):
        row.bad("db_id", f"{name!r} is no name of a database")
    for folder in FOLDERS:
        path = root / folder / name / f"{name}.sqlite"
        if path.is_file():
            return path.resolve()
    row.bad("db_id", f"no {name}/{name}.sqlite in {root} under {', '.join(FOLDERS)}")


@cache
def _schema(database: Path) -> str:
    """The database's CREATE TABLE statements."""
    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        rows = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL ORDER BY rowid"
        ).fetchall()
    finally:
        connection.close()
    return "\n\n".join(sql for (sql,) in rows)


BIRD = Benchmark(
    name="bird",
    read=read,
    splits={"dev": ("dev.json", "mini_dev_sqlite.json"), "train": ("train.json",)},
    scorer="bird_ex",
    rules={"soft_f1": "bird_soft_f1", "r_ves": "bird_r_ves", "strict": "sql"},
    subsets="difficulty",
    prompt="sql",
    gold=gold,
    licence="CC BY-SA 4.0; Li et al. 2023, arXiv 2305.03111",
)
