"""Errors in a benchmark's data, prompt or selection; all are a `BenchmarkError`."""

from pathlib import Path

from tutti.errors import ExitCode, TuttiError


class BenchmarkError(TuttiError, ValueError):
    """Base class: a benchmark is invalid; the message says what is wrong, and where."""

    exit_code = ExitCode.BAD_USAGE


class UnknownBenchmark(BenchmarkError):
    """No benchmark has that name."""


class BadBenchmarkFile(BenchmarkError):
    """The user's own Python file cannot be used as a benchmark."""


class SourceMissing(BenchmarkError):
    """The data are missing."""

    exit_code = ExitCode.FAILED


class BadRow(BenchmarkError):
    """An invalid row of a benchmark's file."""

    exit_code = ExitCode.FAILED

    def __init__(self, file: Path, line: int | None, field: str, reason: str) -> None:
        where = f"{file}:{line}" if line is not None else str(file)
        super().__init__(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")
        self.file = file
        self.line = line
        """Line number from 1; None if the whole file is invalid."""
        self.field = field
        """Dotted path from the top of the row; empty if the whole row is invalid."""


class BadPrompt(BenchmarkError):
    """A prompt that cannot be rendered."""


class BadSelection(BenchmarkError):
    """An invalid selection, or one that names unknown ids."""
