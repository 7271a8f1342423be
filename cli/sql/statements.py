"""`tutti sql` with a statement: runs it over the store and writes its rows.

In: SQL, parameters, a format, optionally a file. Out: rows as text (`tutti.cli.sql.rows`), or
Parquet, which DuckDB writes itself. A file is complete or absent.
"""

import json
import math
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
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
    """Run statements one after another; a file gets the rows of the last one. Raises UsageError,
    duckdb.Error, StoreError."""
    output = format_of(out, output)
    if output == "parquet" and out is None and sys.stdout.isatty():
        raise UsageError("Parquet is no text for a terminal: give --out FILE, or a pipe")
    try:
        with closing(connect(macros=macros_named(text))) as connection:
            _run_all(connection, statements_of(connection, text), parameters, output, out)
    except USERS_ERRORS as error:
        raise UsageError(str(error)) from error


def _run_all(
    connection: duckdb.DuckDBPyConnection,
    statements: list[duckdb.Statement],
    parameters: dict[str, Any],
    output: str,
    out: Path | None,
) -> None:
    _check_parameters(statements, parameters)
    has_one_result = output == "parquet" or out is not None
    if has_one_result and any(map(_is_query, statements[:-1])):
        raise UsageError("a file holds the rows of one statement: give one at a time")
    answered = False
    for statement in statements:
        is_last = statement is statements[-1]
        form, file = (output, out) if is_last or not has_one_result else ("table", None)
        words = run_statement(connection, statement, parameters, form, file)
        answered |= words is not None
        if form == "table" and not has_one_result:
            sys.stdout.write(f"{words or 'done'}\n")
        elif form == "csv" and words and not is_last:
            sys.stdout.write("\n")
    if output == "json" and out is None and not answered:
        sys.stdout.write("[]\n")


def statements_of(connection: duckdb.DuckDBPyConnection, text: str) -> list[duckdb.Statement]:
    """The statements of `text`, at least one. Raises UsageError and duckdb's ParserException."""
    statements = connection.extract_statements(text)
    if not statements:
        raise UsageError("no statement; for example: tutti sql 'select * from cells'")
    return statements


def run_statement(
    connection: duckdb.DuckDBPyConnection,
    statement: duckdb.Statement,
    parameters: dict[str, Any],
    output: str,
    out: Path | None,
    show: Show | None = None,
) -> str | None:
    """Run a statement with those of `parameters` that it names. Its rows go to `out`, else to
    `show` or standard output. Return their number as text; None for a statement without rows."""
    chosen = chosen_parameters(statement, parameters)
    if output == "parquet" and _is_query(statement):
        return _write_parquet(connection, statement, chosen, out)
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


def _write_parquet(
    connection: duckdb.DuckDBPyConnection,
    statement: duckdb.Statement,
    parameters: dict[str, Any],
    out: Path | None,
) -> str:
    def write(path: Path) -> None:
        # DuckDB tells no parameters from an empty set of them.
        relation = connection.sql(statement, params=parameters or None)
        relation.write_parquet(str(path), compression="zstd")

    if out is None:
        sys.stdout.flush()
        interruptible(connection, lambda: write(STDOUT))
    else:
        with writing(out) as path:
            interruptible(connection, lambda: write(path))
    return "written"


def _is_query(statement: duckdb.Statement, names: list[str] | None = None) -> bool:
    """Whether a statement returns rows; `names` are its columns once it runs: a change has one
    column `Count`."""
    kinds = statement.expected_result_type
    if duckdb.ExpectedResultType.QUERY_RESULT not in kinds:
        return False
    return len(kinds) == 1 or names not in (None, ["Count"])


def format_of(path: Path | None, format: str | None, default: str = "table") -> str:
    """Return the given format, else that of the file's extension, else `default`."""
    suffix = "" if path is None else path.suffix.removeprefix(".")
    return format or (suffix if suffix in FORMATS else default)


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


def chosen_parameters(statement: duckdb.Statement, parameters: dict[str, Any]) -> dict[str, Any]:
    """Those of `parameters` that the statement names. Raises UsageError for one without a value."""
    if missing := sorted(statement.named_parameters - parameters.keys()):
        flags = " ".join(f"{name}=…" for name in missing)
        raise UsageError(f"no value for ${', $'.join(missing)}: give --param {flags}")
    return {name: parameters[name] for name in statement.named_parameters}


def _check_parameters(statements: list[duckdb.Statement], parameters: dict[str, Any]) -> None:
    """Check the names before anything runs: a misspelt one would otherwise filter nothing."""
    named = {name for statement in statements for name in statement.named_parameters}
    if unknown := sorted(parameters.keys() - named):
        known = ", ".join(f"${name}" for name in sorted(named)) or "none"
        raise UsageError(f"no parameter ${unknown[0]} in the statement; it names: {known}")
    for statement in statements:
        chosen_parameters(statement, parameters)
