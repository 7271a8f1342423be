"""Which errors are the user's to mend, and the exit code of each.

What they are is imported when one happens: most verbs meet none.
"""

from collections.abc import Callable
from typing import Any

import typer

FAILED, BAD_USAGE = 1, 2


class UsageError(ValueError):
    """What was asked for does not exist or makes no sense."""


def guarded(work: Callable[[], Any]) -> Any:
    """Run `work`; an expected error becomes one message on stderr and exit code 1 or 2."""
    try:
        return work()
    except KeyboardInterrupt:
        typer.echo("interrupted; what is finished is kept, run the same command again", err=True)
        raise typer.Exit(1) from None
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        typer.echo(f"tutti: {message_of(error)}", err=True)
        raise typer.Exit(code) from None


def message_of(error: Exception) -> str:
    """What to tell the user; a validation error as one line of fields, faults and values."""
    from pydantic import ValidationError

    from tutti.tasks.config import explain

    said = explain(error) if isinstance(error, ValidationError) else str(error)
    return " ".join([said, *getattr(error, "__notes__", ())])


def exit_code_of(error: Exception) -> int | None:
    """2 for bad usage, 1 for a failure with a known cause, None for a bug (show its traceback)."""
    import duckdb
    from pydantic import ValidationError

    from tutti.storage import StoreError
    from tutti.tasks.agents import ToolUnavailable
    from tutti.tasks.benchmarks import BadRow, BenchmarkError, SourceMissing
    from tutti.tasks.sandbox import SandboxUnavailable
    from tutti.tasks.serving import PriceError, RegistryError, ServingError
    from tutti.tasks.sweeps.spec import SuiteError
    from tutti.tasks.training import TrainingFailed

    if isinstance(error, RegistryError | PriceError | SuiteError | UsageError | ValidationError):
        return BAD_USAGE
    if isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
        return BAD_USAGE
    if isinstance(error, BenchmarkError) and not isinstance(error, BadRow | SourceMissing):
        return BAD_USAGE
    known = (
        BenchmarkError,
        StoreError,
        ServingError,
        SandboxUnavailable,
        ToolUnavailable,
        TrainingFailed,
        duckdb.Error,
    )
    return FAILED if isinstance(error, known) else None
