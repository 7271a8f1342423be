"""The formats of `tutti sql`: text drawn as the rows come, and Parquet, which DuckDB writes itself.

In: a statement's rows. Out: pieces of text, or a file. Memory stays bounded.
"""

import csv
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb

from tutti.cli.failures import UsageError
from tutti.cli.sql.rows import Rows, TerminalStyle, interruptible, text_of, to_json
from tutti.cli.sql.table import as_table
from tutti.terminal import shown

AS_IT_IS = {int, float, type(None)}  # what the csv module writes as we would, and faster
FORMULA = frozenset("=+-@\t\r\n\uff0b\uff0d\uff1d\uff20")
"""The beginnings of what a spreadsheet runs: OWASP, "CSV Injection"."""
NUMBER = re.compile(r"[+-]?[\d.,]+(?:e[+-]?\d+)?", re.I)


def as_csv(rows: Rows, look: TerminalStyle) -> Iterator[str]:
    """CSV with a header; lists and structs as JSON, an empty field for NULL. A text that a
    spreadsheet would run begins with an apostrophe."""

    def cell(value: Any) -> str:
        text = value if type(value) is str else text_of(value)
        text = shown(text) if look.styled else text
        return f"'{text}" if text[:1] in FORMULA and not NUMBER.fullmatch(text) else text

    yield _csv_lines([list(map(cell, rows.names))])
    for batch in rows.batches():
        yield _csv_lines([[v if type(v) in AS_IT_IS else cell(v) for v in row] for row in batch])


def as_json(rows: Rows, look: TerminalStyle) -> Iterator[str]:
    """One array of objects, a line each; NaN and infinities, which JSON lacks, are null."""
    before = "["
    for batch in rows.batches():
        for row in batch:
            text = to_json(dict(zip(rows.names, row, strict=True)))
            yield before + (shown(text) if look.styled else text)
            before = ",\n"
    yield "[]\n" if before == "[" else "]\n"


TEXT_FORMATS: dict[str, Callable[[Rows, TerminalStyle], Iterator[str]]] = {
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
    kept: list[str] = []
    # With it, a cell with `\r` is quoted: to a spreadsheet that is the end of a row, too.
    stream = SimpleNamespace(write=lambda line: kept.append(f"{line[:-2]}\n"))
    csv.writer(stream, lineterminator="\r\n").writerows(lines)
    return "".join(kept)
