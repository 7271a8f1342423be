"""Entry of a plan in the catalog: its sweep, cells, samples and artifacts, all or nothing.

A sweep's id does not include the settings of its points, such as the limit of `cap`, the load or,
for a grid, its engines. So a point measured with other settings is a new cell beside the old one,
which is marked as superseded: readers see the cells whose ids the newest plan has. Policy labels do
not matter here, because they depend on the other policies of the suite. The old cell's rows stay,
and its state is restored when a plan names it again.
"""

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.tasks.sweeps.plan.missing import EndReason, is_finished
from tutti.tasks.sweeps.plan.plan import Plan
from tutti.tasks.sweeps.spec import policy_in

PLANNED = "planned"


def enter_plan(plan: Plan, catalog: Catalog) -> None:
    """Enter the sweep and its cells, all or nothing; existing ones keep their state."""
    with catalog.transaction() as connection:
        spec = (plan.whole or plan.suite).model_dump_json()
        sweep = {"sweep_id": plan.sweep_id, "name": plan.suite.name, "created_at": cat.now()}
        # First: another process that enters the same sweep waits here, and then knows its cells.
        cat.upsert(connection, cat.sweeps, sweep | {"spec": spec})
        ids = [cell.cell_id for cell in plan.cells]
        _rename(connection, plan)
        rows = [
            {
                "cell_id": cell.cell_id,
                "sweep_id": plan.sweep_id,
                "benchmark": plan.suite.benchmark_name,
                "model": plan.config.model_name,
                "policy": cell.policy,
                "concurrency": cell.concurrency,
                "repeat": cell.repeat,
                "position": position,
                "task_set_id": plan.config.task_set.task_set_id,
                "index_id": plan.config.index_id or "",
                "engine_id": plan.config.engine_id,
                "samples": len(cell.samples),
                "status": PLANNED,
            }
            for position, cell in enumerate(plan.cells)
        ]
        cat.insert_new(connection, cat.cells, rows)
        bare = _without_samples(connection, ids)
        samples = [
            {
                "sample_id": sample.sample_id,
                "cell_id": cell.cell_id,
                "task_id": sample.task.task_id,
                "trial": sample.trial,
                "position": position,
            }
            for cell in plan.cells
            if cell.cell_id in bare
            for position, sample in enumerate(cell.samples)
        ]
        cat.insert_new(connection, cat.samples, samples)
        supersede(plan, connection)
        _complete_finished(plan, connection)
        _enter_artifacts(plan, connection)


def _rename(connection: sa.Connection, plan: Plan) -> None:
    """Update the names of model and policy of known cells to today's registry and suite: neither
    the entry's name nor a policy's label is in a cell's id."""
    cells, model = cat.cells.c, plan.config.model_name
    for label in {cell.policy for cell in plan.cells}:
        ids = [cell.cell_id for cell in plan.cells if cell.policy == label]
        for some in cat.any_of(cells.cell_id, ids):
            other = sa.or_(cells.model != model, cells.policy != label)
            change = sa.update(cat.cells).where(some, other)
            connection.execute(change.values(model=model, policy=label))


def _without_samples(connection: sa.Connection, ids: Sequence[str]) -> set[str]:
    """Return cells whose samples are not entered: new ones, and those that retention removed."""
    cells, samples = cat.cells.c, cat.samples.c
    entered = sa.exists().where(samples.cell_id == cells.cell_id)
    bare: set[str] = set()
    for some in cat.any_of(cells.cell_id, ids):
        bare |= set(connection.execute(sa.select(cells.cell_id).where(some, ~entered)).scalars())
        removed = sa.update(cat.cells).where(some, cells.status == cat.EXPIRED)
        times = {"started_at": None, "ended_at": None}
        connection.execute(removed.values(status=PLANNED, **times, **EndReason.columns_of(None)))
    return bare


def _complete_finished(plan: Plan, connection: sa.Connection) -> None:
    """Mark finished cells whose run was killed before it did so; no other run would."""
    cells, states = cat.cells.c, cat.attempt_states.c
    finished = sa.select(sa.func.count(sa.distinct(states.sample_id)))
    finished = finished.where(states.cell_id == cells.cell_id, is_finished())
    ended = sa.func.coalesce(cells.ended_at, cat.now())
    connection.execute(
        sa.update(cat.cells)
        .where(cells.sweep_id == plan.sweep_id, cells.status.in_(("running", "incomplete")))
        .where(cells.samples <= finished.scalar_subquery())
        .values(status=cat.FINISHED, ended_at=ended)
    )


def _enter_artifacts(plan: Plan, connection: sa.Connection) -> None:
    """Enter the cells and their sweep with their parents, as `enter_artifact` does one by one."""
    details: dict[str, dict[str, Any]] = {}
    for cell in plan.cells:
        point = {"policy": cell.policy, "concurrency": cell.concurrency, "repeat": cell.repeat}
        details[cell.cell_id] = point
    rows = [
        {
            "artifact_id": each,
            "kind": each.split(":", 1)[0],
            "detail": json.dumps(detail, sort_keys=True),
            "created_at": cat.now(),
        }
        for each, detail in (details | {plan.sweep_id: {"name": plan.suite.name}}).items()
    ]
    pairs = [(plan.sweep_id, cell_id) for cell_id in details]
    pairs += [(cell_id, parent) for cell_id in details for parent in plan.config.parents]
    links = [{"artifact_id": each, "parent_id": parent} for each, parent in pairs]
    cat.insert_new(connection, cat.artifacts, rows)
    cat.insert_new(connection, cat.artifact_parents, links)


def supersede(plan: "Plan", connection: sa.Connection) -> None:
    """Mark the sweep's cells at the plan's points whose ids the plan lacks as superseded; restore
    the state of those that it has again. Runs within the caller's transaction.

    A plan has all current cells of its policies at its levels, under any label; a probe does not
    touch the suite's other policies.
    """
    cells = cat.cells.c
    found = connection.execute(
        sa.select(cat.cells)
        .where(cells.sweep_id == plan.sweep_id)
        .where(cells.benchmark == plan.suite.benchmark_name)
        .where(cells.model == plan.config.model_name)
    ).mappings()
    points = {(cell.scheduling.name, cell.concurrency, cell.repeat) for cell in plan.cells}
    suite = plan.whole or plan.suite
    others = suite.each_policy.keys() - {cell.policy for cell in plan.cells}
    named = {cell.cell_id for cell in plan.cells}
    changed: dict[str, list[str]] = {}
    for row in found.all():
        point = (policy_in(row["policy"]), row["concurrency"], row["repeat"])
        is_current = row["status"] != cat.SUPERSEDED
        if row["cell_id"] in named and not is_current:
            # One that lacks nothing is finished: `enter_plan` says so of all of them at once.
            ended = row["reason_code"] in cat.ENDING_REASONS
            status = cat.ENDED_EARLY if ended else "incomplete"
            changed.setdefault(status, []).append(row["cell_id"])
        is_replaced = row["cell_id"] not in named and point in points and is_current
        if is_replaced and row["policy"] not in others:
            changed.setdefault(cat.SUPERSEDED, []).append(row["cell_id"])
    for status, ids in changed.items():
        for some in cat.any_of(cells.cell_id, ids):
            connection.execute(sa.update(cat.cells).where(some).values(status=status))
