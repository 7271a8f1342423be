"""The end of a command: the exit code of its result, or one message on stderr for an error.

`tutti/errors.py` has the codes, and the tree of errors.
"""

import errno
from collections.abc import Callable, Iterable
from typing import Any

import typer

from tutti.errors import ExitCode, TuttiError, UsageError
from tutti.terminal import shown

__all__ = ["ExitCode", "UsageError", "code_of", "exit_code_of", "guarded", "message_of"]

RESULTS = (ExitCode.WORSE, ExitCode.INCONCLUSIVE, ExitCode.INCOMPLETE)
"""The codes of a command that has printed a result; `--exit-zero` makes 0 of them."""
VERDICTS = {
    "better": ExitCode.DONE,
    "same": ExitCode.DONE,
    "passed": ExitCode.DONE,
    "worse": ExitCode.WORSE,
    "failed": ExitCode.WORSE,
    "inconclusive": ExitCode.INCONCLUSIVE,
}
"""By the word of a comparison, a gate or a night."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def code_of(verdicts: Iterable[str]) -> ExitCode:
    """Return the exit code of several verdicts: worse if one is, or else inconclusive if one is."""
    codes = {VERDICTS[verdict] for verdict in verdicts}
    if ExitCode.WORSE in codes:
        return ExitCode.WORSE
    return max(codes, default=ExitCode.DONE)


def guarded(work: Callable[[], Any]) -> Any:
    """Run `work`; an expected error becomes one message on stderr and its exit code."""
    try:
        return work()
    except KeyboardInterrupt:
        typer.echo("interrupted; finished work is kept, run the same command to resume", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        typer.echo(f"tutti: {message_of(error)}", err=True)
        raise typer.Exit(code) from None


def message_of(error: Exception) -> str:
    """Return the message for the user; a validation error lists its fields, faults and values."""
    from pydantic import ValidationError

    from tutti.tasks.platform import explain

    if _is_full(error):
        where = getattr(error, "filename", None) or "a file"
        return f"{where}: no space left on the device. Free some space, then run the command again."
    message = explain(error) if isinstance(error, ValidationError) else str(error)
    # A message of several lines ends with commands to copy.
    notes = getattr(error, "__notes__", ())
    return shown(("\n" if "\n" in message else " ").join([message, *notes]))


def exit_code_of(error: Exception) -> ExitCode | None:
    """Return the exit code of an expected error; None for a bug, whose traceback is shown. pydantic
    and DuckDB are imported here, because most commands never need them."""
    if isinstance(error, TuttiError):
        return error.exit_code
    if _is_full(error):
        return ExitCode.FAILED

    import duckdb
    from pydantic import ValidationError

    invalid_sql = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
    if isinstance(error, (ValidationError, *invalid_sql)):
        return ExitCode.BAD_USAGE
    return ExitCode.FAILED if isinstance(error, duckdb.Error) else None


def _is_full(error: Exception) -> bool:
    """Whether a disk is full, which is a state of the machine and not a bug."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM
