"""`tutti sql`: run statements over the store; their rows go to the terminal, a pipe or a file.

In: SQL, parameters, a format. Out: rows; a statement that gives none says what it changed.
Without a statement and on a terminal it is the prompt of `tutti.cli.sql.prompt`.
"""

import json
import math
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import duckdb

from tutti.cli.failures import UsageError
from tutti.cli.sql.formats import TEXT_FORMATS, format_of, write_parquet, writing
from tutti.cli.sql.rows import Rows, TerminalStyle, interruptible
from tutti.storage import connect, macros_named

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
    """Start a statement; its rows are drawn from what is returned.

    Of `parameters` it is given those that it names. Raises UsageError for one without a value.
    """
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
    """Run a statement that gives no rows to its end; only the format `table` says what it did."""
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
