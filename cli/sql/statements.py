"""`tutti sql` with a statement: runs it over the store and writes its rows.

In: SQL, parameters, a format, optionally a file. Out: rows as text (`tutti.cli.sql.rows`), or
Parquet, which DuckDB writes itself. A file is complete or absent.
"""

import json
import math
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import duckdb

from tutti.cli.base.failures import UsageError
from tutti.cli.sql.rows import TEXT_FORMATS, Rows, interruptible
from tutti.storage import connect, macros_named, replacing

FORMATS = (*TEXT_FORMATS, "parquet")
STDOUT = Path("/dev/stdout")
# Errors that a user can fix in the statement itself; others are the disk's or the memory's.
USERS_ERRORS = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError)

Show = Callable[[Iterable[str]], None]


def run_sql(
    text: str, output: str | None, parameters: dict[str, Any], out: Path | None = None
) -> None:
    """Run statements one after another and write the rows of the last one. Raises UsageError,
    duckdb.Error, StoreError."""
    output = output or format_of(out)
    if output == "parquet" and out is None and sys.stdout.isatty():
        raise UsageError("Parquet is no text for a terminal: give --out FILE, or a pipe")
    try:
        with closing(connect(macros=macros_named(text))) as connection:
            statements = connection.extract_statements(text)
            if not statements:
                raise UsageError("no statement; for example: tutti sql 'select * from cells'")
            if any(map(_is_query, statements[:-1])):
                raise UsageError("the output is the rows of one statement: give one at a time")
            named = {name for statement in statements for name in statement.named_parameters}
            if unknown := sorted(parameters.keys() - named):  # it would filter nothing
                known = ", ".join(f"${name}" for name in sorted(named)) or "none"
                raise UsageError(f"no parameter ${unknown[0]} in the statement; it names: {known}")
            for statement in statements[:-1]:
                run_statement(connection, statement, parameters, output)
            words = run_statement(connection, statements[-1], parameters, output, out)
    except USERS_ERRORS as error:
        raise UsageError(str(error)) from error
    if out is None and output == "table":
        sys.stdout.write(f"{words or 'done'}\n")
    elif out is None and output == "json" and words is None:
        sys.stdout.write("[]\n")


def run_statement(
    connection: duckdb.DuckDBPyConnection,
    statement: duckdb.Statement,
    parameters: dict[str, Any],
    output: str,
    out: Path | None = None,
    show: Show | None = None,
) -> str | None:
    """Run a statement with those of `parameters` that it names. Its rows go to `out`, else to
    `show` or standard output. Returns their number in words; None for a statement without rows."""
    chosen = {n: parameters[n] for n in statement.named_parameters if n in parameters}
    if output == "parquet" and _is_query(statement):
        sys.stdout.flush()
        with nullcontext(STDOUT) if out is None else writing(out) as path:
            interruptible(
                connection,
                # An empty set of parameters is an error in DuckDB.
                lambda: connection.sql(statement, params=chosen or None).write_parquet(
                    str(path), compression="zstd"
                ),
            )
        return "written"
    rows = Rows(interruptible(connection, lambda: connection.execute(statement, chosen)))
    if not _is_query(statement, rows.names):
        for _ in rows.batches():  # DuckDB runs the statement while its result is read
            pass
        return None
    if out is None:
        (show or sys.stdout.writelines)(TEXT_FORMATS[output](rows, terminal_width()))
    else:
        with writing(out) as path, path.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(TEXT_FORMATS[output](rows, None))
    words = counted(rows.count)
    has_more = output == "table" and rows.count and next(rows.batches(), None)
    return f"the first {words}; the formats csv, json and parquet have all" if has_more else words


def _is_query(statement: duckdb.Statement, names: list[str] | None = None) -> bool:
    """Whether a statement returns rows; `names` are its columns once it runs: a change has one
    column `Count`."""
    kinds = statement.expected_result_type
    if duckdb.ExpectedResultType.QUERY_RESULT not in kinds:
        return False
    return len(kinds) == 1 or names not in (None, ["Count"])


def format_of(path: Path | None) -> str:
    """The format that the file's name ends in, else a table."""
    suffix = "" if path is None else path.suffix.removeprefix(".")
    return suffix if suffix in FORMATS else "table"


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a path to write, so that `path` is complete or absent. Raises UsageError."""
    if path.is_dir() or not path.parent.is_dir():  # checked first: the statement may take minutes
        where = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UsageError(f"cannot write {path}: {where}")
    try:
        if path.exists() and not path.is_file():
            yield path  # a pipe or a device is written to, not replaced
            return
        with replacing(path) as unfinished:
            yield unfinished
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def counted(rows: int) -> str:
    """Format a number of rows: `1 row`, `2 rows`."""
    return f"{rows:,} row{'s' * (rows != 1)}"


def terminal_width() -> int | None:
    """Return the terminal's columns; None if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def read_parameters(given: Iterable[str]) -> dict[str, Any]:
    """Parse `name=value` items: a JSON value if it is one (3, 0.5, true, null, "3"), else text."""
    parameters = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"a parameter is name=value, for example policy=cap; not {each!r}")
        parameters[name.strip().removeprefix("$")] = typed(text)
    return parameters


def typed(text: str) -> Any:
    """Return the JSON value in `text`, or the text itself; an id such as 12e456 stays text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) and not math.isfinite(value) else value
