"""Programs in the catalog: running, done, and those of a killed gateway."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.base.lineage import artifact_id
from tutti.storage.catalog.leasing import holder_of
from tutti.storage.programs.tally import (
    BENCHMARK,
    WORKER_LOST,
    ProgramCell,
    ProgramTally,
    sample_of,
    sweep_of_gateway,
)
from tutti.storage.read.views import query
from tutti.storage.write.writer import commit

IDS_AT_ONCE = 500  # bound variables of one statement
CALLS = """
select attempt_id, cell_id, role, model, endpoint, sent_at, ended_at, held_s, prompt_tokens,
       cached_tokens, completion_tokens, finish_reason, status, http_status, cost_usd
from calls where attempt_id in (select unnest($ids)) order by ended_at
"""
ANSWERS = """
select attempt_id, sum(len(tool_calls)) as tool_calls, arg_max(content, position) as answer
from messages where attempt_id in (select unnest($ids))
    and role = 'assistant' and call_id is not null
group by attempt_id
"""


def begin_program(
    connection: sa.Connection, attempt_id: str, cell: ProgramCell, run_id: str, at: datetime
) -> None:
    """Enter a program as running since `at`, with its cell, inside the caller's transaction. An
    existing id, of a sweep's attempt or of a program, is not changed."""
    _enter_cell(connection, cell)
    sample_id = sample_of(cell.cell_id, attempt_id)
    row: dict[str, Any] = {"attempt_id": attempt_id, "cell_id": cell.cell_id}
    row["sample_id"] = sample_id
    row |= {"task_id": attempt_id, "trial": 0, "attempt": 1, "run_id": run_id}
    entered = cat.insert_if_absent(
        connection, cat.attempt_states, {**row, "state": "running", "started_at": at}
    )
    if not entered:
        return
    cells = cat.cells
    count = connection.execute(
        sa.select(cells.c.samples).where(cells.c.cell_id == cell.cell_id)
    ).scalar_one()
    sample = {"sample_id": sample_id, "cell_id": cell.cell_id, "task_id": attempt_id, "trial": 0}
    cat.insert_if_absent(connection, cat.samples, {**sample, "position": count})
    values = {"samples": count + 1, "ended_at": at}
    connection.execute(sa.update(cells).where(cells.c.cell_id == cell.cell_id).values(values))


def end_program(connection: sa.Connection, attempt_id: str, status: str) -> None:
    """End a running program inside the caller's transaction."""
    states = cat.attempt_states
    mine = (states.c.attempt_id == attempt_id) & (states.c.state == "running")
    connection.execute(sa.update(states).where(mine).values(state="done", status=status))


def may_end(catalog: cat.Catalog, attempt_id: str, cell_id: str) -> bool:
    """Whether the attempt of a program of the cell may be written: its id is new or running."""
    states = cat.attempt_states.c
    wanted = sa.select(states.state, states.cell_id).where(states.attempt_id == attempt_id)
    running = ("running", cell_id)
    return all((row["state"], row["cell_id"]) == running for row in catalog.rows(wanted))


def known_programs(catalog: cat.Catalog, name: str) -> dict[str, str]:
    """Return the programs of a gateway's name, each with its state."""
    states, cells = cat.attempt_states.c, cat.cells.c
    wanted = sa.select(states.attempt_id, states.state).join(
        cat.cells, cells.cell_id == states.cell_id
    )
    rows = catalog.rows(wanted.where(cells.sweep_id == sweep_of_gateway(name)))
    return {row["attempt_id"]: row["state"] for row in rows}


def read_tallies(catalog: cat.Catalog, ids: Sequence[str]) -> dict[str, ProgramTally]:
    """Return the usage of the stored calls of running programs, by attempt."""
    if not ids:
        return {}
    cells = _cells_of(catalog, ids)
    tallies = {each: ProgramTally(each, cells[each]) for each in ids if each in cells}
    given = {"ids": list(tallies)}
    for call in query(CALLS, catalog.home, given):
        tallies[call["attempt_id"]].take(call)
    for said in query(ANSWERS, catalog.home, given):
        tally = tallies[said["attempt_id"]]
        tally.tool_calls, tally.answer = int(said["tool_calls"] or 0), said["answer"] or None
    return tallies


def lost_programs(catalog: cat.Catalog) -> list[str]:
    """Return programs entered as running although no gateway of their name runs."""
    states, cells, sweeps = cat.attempt_states.c, cat.cells.c, cat.sweeps.c
    wanted = (
        sa.select(states.attempt_id, sweeps.sweep_id, sweeps.spec)
        .join(cat.cells, cells.cell_id == states.cell_id)
        .join(cat.sweeps, sweeps.sweep_id == cells.sweep_id)
        .where(states.state == "running", cells.benchmark == BENCHMARK)
    )
    rows = [row for row in catalog.rows(wanted) if json.loads(row["spec"]).get("gateway")]
    gone = {each: holder_of(catalog, each) is None for each in {row["sweep_id"] for row in rows}}
    return [row["attempt_id"] for row in rows if gone[row["sweep_id"]]]


def record_lost(catalog: cat.Catalog, ids: Sequence[str], run_id: str) -> int:
    """Write the attempts that a killed gateway left running; return their number.

    They are void (``cancelled``, ``worker_lost``), as those of a killed sweep, because their end is
    unknown. An attempt whose row was committed before its state only gets its state.
    """
    done = 0
    for start in range(0, len(ids), IDS_AT_ONCE):
        some = list(ids[start : start + IDS_AT_ONCE])
        sql = "select attempt_id, status from attempts where attempt_id in (select unnest($ids))"
        written = {
            row["attempt_id"]: row["status"] for row in query(sql, catalog.home, {"ids": some})
        }
        tallies = read_tallies(catalog, [each for each in some if each not in written])
        rows = [tally.row(WORKER_LOST, run_id) for tally in tallies.values()]
        ended = written | {row["attempt_id"]: row["status"] for row in rows}

        def complete(connection: sa.Connection, ended: Mapping[str, str] = ended) -> None:
            for attempt_id, status in ended.items():
                end_program(connection, attempt_id, status)

        commit(catalog, {"attempts": rows}, complete)
        done += len(rows)
    return done


def _cells_of(catalog: cat.Catalog, ids: Iterable[str]) -> dict[str, ProgramCell]:
    states, cells, sweeps = cat.attempt_states.c, cat.cells.c, cat.sweeps.c
    wanted = (
        sa.select(states.attempt_id, sweeps.name, cells.model, cells.policy)
        .join(cat.cells, cells.cell_id == states.cell_id)
        .join(cat.sweeps, sweeps.sweep_id == cells.sweep_id)
    )
    found = {}
    for some in cat.any_of(states.attempt_id, list(ids)):
        for row in catalog.rows(wanted.where(some)):
            cell = ProgramCell(row["name"], row["model"], row["policy"])
            found[row["attempt_id"]] = cell
    return found


def _enter_cell(connection: sa.Connection, cell: ProgramCell) -> None:
    sweep_id, at = cell.sweep_id, cat.now()
    spec = json.dumps({"gateway": cell.name})
    sweep = {"sweep_id": sweep_id, "name": cell.name, "spec": spec, "created_at": at}
    cat.insert_if_absent(connection, cat.sweeps, sweep)
    cells = cat.cells.c
    position = connection.execute(
        sa.select(sa.func.count()).where(cells.sweep_id == sweep_id)
    ).scalar_one()
    task_set_id = artifact_id("task_set", {"gateway": cell.name})
    row: dict[str, Any] = {"cell_id": cell.cell_id, "sweep_id": sweep_id, "benchmark": BENCHMARK}
    row |= {"model": cell.model, "policy": cell.policy, "repeat": 0, "position": position}
    row |= {"task_set_id": task_set_id, "index_id": "", "samples": 0, "status": cat.FINISHED}
    if not cat.insert_if_absent(connection, cat.cells, {**row, "started_at": at}):
        return
    model_id = artifact_id("model", {"name": cell.model})
    cat.enter_artifact(connection, task_set_id, {"gateway": cell.name})
    cat.enter_artifact(connection, model_id, {"name": cell.model})
    detail = {"gateway": cell.name, "policy": cell.policy}
    cat.enter_artifact(connection, cell.cell_id, detail, (task_set_id, model_id))
    cat.enter_artifact(connection, sweep_id, {"name": cell.name}, (cell.cell_id,))
