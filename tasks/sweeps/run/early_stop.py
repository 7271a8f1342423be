"""Who watches a cell: for a latency that is surely too high, an accuracy that is decided.

In: a suite's `saturation` and `stop_when_sure`, and what of the cell and of its level is stored.
Out: watches, which know the samples that an earlier run finished. A cell that ended early is over
as long as the suite asks for the same again.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

import sqlalchemy as sa

from tutti.storage import Catalog, query
from tutti.storage import catalog as cat
from tutti.tasks.sweeps.plan import Cell, Plan, finished_counts
from tutti.tasks.sweeps.run.accuracy_stop import Deciding
from tutti.tasks.sweeps.run.latency_stop import Saturation
from tutti.tasks.sweeps.run.queue import Watch
from tutti.tasks.sweeps.spec import Suite

SCORES = """
select task_id, trial, coalesce(if(isfinite(score), score, null), correct::double, 0) as score
from attempts where cell_id = $cell and status in ('ok', 'limit', 'model_error')
order by ended_at, attempt_id
"""


def watches_of(plan: Plan, cell: Cell, catalog: Catalog) -> list[tuple[str, Watch]]:
    """Who watches `cell`, each with what its verdicts are kept under (`is_over`)."""
    suite = plan.suite
    found: list[tuple[str, Watch]] = []
    keys = _keys(suite)
    if suite.saturation is not None:
        # Of an open loop about as many run at once as its level says.
        limit = suite.saturation.step_latency_p95
        found.append((keys["saturation"], Saturation(limit, cell.concurrency)))
    if suite.stop_when_sure is not None and (reference := _reference(plan, cell, catalog)):
        planned = [sample.problem.task_id for sample in cell.samples]
        watch = Deciding(reference, planned, suite.stop_when_sure.margin)
        for row in query(SCORES, catalog.home, {"cell": cell.cell_id}):
            watch.sample(row["task_id"], row["trial"], row["score"])
        found.append((keys["stop_when_sure"], watch))
    return found


def missing_cells(plan: Plan, catalog: Catalog) -> list[Cell]:
    """The plan's cells that have samples to run, in order."""
    finished = finished_counts(catalog, plan.cells)
    columns = (cat.cells.c.cell_id, cat.cells.c.status, cat.cells.c.reason)
    rows = catalog.rows(sa.select(*columns).where(cat.cells.c.sweep_id == plan.sweep_id))
    over = {row["cell_id"] for row in rows if is_over(plan.suite, row["status"], row["reason"])}
    return [
        cell
        for cell in plan.cells
        if finished[cell.cell_id] < len(cell.samples) and cell.cell_id not in over
    ]


def is_over(suite: Suite, status: str, reason: str | None) -> bool:
    """Whether a cell that ended early stays so: the suite still asks what ended it."""
    if status != cat.ENDED_EARLY or reason is None:
        return False
    return reason.startswith(tuple(_keys(suite).values()))


def _keys(suite: Suite) -> Mapping[str, str]:
    """What a verdict's reason begins with."""
    keys = {}
    if suite.saturation is not None:
        keys["saturation"] = f"p95 limit {suite.saturation.step_latency_p95:g} s: "
    if suite.stop_when_sure is not None:
        margin, first = suite.stop_when_sure.margin, suite.first_policy
        keys["stop_when_sure"] = f"margin {margin:g} to {first}: "
    if suite.cell_s is not None:
        keys["cell_s"] = over_time(suite.cell_s)
    return keys


def over_time(cell_s: float) -> str:
    """Why a cell whose time is over has ended."""
    return f"its {cell_s:g} s are over"


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
