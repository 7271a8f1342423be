"""Reads attempts from the store for an exporter.

In: a connection of `storage.connect` and a selection of attempts. Out: `ImportedAttempt` objects,
grouped by cell and ordered within a sample, read a few hundred at a time.
"""

import json
from collections.abc import Iterator, Sequence

import duckdb

from tutti.storage import TABLES
from tutti.tasks.exchange.base.imported import Cell, ImportedAttempt, Row

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
    sweep_names = dict(connection.execute("select sweep_id, name from sweeps").fetchall())
    for start in range(0, len(found), ATTEMPTS_AT_ONCE):
        yield from _read(connection, found[start : start + ATTEMPTS_AT_ONCE], sweep_names)


def _read(
    connection: duckdb.DuckDBPyConnection, some: list[tuple[str, str]], sweep_names: dict[str, str]
) -> Iterator[ImportedAttempt]:
    ids = [attempt_id for _, attempt_id in some]
    cells = sorted({cell_id for cell_id, _ in some})
    tables = {name: _grouped(connection, name, ids, cells, order) for name, order in ORDER.items()}
    heads = _grouped(connection, "attempts", ids, cells, "1")
    answers = connection.execute(
        "select task_id, first(answer order by template is not null) from tasks "
        "where task_id in (select unnest(?)) group by task_id",
        [sorted({rows[0]["task_id"] for rows in heads.values()})],
    )
    targets: dict[str, str | None] = dict(answers.fetchall())
    for attempt_id in ids:
        head = heads[attempt_id][0]
        sweep_id = head["sweep_id"]
        detail = {"cell_id": head["cell_id"], "sweep_id": sweep_id}
        if sweep_id in sweep_names:
            detail["sweep"] = sweep_names[sweep_id]
        cell = Cell(run=sweep_id, **{name: head[name] for name in POINT}, detail=detail)
        outcome = {n: v for n, v in head.items() if v is not None and n not in POINT + PLACES}
        trial = ImportedAttempt(cell, head["task_id"], head["trial"], head["attempt"], outcome)
        trial.origin = attempt_id
        for name, grouped in tables.items():
            rows = [_plain(row, attempt_id) for row in grouped.get(attempt_id, [])]
            setattr(trial, name, rows)
        details = [row["detail"] for row in trial.scores if '"target"' in row.get("detail", "")]
        scored = json.loads(details[0]).get("target") if details else None
        scored_against = scored if isinstance(scored, str) else None
        trial.target = targets.get(trial.task_id) or scored_against
        yield trial


def _grouped(
    connection: duckdb.DuckDBPyConnection, table: str, ids: list[str], cells: list[str], order: str
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


def _plain(row: Row, attempt_id: str) -> Row:
    """A row in an importer's form: without ids of the store, without nulls."""
    left_out = ("sweep_id", "cell_id", "attempt_id", "policy", "concurrency")
    kept = {n: value for n, value in row.items() if value is not None and n not in left_out}
    for name in ("call_id", "judge_call_id"):
        if name in kept:
            kept[name] = kept[name].removeprefix(f"{attempt_id}/")
    return kept
