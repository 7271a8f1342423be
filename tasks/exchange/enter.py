"""Catalog entries of an import: runs, sweeps, cells, samples, attempts, and positions in logs.

All changes of the catalog run inside the transaction that makes the rows visible.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from tutti.storage import artifact_id
from tutti.storage import catalog as cat
from tutti.tasks.exchange.imported import Cell, ImportedRecords, Row
from tutti.tasks.exchange.rows import Rows, cell_keys, json_text, repaired

IDS_AT_ONCE = 500  # bound variables of one statement; SQLite and PostgreSQL allow thousands


def known_attempts(
    connection: sa.Connection, ids: Iterable[str]
) -> dict[str, tuple[str, str | None]]:
    """Those of `ids` that the catalog has, with their status and the run that entered them."""
    columns = cat.attempt_states.c
    wanted = list(ids)
    known: dict[str, tuple[str, str | None]] = {}
    for start in range(0, len(wanted), IDS_AT_ONCE):
        some = wanted[start : start + IDS_AT_ONCE]
        query = sa.select(columns.attempt_id, columns.run_id, columns.status)
        for row in connection.execute(query.where(columns.attempt_id.in_(some))):
            known[row.attempt_id] = (row.run_id, row.status)
    return known


def enter_run(
    connection: sa.Connection, run_id: str, format: str, about: Mapping[str, str]
) -> None:
    """Enter the import as a run. Called late, so that an import without new data leaves no run."""
    row = {"machine": "{}", "code_version": "unknown", **about}
    row |= {"run_id": run_id, "flow": "import", "params": json.dumps({"format": format})}
    row |= {"status": "running"}
    cat.insert_if_absent(connection, cat.runs, {**row, "started_at": cat.now()})


def enter_cells(
    connection: sa.Connection, format: str, cells: Mapping[str, tuple[str, Cell]]
) -> None:
    """Enter sweeps, cells and their parents; existing ones are not changed."""
    for cell_id, (sweep_id, cell) in sorted(cells.items(), key=lambda item: item[0]):
        task_set_id = artifact_id(
            "task_set", {"format": format, "run": cell.run, "benchmark": cell.benchmark}
        )
        model_id = artifact_id("model", {"name": cell.model})
        name = title_of(cell)
        sweep = {"sweep_id": sweep_id, "name": name, "created_at": cat.now()}
        spec = json.dumps({"imported": format, "run": cell.run})
        cat.insert_if_absent(connection, cat.sweeps, {**sweep, "spec": spec})
        others = sa.select(sa.func.count()).where(cat.cells.c.sweep_id == sweep_id)
        position = connection.execute(others).scalar_one()
        row = {name: getattr(cell, name) for name in ("benchmark", "model", "policy", "repeat")}
        row |= {"cell_id": cell_id, "sweep_id": sweep_id, "concurrency": cell.concurrency}
        row |= {"position": position, "task_set_id": task_set_id, "index_id": "", "samples": 0}
        cat.insert_if_absent(connection, cat.cells, {**row, "status": cat.FINISHED})
        detail: Row = {"imported": format, "run": cell.run, "policy": cell.policy}
        detail |= {"concurrency": cell.concurrency, "repeat": cell.repeat, **cell.detail}
        benchmark = {"imported": format, "run": cell.run, "benchmark": cell.benchmark}
        _enter_artifact(connection, task_set_id, benchmark)
        _enter_artifact(connection, model_id, {"name": cell.model})
        _enter_artifact(connection, cell_id, detail, [task_set_id, model_id])
        _enter_artifact(connection, sweep_id, {"name": name}, [cell_id])


def title_of(cell: Cell) -> str:
    """The title of an imported cell's sweep: its run's own title, else the run."""
    title = str(repaired(str(cell.detail.get("title") or cell.run)))
    return title.replace("\0", " ")


def _enter_artifact(
    connection: sa.Connection, id: str, detail: Mapping[str, Any], parents: Iterable[str] = ()
) -> None:
    row = {"artifact_id": id, "kind": id.split(":", 1)[0], "created_at": cat.now()}
    cat.insert_if_absent(
        connection, cat.artifacts, {**row, "detail": json_text(dict(detail), ascii_only=True)}
    )
    for parent in parents:
        pair = {"artifact_id": id, "parent_id": parent}
        cat.insert_if_absent(connection, cat.artifact_parents, pair)


def enter_attempts(connection: sa.Connection, attempts: list[Row]) -> None:
    """Enter the states of attempts, their samples, and when their cells began and ended."""
    # In the same order in every process, so that two that enter the same rows wait and do not
    # deadlock.
    attempts = sorted(attempts, key=lambda row: str(row["attempt_id"]))
    names = "attempt_id cell_id sample_id task_id trial attempt run_id status".split()
    states = [{name: row[name] for name in names} for row in attempts]
    for state, row in zip(states, attempts, strict=True):
        state |= {"state": "done", "started_at": _time(row.get("started_at"))}
    if states:
        connection.execute(sa.insert(cat.attempt_states), states)
    by_cell: dict[str, list[Row]] = {}
    for row in attempts:
        by_cell.setdefault(row["cell_id"], []).append(row)
    for cell_id, rows in sorted(by_cell.items()):
        _count_samples(connection, cell_id, rows)


def _count_samples(connection: sa.Connection, cell_id: str, rows: list[Row]) -> None:
    table = cat.cells.c
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

    One object is used for one try of a transaction: `take` reads, `changed` and `enter` are part of
    it.
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
        """Ids of the recording's sweep and cell, and those of its rows that are not imported
        yet."""
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
        """Whether another import changed a position since it was read; if not, none can until the
        commit."""
        for mark in sorted(self.moved):
            cell_id, detail = self.details[mark]
            _enter_artifact(connection, mark, {**detail, "records": 0}, [cell_id])
        return any(_records(connection, mark) != self.seen[mark] for mark in sorted(self.moved))

    def enter(self, connection: sa.Connection) -> None:
        """Enter the new positions."""
        for mark, records in self.moved.items():
            detail = self.details[mark][1]
            values = {"detail": json_text({**detail, "records": records}, ascii_only=True)}
            where = cat.artifacts.c.artifact_id == mark
            connection.execute(sa.update(cat.artifacts).where(where).values(values))


def _records(connection: sa.Connection, mark: str) -> int:
    query = sa.select(cat.artifacts.c.detail).where(cat.artifacts.c.artifact_id == mark)
    detail = connection.execute(query.with_for_update()).scalar_one()  # SQLite has one writer
    return int(json.loads(detail)["records"])


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
