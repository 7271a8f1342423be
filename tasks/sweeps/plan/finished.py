"""Which samples of a plan are finished: those with an attempt whose outcome is the model's own."""

from collections.abc import Sequence

import sqlalchemy as sa

from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.tasks.sweeps.plan.plan import Cell

IDS_AT_ONCE = 500  # bound variables of one statement


def finished_samples(catalog: Catalog, cell: Cell) -> set[str]:
    """Ids of the cell's samples that have an attempt whose outcome is the model's own."""
    states = cat.attempt_states
    query = sa.select(states.c.sample_id).where(states.c.cell_id == cell.cell_id, is_finished())
    return {row["sample_id"] for row in catalog.rows(query)}


def finished_counts(catalog: Catalog, cells: Sequence[Cell]) -> dict[str, int]:
    """How many such samples each of `cells` has, by cell id: one question for a whole sweep."""
    states, ids = cat.attempt_states, [cell.cell_id for cell in cells]
    counts = dict.fromkeys(ids, 0)
    for start in range(0, len(ids), IDS_AT_ONCE):
        some = states.c.cell_id.in_(ids[start : start + IDS_AT_ONCE])
        n = sa.func.count(sa.distinct(states.c.sample_id)).label("n")
        query = sa.select(states.c.cell_id, n).where(some, is_finished())
        for row in catalog.rows(query.group_by(states.c.cell_id)):
            counts[row["cell_id"]] = row["n"]
    return counts


def is_finished() -> "sa.ColumnElement[bool]":
    """Of a row of `attempt_states`: it has ended, and not by the machine's fault."""
    states = cat.attempt_states
    counts = states.c.status.not_in(("infra_error", "cancelled"))
    return (states.c.state == "done") & counts
