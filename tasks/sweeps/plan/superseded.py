"""Cells that another has taken the place of: the same point of a sweep, measured otherwise.

A sweep's id does not hold what its points are, such as the cap of `cap`, the load or, of a grid,
its engines; so a point that is measured otherwise than before is a new cell beside the old one.
Readers see the one that the newest plan names. The old one's rows stay, and so does its way back.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tutti.storage import catalog as cat

if TYPE_CHECKING:
    from tutti.tasks.sweeps.plan.plan import Plan

POINT = ("benchmark", "model", "policy", "concurrency", "repeat")


def supersede(plan: "Plan", connection: sa.Connection) -> None:
    """Mark the sweep's cells whose point is the plan's and that the plan does not name; give those
    that it names again their state back. Within the caller's transaction."""
    cells = cat.cells.c
    found = connection.execute(
        sa.select(cells.cell_id, cells.status, cells.reason_code, *map(_column, POINT))
        .where(cells.sweep_id == plan.sweep_id)
        .where(cells.benchmark == plan.suite.benchmark_name, cells.model == plan.set_up.served_name)
    ).mappings()
    points = {(cell.policy, cell.concurrency, cell.repeat) for cell in plan.cells}
    named = {cell.cell_id for cell in plan.cells}
    old: list[str] = []
    for row in found.all():
        point = (row["policy"], row["concurrency"], row["repeat"])
        if row["cell_id"] in named and row["status"] == cat.SUPERSEDED:
            # One that lacks nothing is finished: `enter_plan` says so of all of them at once.
            ended = row["reason_code"] in cat.ENDING_REASONS
            _set(connection, [row["cell_id"]], cat.ENDED_EARLY if ended else "incomplete")
        elif row["cell_id"] not in named and point in points and row["status"] != cat.SUPERSEDED:
            old.append(row["cell_id"])
    _set(connection, old, cat.SUPERSEDED)


def _column(name: str) -> "sa.Column[str]":
    return cat.cells.c[name]


def _set(connection: sa.Connection, ids: Sequence[str], status: str) -> None:
    if ids:
        which = cat.cells.c.cell_id.in_(ids)
        connection.execute(sa.update(cat.cells).where(which).values(status=status))
