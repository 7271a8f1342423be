"""Who watches a cell: for a latency that is surely too high, an accuracy that is decided.

In: a suite's `saturation` and `stop_when_sure`, and what of the cell and of its level is stored.
Out: watches, which know the samples that an earlier run finished. A cell that ended early is over
as long as the suite asks for the same again.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, query
from tutti.storage import catalog as cat
from tutti.storage.catalog import CellReason
from tutti.tasks.sweeps.plan import Cell, Plan, finished_counts
from tutti.tasks.sweeps.run.accuracy_stop import Deciding
from tutti.tasks.sweeps.run.latency_stop import Saturation
from tutti.tasks.sweeps.run.queue import Watch
from tutti.tasks.sweeps.run.reasons import EndReason, asked_reasons
from tutti.tasks.sweeps.spec import Suite

SCORES = """
select task_id, trial, coalesce(if(isfinite(score), score, null), correct::double, 0) as score
from attempts where cell_id = $cell and status in ('ok', 'limit', 'model_error')
order by ended_at, attempt_id
"""


def watches_of(plan: Plan, cell: Cell, catalog: Catalog) -> list[tuple[EndReason, Watch]]:
    """Who watches `cell`, each with the reason that its verdict completes."""
    suite = plan.suite
    found: list[tuple[EndReason, Watch]] = []
    asked = asked_reasons(suite)
    if suite.saturation is not None:
        # Of an open loop about as many run at once as its level says.
        limit = suite.saturation.step_latency_p95
        found.append((asked[CellReason.LATENCY_LIMIT], Saturation(limit, cell.concurrency)))
    if suite.stop_when_sure is not None and (reference := _reference(plan, cell, catalog)):
        planned = [sample.problem.task_id for sample in cell.samples]
        watch = Deciding(reference, planned, suite.stop_when_sure.margin)
        for row in query(SCORES, catalog.home, {"cell": cell.cell_id}):
            watch.sample(row["task_id"], row["trial"], row["score"])
        found.append((asked[CellReason.ACCURACY_DECIDED], watch))
    return found


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


def _reference(plan: Plan, cell: Cell, catalog: Catalog) -> Mapping[str, float]:
    """Mean score by task of the first policy's finished cell at the level and repeat of `cell`."""
    own = (cell.concurrency, cell.repeat)
    first: Sequence[Cell] = [
        each
        for each in plan.cells
        if each.policy == plan.suite.first_policy and (each.concurrency, each.repeat) == own
    ]
    if not first or first[0].cell_id == cell.cell_id:
        return {}
    scores: dict[str, list[float]] = {}
    for row in query(SCORES, catalog.home, {"cell": first[0].cell_id}):
        scores.setdefault(row["task_id"], []).append(row["score"])
    whole = sum(map(len, scores.values())) >= len(first[0].samples)
    return {task: fmean(each) for task, each in scores.items()} if whole else {}
