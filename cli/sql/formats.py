"""The formats of `tutti sql`: text drawn as the rows come, and Parquet, which DuckDB writes itself.

In: a statement's rows. Out: pieces of text, or a file. Memory stays bounded.
"""

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from tutti.cli.failures import UsageError
from tutti.cli.sql.rows import Look, Rows, interruptible, text_of, to_json
from tutti.cli.sql.table import as_table

AS_IT_IS = {str, int, float, type(None)}  # what the csv module writes as we would, and faster


def as_csv(rows: Rows, look: Look) -> Iterator[str]:
    """CSV with a header; lists and structs as JSON, an empty field for NULL."""
    yield _csv_lines([rows.names])
    for batch in rows.batches():
        yield _csv_lines([[v if type(v) in AS_IT_IS else text_of(v) for v in row] for row in batch])


def as_json(rows: Rows, look: Look) -> Iterator[str]:
    """One array of objects, a line each; NaN and infinities, which JSON lacks, are null."""
    before = "["
    for batch in rows.batches():
        for row in batch:
            yield before + to_json(dict(zip(rows.names, row, strict=True)))
            before = ",\n"
    yield "[]\n" if before == "[" else "]\n"


TEXT_FORMATS: dict[str, Callable[[Rows, Look], Iterator[str]]] = {
    "table": as_table,
    "csv": as_csv,
    "json": as_json,
}
FORMATS = (*TEXT_FORMATS, "parquet")


def format_of(path: Path | None, asked: str | None, default: str = "table") -> str:
    """The format asked for, else the one the file's name ends in, else `default`."""
    suffix = "" if path is None else path.suffix.removeprefix(".")
    return asked or (suffix if suffix in FORMATS else default)


def write_parquet(
    connection: duckdb.DuckDBPyConnection,
    statement: duckdb.Statement,
    parameters: dict[str, Any],
    path: Path,
) -> None:
    """Write a statement's rows to `path` (or a pipe's name), every type as DuckDB has it."""

    def work() -> None:
        # No parameters at all is not the same to DuckDB as none of any name.
        relation = connection.sql(statement, params=parameters or None)
        relation.write_parquet(str(path), compression="zstd")

    interruptible(connection, work)


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Where to write so that `path` is there whole or not at all. Raises UsageError."""
    if path.is_dir() or not path.parent.is_dir():  # asked first: the statement may take minutes
        where = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UsageError(f"cannot write {path}: {where}")
    try:
        if path.exists() and not path.is_file():
            yield path  # a pipe or a device: to be written to, not replaced
            return
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            yield unfinished
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def _csv_lines(lines: list[list[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
