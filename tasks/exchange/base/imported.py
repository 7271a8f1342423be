"""The output of importers and input of exporters: attempts in the columns of the store.

An importer converts a foreign file to `ImportedAttempt`, `ImportedRecords` and `ImportIssue`
objects; `tasks.exchange.load` gives them ids, converts them to rows of the store (`trial_rows`) and
commits them. Values that a column cannot hold are repaired or reported. An exporter receives the
store's attempts as `ImportedAttempt` objects.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from tutti.storage import TABLES, Cost, artifact_id

Row = dict[str, Any]


@dataclass(frozen=True)
class ImportIssue:
    """A part of a file that could not be read; the rest is imported."""

    file: Path
    line: int | None
    """Its line, from 1; None if the format has no lines."""
    field: str
    """The dotted field from the top of the record; empty for the whole record."""
    reason: str

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
    """One attempt at one task. Rows use the columns of `tutti.storage.write.encode.TABLES`.

    Rows leave out attempt_id, cell_id, sweep_id, run_id, sample_id and call_id's prefix, which the
    loader adds. A message or judge of a call names it by the call's `call_id`, which need only be
    unique in the trial.
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


Rows = dict[str, list[Row]]
MISFITS = (KeyError, TypeError, ValueError, OverflowError)
"""What Arrow and the writer raise for a value that its column cannot hold (ArrowInvalid is a
ValueError, ArrowTypeError a TypeError, a lone surrogate a UnicodeEncodeError)."""
TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
FORMER_POLICY, FORMER_CONCURRENCY = "passthrough", 1
"""What earlier versions entered where a log did not say. Ids are still made with them, so that a
file imported before is recognized."""
MOST_COUNT = 2**31  # the catalog's columns have 32 bits
SHOWN_CHARACTERS = 80  # characters of a value in an issue's reason


class KeyRefused(ValueError):
    """A value that cannot be part of an id, with the attempt's field that contains it."""

    def __init__(self, field: str, value: Any, wanted: str) -> None:
        super().__init__(f"{shown(value)} is not {wanted}")
        self.field = field


@dataclass(frozen=True)
class AttemptIds:
    sweep_id: str
    cell_id: str
    sample_id: str
    attempt_id: str


def cell_keys(format: str, cell: Cell) -> tuple[str, str]:
    """Ids of the cell and its sweep. Raises KeyRefused."""
    policy, concurrency = cell.policy or FORMER_POLICY, cell.concurrency or FORMER_CONCURRENCY
    point: Row = {"format": format, "run": cell.run, "benchmark": cell.benchmark}
    point |= {"model": cell.model, "policy": policy}
    for place in ("run", "benchmark", "model", "policy"):
        _check_name(f"cell.{place}", point[place])
    _check_count("cell.concurrency", concurrency, least=1)
    _check_count("cell.repeat", cell.repeat)
    point |= {"concurrency": concurrency, "repeat": cell.repeat}
    return artifact_id("sweep", {"format": format, "run": cell.run}), artifact_id("cell", point)


def trial_keys(format: str, trial: ImportedAttempt) -> AttemptIds:
    """Ids of the trial's attempt, the same in every import. Raises KeyRefused."""
    sweep_id, cell_id = cell_keys(format, trial.cell)
    _check_name("task_id", trial.task_id)
    _check_count("trial", trial.trial)
    _check_count("attempt", trial.attempt, least=1)
    sample_id = artifact_id("sample", [cell_id, trial.task_id, trial.trial])
    attempt_id = artifact_id("attempt", [sample_id, trial.attempt])
    return AttemptIds(sweep_id, cell_id, sample_id, attempt_id)


def _check_name(field: str, name: Any) -> None:
    if not isinstance(name, str) or "\0" in name or repaired(name) != name:
        raise KeyRefused(field, name, "text without NUL and halves of surrogate pairs")


def _check_count(field: str, value: Any, least: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < MOST_COUNT:
        raise KeyRefused(field, value, f"a whole number from {least} to {MOST_COUNT - 1}")


def trial_rows(trial: ImportedAttempt, keys: AttemptIds, run_id: str) -> Rows:
    """The rows of one attempt, in the store's tables."""

    def call_id(given: Any) -> str | None:
        return None if given is None else f"{keys.attempt_id}/{given}"

    messages = [
        {"position": place, **row, "call_id": call_id(row.get("call_id"))}
        for place, row in enumerate(trial.messages)
    ]
    calls = [
        {**row, "call_id": call_id(row.get("call_id", place))}
        for place, row in enumerate(trial.calls)
    ]
    scores = [{**row, "judge_call_id": call_id(row.get("judge_call_id"))} for row in trial.scores]
    tables = {"messages": messages, "calls": calls, "scores": scores}
    tables |= {"tool_runs": trial.tool_runs, "retrievals": trial.retrievals}
    rows = placed(tables, trial.cell, keys.sweep_id, keys.cell_id)
    for row in chain.from_iterable(rows.values()):
        row["attempt_id"] = keys.attempt_id
    return {"attempts": [_attempt(trial, keys, run_id)], **rows}


def placed(rows: Mapping[str, list[Row]], cell: Cell, sweep_id: str, cell_id: str) -> Rows:
    """Copies of `rows` with the columns that identify their cell."""
    point: Row = {"sweep_id": sweep_id, "cell_id": cell_id}
    point |= {"policy": cell.policy, "concurrency": cell.concurrency}
    filled = {}
    for table, records in rows.items():
        known = TABLES[table].names if table in TABLES else ()
        here = {name: value for name, value in point.items() if name in known}
        filled[table] = [{**record, **here} for record in records]
    return filled


def _attempt(trial: ImportedAttempt, keys: AttemptIds, run_id: str) -> Row:
    """The row of `attempts`; fields that the format lacks are derived from messages and calls."""
    own = [call for call in trial.calls if call.get("role") in (None, "orchestrator")]
    replies = [message for message in trial.messages if message.get("role") == "assistant"]
    requests = sum(len(message.get("tool_calls") or ()) for message in replies)
    costs = [
        call.get("cost_usd")
        for call in trial.calls
        if call.get("cost_usd") is not None or call.get("status") in (None, "ok")
    ]
    derived: Row = {
        "status": "ok",
        "steps": len(own) or len(replies),
        "calls": len(own) or len(replies),
        "tool_calls": len(trial.tool_runs) or requests,
        **{name: total(call.get(name) for call in own) for name in TOKENS},
        "cost_usd": Cost.of(costs).usd if trial.calls else None,
        "started_at": min((c["sent_at"] for c in trial.calls if c.get("sent_at")), default=None),
        "ended_at": max((c["ended_at"] for c in trial.calls if c.get("ended_at")), default=None),
    }
    cell = trial.cell
    names = ("benchmark", "model", "policy", "concurrency", "repeat")
    return (
        derived
        | {name: value for name, value in trial.outcome.items() if value is not None}
        | {name: getattr(cell, name) for name in names}
        | {"task_id": trial.task_id, "trial": trial.trial, "attempt": trial.attempt}
        | {"run_id": run_id, "source": "import", **asdict(keys)}
    )


def total(values: Iterable[Any]) -> Any:
    """The sum of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def repaired(value: Any) -> Any:
    """`value` with U+FFFD for lone surrogates and null for NaN and infinities, at any depth."""
    if isinstance(value, str):
        # Through UTF-16, two matching halves become their character.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {repaired(name): repaired(inner) for name, inner in value.items()}
    return [repaired(inner) for inner in value] if isinstance(value, list | tuple) else value


def shown(value: Any) -> str:
    """A value for a message, shortened to a readable length."""
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """`value` as canonical JSON: NaN is null, other unsupported values become text."""
    try:
        return json.dumps(value, default=str, allow_nan=False, ensure_ascii=ascii_only)
    except (ValueError, TypeError):  # a NaN inside, or keys that are no text
        return json.dumps(_plain(value), default=str, ensure_ascii=ascii_only)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
