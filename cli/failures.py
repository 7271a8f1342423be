"""Which errors are the user's to mend, and the exit code of each."""

from pydantic import ValidationError

from storage import StoreError
from tasks.agents.toolbox import ToolUnavailable
from tasks.serving.errors import RegistryError, ServingError
from tasks.serving.registry import explain
from tasks.sweeps.suite import SuiteError
from tasks.training.stage import TrainingFailed

FAILED, BAD_USAGE = 1, 2


class UsageError(ValueError):
    """What was asked for does not exist or makes no sense."""


def message_of(error: Exception) -> str:
    """What to tell the user; a validation error as one line of fields, faults and values."""
    return explain(error) if isinstance(error, ValidationError) else str(error)


def exit_code_of(error: Exception) -> int | None:
    """2 for bad usage, 1 for a failure with a known cause, None for a bug (show its traceback)."""
    import duckdb

    if isinstance(error, RegistryError | SuiteError | UsageError | ValidationError):
        return BAD_USAGE
    if isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
        return BAD_USAGE
    known = (StoreError, ServingError, ToolUnavailable, TrainingFailed, duckdb.Error)
    return FAILED if isinstance(error, known) else None
