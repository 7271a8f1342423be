"""Which cells of a plan have samples to run.

A cell that ended early is over as long as the suite asks for the same again.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.tasks.sweeps.plan.finished import finished_counts
from tutti.tasks.sweeps.plan.plan import Cell, Plan
from tutti.tasks.sweeps.plan.reasons import asked_reasons
from tutti.tasks.sweeps.spec import Suite


def missing_cells(plan: Plan, catalog: Catalog) -> list[Cell]:
    """The plan's cells that have samples to run, in order."""
    finished = finished_counts(catalog, plan.cells)
    rows = catalog.rows(sa.select(cat.cells).where(cat.cells.c.sweep_id == plan.sweep_id))
    over = {row["cell_id"] for row in rows if is_over(plan.suite, row)}
    return [
        cell
        for cell in plan.cells
        if finished[cell.cell_id] < len(cell.samples) and cell.cell_id not in over
    ]


def is_over(suite: Suite, row: Mapping[str, Any]) -> bool:
    """Whether a cell (`row` of `cells`) that ended early stays so: the suite still asks for what
    ended it."""
    if row["status"] != cat.ENDED_EARLY:
        return False
    return any(reason.is_of(row) for reason in asked_reasons(suite).values())
