"""Loading an importer's output into the store: every attempt and every log record exactly once.

In: `ImportedAttempt`, `ImportedRecords` and `ImportIssue` objects. Out: rows and an `ImportReport`.
Ids follow from the content, and all states are entered in the transaction of the rows: an import
that is repeated, was killed or runs twice at once adds only what is missing.
"""

import dataclasses
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from tutti.storage import RowRefused, StoreBusy, StoreError, artifact_id, commit
from tutti.storage import catalog as cat
from tutti.tasks.exchange.base.imported import (
    MISFITS,
    AttemptIds,
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportedRecords,
    ImportIssue,
    KeyRefused,
    Row,
    Rows,
    cell_keys,
    json_text,
    placed,
    repaired,
    trial_keys,
    trial_rows,
)


def known_attempts(
    connection: sa.Connection, ids: Iterable[str]
) -> dict[str, tuple[str, str | None]]:
    """Those of `ids` that the catalog has, with their status and the run that entered them."""
    columns = cat.attempt_states.c
    known: dict[str, tuple[str, str | None]] = {}
    query = sa.select(columns.attempt_id, columns.run_id, columns.status)
    for some in cat.any_of(columns.attempt_id, list(ids)):
        for row in connection.execute(query.where(some)):
            known[row.attempt_id] = (row.run_id, row.status)
    return known


def enter_cells(
    connection: sa.Connection, format: str, cells: Mapping[str, tuple[str, Cell]]
) -> None:
    """Enter sweeps, cells and their parents; existing ones are not changed."""
    for cell_id, (sweep_id, cell) in sorted(cells.items(), key=itemgetter(0)):
        source = {"run": cell.run, "benchmark": cell.benchmark}
        task_set_id = artifact_id("task_set", {"format": format, **source})
        model_id = artifact_id("model", {"name": cell.model})
        name = title_of(cell)
        sweep = {"sweep_id": sweep_id, "name": name, "created_at": cat.now()}
        spec = json.dumps({"imported": format, "run": cell.run})
        cat.insert_if_absent(connection, cat.sweeps, {**sweep, "spec": spec})
        others = sa.select(sa.func.count()).where(cat.cells.c.sweep_id == sweep_id)
        position = connection.execute(others).scalar_one()
        point = {name: getattr(cell, name) for name in ("policy", "concurrency", "repeat")}
        row = {"benchmark": cell.benchmark, "model": cell.model, "sweep_id": sweep_id, **point}
        row |= {"position": position, "task_set_id": task_set_id, "index_id": "", "samples": 0}
        row |= {"cell_id": cell_id, "status": cat.FINISHED}
        cat.insert_if_absent(connection, cat.cells, row)
        detail: Row = {"imported": format, "run": cell.run, **point, **cell.detail}
        _artifact(connection, task_set_id, {"imported": format, **source})
        _artifact(connection, model_id, {"name": cell.model})
        _artifact(connection, cell_id, detail, [task_set_id, model_id])
        _artifact(connection, sweep_id, {"name": name}, [cell_id])


def title_of(cell: Cell) -> str:
    """The title of an imported cell's sweep: its run's own title, else the run."""
    return str(repaired(str(cell.detail.get("title") or cell.run))).replace("\0", " ")


def _artifact(connection: sa.Connection, id: str, detail: Row, parents: Iterable[str] = ()) -> None:
    cat.enter_artifact(connection, id, json_text(detail, ascii_only=True), parents)


def enter_attempts(connection: sa.Connection, attempts: list[Row]) -> None:
    """Enter the states of attempts, their samples, and when their cells began and ended."""
    # In the same order in every process, so that two that enter the same rows wait and do not
    # deadlock.
    attempts = sorted(attempts, key=itemgetter("cell_id", "attempt_id"))
    names = "attempt_id cell_id sample_id task_id trial attempt run_id status".split()
    states = [
        {name: row[name] for name in names}
        | {"state": "done", "started_at": _time(row.get("started_at"))}
        for row in attempts
    ]
    if states:
        connection.execute(sa.insert(cat.attempt_states), states)
    table = cat.cells.c
    for cell_id, group in groupby(attempts, itemgetter("cell_id")):
        rows = list(group)
        query = sa.select(table.samples, table.started_at, table.ended_at)
        count, started, ended = connection.execute(query.where(table.cell_id == cell_id)).one()
        for _, row in sorted({row["sample_id"]: row for row in rows}.items()):
            sample = {name: row[name] for name in ("sample_id", "cell_id", "task_id", "trial")}
            count += cat.insert_if_absent(connection, cat.samples, {**sample, "position": count})
        starts = [_time(row.get("started_at")) for row in rows] + [_time(started)]
        ends = [_time(row.get("ended_at")) for row in rows] + [_time(ended)]
        values = {"samples": count, "started_at": min(filter(None, starts), default=None)}
        values |= {"ended_at": max(filter(None, ends), default=None)}
        connection.execute(sa.update(cat.cells).where(table.cell_id == cell_id).values(values))


def _time(value: Any) -> datetime | None:
    """A time in UTC: SQLite returns times without a zone."""
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


@dataclass
class LogPositions:
    """The imported length of each log of each cell: one artifact per log, with a count of records.

    One object is used for one try of a transaction, in which `take` reads, and `changed` and
    `enter` run.
    """

    catalog: cat.Catalog
    format: str
    seen: dict[str, int] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    details: dict[str, tuple[str, Row]] = field(default_factory=dict)
    cells: dict[str, tuple[str, Cell]] = field(default_factory=dict)
    taken: int = 0
    there: int = 0

    def take(self, recording: ImportedRecords) -> tuple[str, str, Rows]:
        """Ids of the recording's sweep and cell, and its rows that are not imported yet."""
        sweep_id, cell_id = cell_keys(self.format, recording.cell)
        mark = artifact_id("recording", {"cell": cell_id, "stream": recording.stream})
        if mark not in self.seen:
            row = self.catalog.artifact(mark)
            self.seen[mark] = row["detail"]["records"] if row else 0
        done = self.moved.get(mark, self.seen[mark])
        skipped = min(max(done - recording.position, 0), recording.records)
        fresh = {
            table: _after(table, rows, skipped, recording.records)
            for table, rows in recording.rows.items()
        }
        self.there += skipped
        if skipped < recording.records:
            self.taken += recording.records - skipped
            self.moved[mark] = recording.position + recording.records
            self.details[mark] = (cell_id, {"stream": recording.stream})
            self.cells[cell_id] = (sweep_id, recording.cell)
        return sweep_id, cell_id, fresh

    def changed(self, connection: sa.Connection) -> bool:
        """Whether another import changed a position since `take`; later none can."""
        for mark in sorted(self.moved):
            cell_id, fields = self.details[mark]
            _artifact(connection, mark, {**fields, "records": 0}, [cell_id])
        column = cat.artifacts.c
        for mark in sorted(self.moved):
            query = sa.select(column.detail).where(column.artifact_id == mark)
            detail = connection.execute(query.with_for_update()).scalar_one()  # SQLite: one writer
            if json.loads(detail)["records"] != self.seen[mark]:
                return True
        return False

    def enter(self, connection: sa.Connection) -> None:
        for mark, records in self.moved.items():
            detail = self.details[mark][1]
            values = {"detail": json_text({**detail, "records": records}, ascii_only=True)}
            where = cat.artifacts.c.artifact_id == mark
            connection.execute(sa.update(cat.artifacts).where(where).values(values))


def _after(table: str, rows: list[Row], skipped: int, records: int) -> list[Row]:
    """The rows of all but the first `skipped` of `records` records."""
    if skipped in (0, records):
        return [] if skipped else rows
    if len(rows) % records:
        raise ValueError(
            f"{len(rows)} rows of {table} for {records} records, {skipped} of them in the store: "
            "the new rows cannot be identified"
        )
    return rows[skipped * (len(rows) // records) :]


BATCH = 2000  # small trials per commit: a commit costs several synced files, whatever its size
BATCH_CHARACTERS = 16_000_000  # large trials: bytes held in memory between commits
LISTED_PROBLEMS = 1000  # issues kept with their texts; the rest are counted
RACES = 50  # retries when another import enters the same trials first
TWICE = "is twice in this import; the first is taken"


@dataclass
class ImportReport:
    """Counts and issues of an import."""

    taken: int = 0
    """Attempts entered."""
    there: int = 0
    """Attempts that were already in the store."""
    records: int = 0
    """Records of logs entered."""
    records_there: int = 0
    """Log records that were already in the store."""
    problems: list[ImportIssue] = field(default_factory=list)
    """The first issues: values that could not be read, or were repaired."""
    problems_total: int = 0
    sweeps: dict[str, str] = field(default_factory=dict)
    """Names of all sweeps in the import, by id."""

    def add_problem(self, problem: ImportIssue) -> None:
        self.problems_total += 1
        if len(self.problems) < LISTED_PROBLEMS:
            self.problems.append(problem)


@dataclass(frozen=True)
class ImportOrigin:
    """The origin of an import."""

    file: Path = Path()
    """Named in issues of trials without a file."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Machine and code version, for the run's row."""


def load(
    catalog: cat.Catalog,
    source: Iterable[ImportedItem],
    format: str,
    batch: int = BATCH,
    origin: ImportOrigin | None = None,
    report: ImportReport | None = None,
) -> ImportReport:
    """Load everything that `source` yields; existing rows are skipped.

    The counts are added to `report`, which several imports may share.

    Raises StoreFull, StoreBusy, StoreError; earlier commits remain, and repeating the import loads
    the rest.
    """
    loader = _Loader(catalog, format, origin or ImportOrigin(), report or ImportReport())
    for item in source:
        loader.add(item)
        held = len(loader.trials) + len(loader.recordings)
        if held >= batch or loader.characters >= BATCH_CHARACTERS:
            loader.flush()
    loader.flush()
    with catalog.transaction() as connection:
        query = sa.update(cat.runs).where(cat.runs.c.run_id == loader.run_id)
        connection.execute(query.values(status="completed", ended_at=cat.now()))
    return loader.report


class _Race(Exception):
    """Another process entered part of a batch between the check and the transaction."""


class _Held(NamedTuple):
    keys: AttemptIds
    trial: ImportedAttempt
    rows: Rows


@dataclass
class _Loader:
    catalog: cat.Catalog
    format: str
    origin: ImportOrigin
    report: ImportReport
    run_id: str = field(default_factory=lambda: f"run:{uuid.uuid4().hex[:16]}")
    trials: dict[str, _Held] = field(default_factory=dict)
    recordings: list[ImportedRecords] = field(default_factory=list)
    characters: int = 0

    def add(self, item: ImportedItem) -> None:
        if isinstance(item, ImportIssue):
            self.report.add_problem(item)
        elif isinstance(item, ImportedRecords):
            self.recordings.append(item)
            self.characters += 100 * sum(map(len, item.rows.values()))
        else:
            self._add_trial(item)

    def _add_trial(self, trial: ImportedAttempt) -> None:
        try:
            keys = trial_keys(self.format, trial)
            rows = trial_rows(trial, keys, self.run_id)
            self.characters += _characters(rows)
        except KeyRefused as error:
            self._refuse(trial, str(error), error.field)
        except (*MISFITS, AttributeError) as error:
            self._refuse(trial, f"{type(error).__name__}: {error}")
        else:
            if keys.attempt_id in self.trials:
                self._refuse(trial, TWICE)
                return
            self.report.sweeps[keys.sweep_id] = title_of(trial.cell)
            self.trials[keys.attempt_id] = _Held(keys, trial, rows)

    def _refuse(
        self, item: ImportedAttempt | ImportedRecords, reason: str, field: str = ""
    ) -> None:
        if isinstance(item, ImportedRecords):
            self.report.add_problem(ImportIssue(self.origin.file, None, item.stream, reason))
            return
        which = f"task {item.task_id!r} trial {item.trial} attempt {item.attempt}"
        file = item.file or self.origin.file
        self.report.add_problem(ImportIssue(file, item.line, field, f"{which}: {reason}"))

    def flush(self) -> None:
        self._enter([*self.trials.values(), *self.recordings])
        self.trials, self.recordings, self.characters = {}, [], 0

    def _enter(self, items: list[_Held | ImportedRecords], is_repaired: bool = False) -> bool:
        """Commit the items. If the store refuses several, commit each half; a single refused one is
        repaired. If that does not suffice, an attempt is left out, and a recording loses its
        values. Return whether the store took all unchanged."""
        self.trials = {each.keys.attempt_id: each for each in items if isinstance(each, _Held)}
        self.recordings = [each for each in items if isinstance(each, ImportedRecords)]
        try:
            self._commit_new()
            return True
        except (RowRefused, *MISFITS) as error:
            items = [*self.trials.values(), *self.recordings]
            refusal = str(error)
        if len(items) > 1:
            half = len(items) // 2
            return all([self._enter(items[:half]), self._enter(items[half:])])
        (item,) = items
        source = item.trial if isinstance(item, _Held) else item
        if is_repaired:
            self._refuse(source, refusal)
            if isinstance(item, ImportedRecords):  # its rows stay: they are counted by position
                item.rows = {name: [{} for _ in rows] for name, rows in item.rows.items()}
                self._enter([item], is_repaired=True)
            return False
        rows = {name: [repaired(row) for row in some] for name, some in item.rows.items()}
        if isinstance(item, _Held):
            item = item._replace(rows=rows)
        else:
            item.rows = rows
        if self._enter([item], is_repaired=True):
            self._refuse(source, f"{refusal}; replaced by null or U+FFFD")
        return False

    def _commit_new(self) -> None:
        for _ in range(RACES):
            self._drop_known()
            marks = LogPositions(self.catalog, self.format)
            records = self._new_records(marks)
            if not self.trials and not marks.moved:
                break
            try:
                self._commit(records, marks)
                break
            except _Race:
                continue  # another process was faster: check again which rows remain to be added
            except sa.exc.IntegrityError as error:
                with self.catalog.engine.connect() as connection:
                    is_overtaken = bool(known_attempts(connection, self.trials))
                if not is_overtaken:  # only the content can be at fault; it remains so
                    reason = f"the catalog refuses these attempts: {error.orig}"
                    raise StoreError(f"{self.origin.file}: {reason}") from error
        else:
            raise StoreBusy(
                f"{self.catalog.home.root}: other imports enter the same attempts; try again later"
            )
        self.report.taken += len(self.trials)
        self.report.records += marks.taken
        self.report.records_there += marks.there

    def _drop_known(self) -> None:
        ids = {held.trial.origin: key for key, held in self.trials.items() if held.trial.origin}
        ids |= {key: key for key in self.trials}
        while ids:
            with self.catalog.engine.connect() as connection:
                known = known_attempts(connection, ids)
            again: list[ImportedAttempt] = []
            for attempt_id, (run_id, status) in known.items():
                held = self.trials.pop(ids[attempt_id], None)
                if held is None:
                    continue
                if run_id == self.run_id:
                    self._refuse(held.trial, TWICE)
                elif status == "infra_error" and held.trial.outcome.get("status") != status:
                    # Tools write a retry after such a failure in place of the failed attempt.
                    again.append(dataclasses.replace(held.trial, attempt=held.trial.attempt + 1))
                else:
                    self.report.there += 1
            before = set(self.trials)
            for trial in again:
                self._add_trial(trial)
            ids = {key: key for key in self.trials.keys() - before}

    def _new_records(self, marks: LogPositions) -> Rows:
        rows: Rows = {}
        for recording in list(self.recordings):
            try:
                sweep_id, cell_id, fresh = marks.take(recording)
            except (*MISFITS, AttributeError) as error:
                self._refuse(recording, str(error))
                self.recordings.remove(recording)
                continue
            self.report.sweeps[sweep_id] = title_of(recording.cell)
            for table, some in placed(fresh, recording.cell, sweep_id, cell_id).items():
                rows.setdefault(table, []).extend(some)
        return rows

    def _commit(self, records: Rows, marks: LogPositions) -> None:
        cells = dict(marks.cells)
        rows = {table: list(some) for table, some in records.items()}
        for keys, trial, own in self.trials.values():
            cells[keys.cell_id] = (keys.sweep_id, trial.cell)
            for table, some in own.items():
                rows.setdefault(table, []).extend(some)

        def complete(connection: sa.Connection) -> None:
            if known_attempts(connection, self.trials) or marks.changed(connection):
                raise _Race
            # Entered late, so that an import without new data leaves no run.
            run: Row = {"machine": "{}", "code_version": "unknown", **self.origin.about}
            run |= {"run_id": self.run_id, "flow": "import", "status": "running"}
            run |= {"params": json.dumps({"format": self.format}), "started_at": cat.now()}
            cat.insert_if_absent(connection, cat.runs, run)
            enter_cells(connection, self.format, cells)
            enter_attempts(connection, rows.get("attempts", []))
            marks.enter(connection)

        commit(self.catalog, rows, complete)


def _characters(rows: Rows) -> int:
    texts = [row.get(name) for row in rows["messages"] for name in ("content", "reasoning")]
    texts += [row.get(name) for row in rows["tool_runs"] for name in ("arguments", "result")]
    count = sum(len(text) for text in texts if isinstance(text, str))
    return count + sum(len(call.get("token_ids") or ()) * 8 for call in rows["calls"])
