"""What can be wrong with a benchmark's data, prompt or selection.

BenchmarkError
├── UnknownBenchmark  no benchmark has that name; the message lists those there are
├── SourceMissing     the data are not where they were looked for; the message says what to do
├── BadRow            a row that is not an item; the message names file, line and field
├── BadPrompt         a prompt file that cannot be used, or a field that an item does not have
└── BadSelection      a selection that cannot be read, or names what is not there
"""

from pathlib import Path

from tutti.errors import BAD_USAGE, FAILED, TuttiError


class BenchmarkError(TuttiError, ValueError):
    """Something about a benchmark is wrong; the message says what, and where."""

    exit_code = BAD_USAGE


class UnknownBenchmark(BenchmarkError):
    """No benchmark has that name."""


class SourceMissing(BenchmarkError):
    """The data are not where they were looked for."""

    exit_code = FAILED


class BadRow(BenchmarkError):
    """A row that is not an item."""

    exit_code = FAILED

    def __init__(self, file: Path, line: int | None, field: str, reason: str) -> None:
        where = f"{file}:{line}" if line is not None else str(file)
        super().__init__(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")
        self.file = file
        self.line = line
        """From 1; None where the fault is the whole file's."""
        self.field = field
        """Dotted from the top of the row; empty where the fault is the whole row's."""


class BadPrompt(BenchmarkError):
    """A prompt that cannot be rendered."""


class BadSelection(BenchmarkError):
    """A selection that cannot be read, or that names what is not there."""
