"""What an importer yields and an exporter receives: attempts in the columns of the store.

An importer turns a foreign file into `ImportedAttempt`, `ImportedRecords` and `ImportIssue`
objects; `tasks.exchange.load` gives them ids and commits them. An exporter receives the store's
attempts as `ImportedAttempt` objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class ImportIssue:
    """A part of a file that could not be read; the rest is imported."""

    file: Path
    """The file as given."""
    line: int | None
    """Its line, from 1; None if the format has no lines."""
    field: str
    """The dotted field from the top of the record; empty for the whole record."""
    reason: str
    """What is wrong, with the value."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        return f"{place}: {self.field}: {self.reason}" if self.field else f"{place}: {self.reason}"


@dataclass(frozen=True)
class Cell:
    """The cell that an attempt belongs to. Equal cells of one import are one cell."""

    run: str
    """A permanent name of the foreign run (its own id if it has one); part of every id."""
    benchmark: str
    model: str
    policy: str | None = None
    """The scheduling policy; None where the log does not say."""
    concurrency: int | None = None
    """Sessions at once; None where the log does not say."""
    repeat: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Settings of the foreign run, JSON-able."""


@dataclass
class ImportedAttempt:
    """One attempt at one task. Rows use the columns of `tutti.storage.schemas.TABLES`.

    Rows leave out attempt_id, cell_id, sweep_id, run_id, sample_id and call_id's prefix: the loader
    fills them in. A message or judge that belongs to a call names it by the call's `call_id`, which
    need only be unique in the trial.
    """

    cell: Cell
    task_id: str
    trial: int = 0
    """Which trial (seed, epoch) of the task, from 0."""
    attempt: int = 1
    """Which attempt of the sample, from 1; more than 1 after infrastructure errors."""
    outcome: Row = field(default_factory=dict)
    """Columns of `attempts`: status, stop_reason, started_at, tokens, answer, score, correct, …"""
    messages: list[Row] = field(default_factory=list)
    calls: list[Row] = field(default_factory=list)
    tool_runs: list[Row] = field(default_factory=list)
    retrievals: list[Row] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)
    target: str | None = None
    """The right answer, for exporters that show it; the loader has no column for it."""
    origin: str = ""
    """The attempt's id in the store that exported it: a store does not import its own attempts."""
    file: Path | None = None
    """The file it was read from, for issues that only the loader can find."""
    line: int | None = None
    """Its line in the file, from 1; None if the format has no lines."""

    def score(self, scorer: str, value: float, correct: bool | None, **columns: Any) -> None:
        """Give the attempt its score, and a row of `scores`; unknown columns are None."""
        self.outcome |= {"score": value, "correct": correct}
        known = {name: given for name, given in columns.items() if given is not None}
        self.scores.append({"scorer": scorer, "value": value, "correct": correct} | known)


@dataclass
class ImportedRecords:
    """Rows of a cell that belong to no attempt: a server's metrics, a log of calls.

    `stream` names the log within the cell. Logs only grow: `position` is the number of the log's
    records before these rows, so that the loader imports each record once.
    """

    cell: Cell
    stream: str
    position: int
    rows: dict[str, list[Row]]
    """Table name to rows; one record of the log may give several rows."""
    records: int
    """The number of the log's records in these rows."""


ImportedItem = ImportedAttempt | ImportedRecords | ImportIssue
