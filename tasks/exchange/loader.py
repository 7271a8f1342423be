"""Loads what an importer yields into the store: every attempt and every log record exactly once.

In: `ImportedAttempt`, `ImportedRecords` and `ImportIssue` objects, in any order. Out: rows and an
`ImportReport`. Ids follow from the content. The attempt's state is entered in the transaction that
makes its rows visible. An import that is repeated, was killed or runs twice at once therefore adds
what is missing and nothing else.
"""

import dataclasses
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from tutti.storage import RowRefused, StoreBusy, StoreError, commit
from tutti.storage import catalog as cat
from tutti.tasks.exchange.enter import (
    LogPositions,
    enter_attempts,
    enter_cells,
    enter_run,
    known_attempts,
    title_of,
)
from tutti.tasks.exchange.imported import (
    ImportedAttempt,
    ImportedItem,
    ImportedRecords,
    ImportIssue,
)
from tutti.tasks.exchange.rows import (
    MISFITS,
    AttemptIds,
    KeyRefused,
    Rows,
    placed,
    repair,
    trial_keys,
    trial_rows,
)

BATCH = 2000  # small trials per commit: a commit costs several synced files, whatever its size
BATCH_CHARACTERS = 16_000_000  # large trials: bytes held in memory between commits
LISTED_PROBLEMS = 1000  # issues kept with their texts; the rest are counted
RACES = 50  # retries when another import enters the same trials first


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
    """How many problems there were."""
    sweeps: dict[str, str] = field(default_factory=dict)
    """Names of all sweeps in the import, by id."""

    def add_problem(self, problem: ImportIssue) -> None:
        """Count a problem, and keep it while there is room."""
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


UNKNOWN_ORIGIN = ImportOrigin()


def load(
    catalog: cat.Catalog,
    source: Iterable[ImportedItem],
    format: str,
    batch: int = BATCH,
    origin: ImportOrigin = UNKNOWN_ORIGIN,
    report: ImportReport | None = None,
) -> ImportReport:
    """Load everything that `source` yields; existing rows are skipped.

    The counts are added to `report`, which several imports may share.

    Raises StoreFull, StoreBusy, StoreError; earlier commits remain, and repeating the import loads
    the rest.
    """
    loader = _Loader(catalog, format, origin.file, origin.about, report or ImportReport())
    for item in source:
        loader.add(item)
        if loader.held >= batch or loader.characters >= BATCH_CHARACTERS:
            loader.flush()
    loader.flush()
    loader.close()
    return loader.report


class _Race(Exception):
    """Another process entered part of a batch between the check and the transaction."""


@dataclass
class _Loader:
    catalog: cat.Catalog
    format: str
    file: Path
    about: Mapping[str, str]
    report: ImportReport
    run_id: str = field(default_factory=lambda: f"run:{uuid.uuid4().hex[:16]}")
    trials: dict[str, tuple[AttemptIds, ImportedAttempt, Rows]] = field(default_factory=dict)
    recordings: list[ImportedRecords] = field(default_factory=list)
    characters: int = 0

    @property
    def held(self) -> int:
        """How much is held for the next commit."""
        return len(self.trials) + len(self.recordings)

    def add(self, item: ImportedItem) -> None:
        """Count an issue; hold a trial or a recording for the next commit."""
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
            self._refuse(trial, error.field, str(error))
            return
        except (*MISFITS, AttributeError) as error:
            self._refuse(trial, "", f"{type(error).__name__}: {error}")
            return
        if keys.attempt_id in self.trials:
            self._refuse(trial, "", "is twice in this import; the first is taken")
            return
        self.report.sweeps[keys.sweep_id] = title_of(trial.cell)
        self.trials[keys.attempt_id] = (keys, trial, rows)

    def _refuse(self, trial: ImportedAttempt, field: str, reason: str) -> None:
        which = f"task {trial.task_id!r} trial {trial.trial} attempt {trial.attempt}"
        said = ImportIssue(trial.file or self.file, trial.line, field, f"{which}: {reason}")
        self.report.add_problem(said)

    def flush(self) -> None:
        """Commit the attempts and records held so far."""
        repaired = False
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
                if not self._is_overtaken():  # only the content can be at fault; it remains so
                    reason = f"the catalog refuses these attempts: {error.orig}"
                    raise StoreError(f"{self.file}: {reason}") from error
            except (RowRefused, *MISFITS):
                if repaired:
                    raise
                self._repair()
                repaired = True
        else:
            raise StoreBusy(
                f"{self.catalog.home.root}: other imports enter the same attempts; try again later"
            )
        self.report.taken += len(self.trials)
        self.report.records += marks.taken
        self.report.records_there += marks.there
        self.trials, self.recordings, self.characters = {}, [], 0

    def _drop_known(self) -> None:
        ids = {trial.origin: key for key, (_, trial, _) in self.trials.items() if trial.origin}
        ids |= {key: key for key in self.trials}
        while ids:
            with self.catalog.engine.connect() as connection:
                known = known_attempts(connection, ids)
            again: list[ImportedAttempt] = []
            for attempt_id, (run_id, status) in known.items():
                found = self.trials.pop(ids[attempt_id], None)
                if found is None:
                    continue
                if run_id == self.run_id:
                    self._refuse(found[1], "", "is twice in this import; the first is taken")
                elif _is_retry(found[1], status):
                    again.append(dataclasses.replace(found[1], attempt=found[1].attempt + 1))
                else:
                    self.report.there += 1
            ids = {}
            for trial in again:
                before = set(self.trials)
                self._add_trial(trial)
                ids |= {key: key for key in self.trials.keys() - before}

    def _is_overtaken(self) -> bool:
        """Whether another import has entered some of the attempts held."""
        with self.catalog.engine.connect() as connection:
            return bool(known_attempts(connection, self.trials))

    def _new_records(self, marks: LogPositions) -> Rows:
        rows: Rows = {}
        for recording in list(self.recordings):
            try:
                sweep_id, cell_id, fresh = marks.take(recording)
            except (*MISFITS, AttributeError) as error:
                self.report.add_problem(ImportIssue(self.file, None, recording.stream, str(error)))
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
            enter_run(connection, self.run_id, self.format, self.about)
            enter_cells(connection, self.format, cells)
            enter_attempts(connection, rows.get("attempts", []))
            marks.enter(connection)

        commit(self.catalog, rows, complete)

    def _repair(self) -> None:
        """After a refusal: repair values if possible; drop attempts with other invalid values."""
        for key, (_, trial, rows) in list(self.trials.items()):
            for table, place, name, reason, done in repair(rows):
                self._refuse(trial, f"{table}.{place}.{name}", reason)
                if not done:
                    self.trials.pop(key, None)
        for recording in self.recordings:
            for table, place, name, reason, done in repair(recording.rows):
                where = f"{recording.stream}.{table}.{place}.{name}"
                self.report.add_problem(ImportIssue(self.file, None, where, reason))
                if not done:  # the row stays: rows are counted to know which records are imported
                    recording.rows[table][place].pop(name)

    def close(self) -> None:
        """Mark the import as complete in the run's row."""
        ended = {"status": "completed", "ended_at": cat.now()}
        with self.catalog.transaction() as connection:
            where = cat.runs.c.run_id == self.run_id
            connection.execute(sa.update(cat.runs).where(where).values(ended))


def _is_retry(trial: ImportedAttempt, known: str | None) -> bool:
    """Whether a trial followed an infrastructure failure: tools then write it in the failed one's
    place."""
    return known == "infra_error" and trial.outcome.get("status") != "infra_error"


def _characters(rows: Rows) -> int:
    texts = [row.get(name) for row in rows["messages"] for name in ("content", "reasoning")]
    texts += [row.get(name) for row in rows["tool_runs"] for name in ("arguments", "result")]
    count = sum(len(text) for text in texts if isinstance(text, str))
    return count + sum(len(call.get("token_ids") or ()) * 8 for call in rows["calls"])
