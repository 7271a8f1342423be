"""Reads attempts from the store for an exporter.

In: a connection of `storage.connect` and a selection of attempts. Out: `ImportedAttempt` objects,
grouped by cell and ordered within a sample, read a few hundred at a time.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb

from tutti.storage import TABLES
from tutti.tasks.exchange.imported import Cell, ImportedAttempt, Row

ATTEMPTS_AT_ONCE = 256  # of any length: at 100 kB of text each this is some tens of megabytes
ORDER = {
    "messages": "position",
    "calls": "step, sent_at, call_id",
    "tool_runs": "step, started_at",
    "retrievals": "step",
    "scores": "scored_at, scorer",
}
POINT = ("benchmark", "model", "policy", "concurrency", "repeat")
PLACES = ("run_id", "sweep_id", "cell_id", "sample_id", "attempt_id", "task_id", "trial", "attempt")


def stored_trials(
    connection: duckdb.DuckDBPyConnection,
    where: str | None = None,
    *,
    sweeps: Sequence[str] = (),
    cells: Sequence[str] = (),
    attempts: Sequence[str] = (),
) -> Iterator[ImportedAttempt]:
    """Stored trials by ids and by `where`, an SQL predicate over the columns of `attempts`. Without
    either, all of them. Raises duckdb.Error for an invalid predicate."""
    conditions, values = [], []
    for column, ids in (("sweep_id", sweeps), ("cell_id", cells), ("attempt_id", attempts)):
        if ids:
            conditions.append(f"{column} in (select unnest(?))")
            values.append(list(ids))
    if where:
        conditions.append(f"({where}\n)")  # on a separate line: the predicate may end in a comment
    chosen = " and ".join(conditions) or "true"
    found = connection.execute(
        f"select cell_id, attempt_id from attempts where {chosen} "
        "order by cell_id, task_id, trial, attempt",
        values,
    ).fetchall()
    details = _cell_details(connection)
    for start in range(0, len(found), ATTEMPTS_AT_ONCE):
        some = found[start : start + ATTEMPTS_AT_ONCE]
        yield from _read(connection, some, details)


def _read(
    connection: duckdb.DuckDBPyConnection,
    some: list[tuple[str, str]],
    details: dict[str, dict[str, str]],
) -> Iterator[ImportedAttempt]:
    ids = [attempt_id for _, attempt_id in some]
    cells = sorted({cell_id for cell_id, _ in some})
    tables = {name: _grouped(connection, name, ids, cells, order) for name, order in ORDER.items()}
    heads = {
        attempt_id: rows[0]
        for attempt_id, rows in _grouped(connection, "attempts", ids, cells, "1").items()
    }
    targets = _targets(connection, sorted({head["task_id"] for head in heads.values()}))
    for attempt_id in ids:
        rows = {name: grouped.get(attempt_id, []) for name, grouped in tables.items()}
        trial = _trial(heads[attempt_id], rows, details)
        trial.target = targets.get(trial.task_id) or _scored_against(trial)
        yield trial


def _grouped(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    ids: list[str],
    cells: list[str],
    order: str,
) -> dict[str, list[Row]]:
    columns = ", ".join(TABLES[table].names)
    # Parts of the first schema have messages and scores without a cell.
    near = "(cell_id is null or cell_id in (select unnest(?)))"
    result = connection.sql(
        f"select {columns} from {table} where {near} and attempt_id in (select unnest(?)) "
        f"order by attempt_id, {order}",
        params=[cells, ids],
    ).to_arrow_table()
    grouped: dict[str, list[Row]] = {}
    for row in result.to_pylist():
        grouped.setdefault(row["attempt_id"], []).append(row)
    return grouped


def _trial(
    head: Row, rows: dict[str, list[Row]], details: dict[str, dict[str, str]]
) -> ImportedAttempt:
    attempt_id, cell_id = head["attempt_id"], head["cell_id"]
    names = details.get(head["sweep_id"], {})
    detail = {"cell_id": cell_id, "sweep_id": head["sweep_id"], **names}
    point = {name: head[name] for name in POINT}
    cell = Cell(run=head["sweep_id"], **point, detail=detail)
    outcome = {
        name: value
        for name, value in head.items()
        if value is not None and name not in POINT and name not in PLACES
    }
    trial = ImportedAttempt(cell, head["task_id"], head["trial"], head["attempt"], outcome)
    for name, some in rows.items():
        setattr(trial, name, [_plain(row, attempt_id) for row in some])
    trial.origin = attempt_id
    return trial


def _plain(row: Row, attempt_id: str) -> Row:
    """A row in an importer's form: without ids of the store, without nulls."""
    dropped = ("sweep_id", "cell_id", "attempt_id", "policy", "concurrency")
    kept = {name: value for name, value in row.items() if value is not None}
    for name in dropped:
        kept.pop(name, None)
    for name in ("call_id", "judge_call_id"):
        if name in kept:
            kept[name] = kept[name].removeprefix(f"{attempt_id}/")
    return kept


def _cell_details(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, Any]]:
    rows = connection.execute("select sweep_id, name from sweeps").fetchall()
    return {sweep_id: {"sweep": name} for sweep_id, name in rows}


def _targets(connection: duckdb.DuckDBPyConnection, task_ids: list[str]) -> dict[str, str]:
    rows = connection.execute(
        "select task_id, first(answer order by template is not null) from tasks "
        "where task_id in (select unnest(?)) group by task_id",
        [task_ids],
    ).fetchall()
    return {task_id: answer for task_id, answer in rows if answer is not None}


def _scored_against(trial: ImportedAttempt) -> str | None:
    for row in trial.scores:
        if (detail := row.get("detail")) and '"target"' in detail:
            target = json.loads(detail).get("target")
            return target if isinstance(target, str) else None
    return None
