"""Turns an error into one message on stderr and an exit code. `tutti/errors.py` has the tree."""

import errno
from collections.abc import Callable
from typing import Any

import typer

from tutti.errors import BAD_USAGE, FAILED, TuttiError, UsageError

__all__ = ["FAILED", "UsageError", "exit_code_of", "guarded", "message_of"]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def guarded(work: Callable[[], Any]) -> Any:
    """Run `work`; an expected error becomes one message on stderr and its exit code."""
    try:
        return work()
    except KeyboardInterrupt:
        typer.echo("interrupted; finished work is kept, run the same command to resume", err=True)
        raise typer.Exit(FAILED) from None
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        typer.echo(f"tutti: {message_of(error)}", err=True)
        raise typer.Exit(code) from None


def message_of(error: Exception) -> str:
    """The message for the user; a validation error lists its fields, faults and values."""
    from pydantic import ValidationError

    from tutti.tasks.config import explain

    if _is_full(error):
        where = getattr(error, "filename", None) or "a file"
        return f"{where}: no space left on the device. Free some space, then run the command again."
    message = explain(error) if isinstance(error, ValidationError) else str(error)
    # A message of several lines ends with commands to copy.
    return ("\n" if "\n" in message else " ").join([message, *getattr(error, "__notes__", ())])


def exit_code_of(error: Exception) -> int | None:
    """The exit code of an expected error; None for a bug, whose traceback is shown.

    pydantic and DuckDB are imported here, because most commands never need them.
    """
    if isinstance(error, TuttiError):
        return error.exit_code
    if _is_full(error):
        return FAILED

    import duckdb
    from pydantic import ValidationError

    invalid_sql = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
    if isinstance(error, (ValidationError, *invalid_sql)):
        return BAD_USAGE
    return FAILED if isinstance(error, duckdb.Error) else None


def _is_full(error: Exception) -> bool:
    """Whether a disk has no room: a state of the machine, not a bug."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM
