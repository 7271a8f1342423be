"""`tutti sql`: run statements over the store; their rows go to the terminal, a pipe or a file.

In: SQL, parameters, a format. Out: rows as text, drawn as they come, or Parquet, which DuckDB
writes itself; a statement that gives none says what it changed. Memory stays bounded. Without a
statement and on a terminal it is the prompt of `tutti.cli.sql.prompt`.
"""

import csv
import json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import duckdb

from tutti.cli.failures import UsageError
from tutti.cli.sql.rows import Rows, TerminalStyle, as_table, interruptible, text_of, to_json
from tutti.storage import connect, macros_named
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


STDOUT = Path("/dev/stdout")

# What a user can mend in the statement itself; other errors are the disk's or the memory's.
USERS_ERRORS = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError)


def run_sql(
    text: str, output: str | None, parameters: dict[str, Any], out: Path | None = None
) -> None:
    """Run statements one after another. Raises UsageError, duckdb.Error, StoreError."""
    output = format_of(out, output)
    connection = connect(macros=macros_named(text))
    try:
        statements = parse(connection, text)
        _check_parameters(statements, parameters)
        if output == "parquet":
            _to_parquet(connection, statements, parameters, out)
        else:
            _to_text(connection, statements, parameters, output, out)
    except USERS_ERRORS as error:
        raise UsageError(str(error)) from error
    finally:
        connection.close()


def parse(connection: duckdb.DuckDBPyConnection, text: str) -> list[duckdb.Statement]:
    """The statements of `text`; at least one. Raises UsageError and duckdb's ParserException."""
    statements = connection.extract_statements(text)
    if not statements:
        raise UsageError("no statement; for example: tutti sql 'select * from cells'")
    return statements


def execute(
    connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement, parameters: dict[str, Any]
) -> Rows:
    """Start a statement; its rows are drawn from what is returned. Of `parameters` it is given
    those that it names. Raises UsageError for one without a value."""
    chosen = chosen_parameters(statement, parameters)
    started = time.monotonic()
    rows = Rows(interruptible(connection, lambda: connection.execute(statement, chosen)))
    rows.seconds = time.monotonic() - started
    return rows


def gives_rows(statement: duckdb.Statement, rows: Rows) -> bool:
    """Whether a started statement answers a question, rather than saying what it changed."""
    kinds = statement.expected_result_type
    if duckdb.ExpectedResultType.QUERY_RESULT not in kinds:
        return False
    return len(kinds) == 1 or rows.names != ["Count"]


def changed(statement: duckdb.Statement, rows: Rows) -> str:
    """Run a statement that gives no rows to its end; what it did, in words."""
    done = [row for batch in rows.batches() for row in batch]
    if rows.names != ["Count"] or not done:
        return "done"
    verb = "written" if statement.type == duckdb.StatementType.COPY else "changed"
    return f"{counted(done[0][0])} {verb}"


def counted(rows: int) -> str:
    """`1 row`, `2 rows`."""
    return f"{rows:,} row{'s' * (rows != 1)}"


def read_parameters(given: Iterable[str]) -> dict[str, Any]:
    """`name=value` each: a JSON value if it is one (3, 0.5, true, null, "3"), else text."""
    parameters = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"a parameter is name=value, for example policy=cap; not {each!r}")
        parameters[name.strip().removeprefix("$")] = typed(text)
    return parameters


def typed(text: str) -> Any:
    """The JSON value `text` is, or the text itself; an id such as 12e456 stays text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) and not math.isfinite(value) else value


def chosen_parameters(statement: duckdb.Statement, parameters: dict[str, Any]) -> dict[str, Any]:
    """What the statement names of `parameters`. Raises UsageError for one without a value."""
    if missing := sorted(statement.named_parameters - parameters.keys()):
        asked = " ".join(f"{name}=…" for name in missing)
        raise UsageError(f"no value for ${', $'.join(missing)}: give --param {asked}")
    return {name: parameters[name] for name in statement.named_parameters}


def look_of(stream: TextIO) -> TerminalStyle:
    """The terminal's width and styles; neither where the stream is none."""
    if not stream.isatty():
        return TerminalStyle()
    return TerminalStyle(shutil.get_terminal_size().columns, styled=True)


def _check_parameters(statements: list[duckdb.Statement], parameters: dict[str, Any]) -> None:
    """Before anything runs: a name with a slip in it would otherwise filter by nothing."""
    named = {name for statement in statements for name in statement.named_parameters}
    if unknown := sorted(parameters.keys() - named):
        known = ", ".join(f"${name}" for name in sorted(named)) or "none"
        raise UsageError(f"no parameter ${unknown[0]} in the statement; it names: {known}")
    for statement in statements:
        chosen_parameters(statement, parameters)


def _to_text(
    connection: duckdb.DuckDBPyConnection,
    statements: list[duckdb.Statement],
    parameters: dict[str, Any],
    output: str,
    out: Path | None,
) -> None:
    with _stream_to(out) as stream:
        look = look_of(stream)
        answered = 0
        for statement in statements:
            rows = execute(connection, statement, parameters)
            if not gives_rows(statement, rows):
                _write_change(stream, statement, rows, output)
                continue
            if answered and output != "json":
                stream.write("\n")
            answered += 1
            for piece in TEXT_FORMATS[output](rows, look):
                stream.write(piece)
            if output == "table":
                stream.write(f"{counted(rows.count)}\n")
        if output == "json" and not answered:
            stream.write("[]\n")


def _write_change(stream: TextIO, statement: duckdb.Statement, rows: Rows, output: str) -> None:
    words = changed(statement, rows)
    if output == "table":
        stream.write(f"{words}\n")


def _to_parquet(
    connection: duckdb.DuckDBPyConnection,
    statements: list[duckdb.Statement],
    parameters: dict[str, Any],
    out: Path | None,
) -> None:
    """The last statement's rows; those before it only prepare."""
    if out is None and sys.stdout.isatty():
        raise UsageError("Parquet is no text for a terminal: give --out FILE, or a pipe")
    *before, last = statements
    only_rows = [duckdb.ExpectedResultType.QUERY_RESULT]
    if any(statement.expected_result_type == only_rows for statement in before):
        raise UsageError("a Parquet file holds the rows of one statement: give one at a time")
    for statement in before:
        changed(statement, execute(connection, statement, parameters))
    chosen = chosen_parameters(last, parameters)
    if out is None:
        sys.stdout.flush()
        write_parquet(connection, last, chosen, STDOUT)
        return
    with writing(out) as path:
        write_parquet(connection, last, chosen, path)


@contextmanager
def _stream_to(out: Path | None) -> Iterator[TextIO]:
    """Standard output, or `out`, which is there only once everything is written."""
    if out is None:
        yield sys.stdout
        return
    with writing(out) as path, path.open("w", encoding="utf-8", newline="") as stream:
        yield stream
