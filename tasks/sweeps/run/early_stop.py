"""What may end a cell early: a latency surely above its limit, an accuracy that is decided.

In: a suite's `stopping`, and what of the cell and of its level is stored.
Out: watches, which know the samples that an earlier run finished.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from tutti.storage import Catalog, query
from tutti.storage.catalog import CellReason
from tutti.tasks.sweeps.plan import Cell, EndReason, Plan, asked_reasons
from tutti.tasks.sweeps.run.accuracy_stop import AccuracyStop
from tutti.tasks.sweeps.run.latency_stop import LatencyStop
from tutti.tasks.sweeps.run.queue import Watch

SCORES = """
select task_id, trial, headline_score as score from counted where cell_id = $cell
order by ended_at, attempt_id
"""


def watches_of(plan: Plan, cell: Cell, catalog: Catalog) -> list[tuple[EndReason, Watch]]:
    """Who watches `cell`, each with the reason that its verdict completes."""
    suite = plan.suite
    found: list[tuple[EndReason, Watch]] = []
    asked = asked_reasons(suite)
    if suite.stopping.saturation is not None:
        # Of an open loop about as many run at once as its level says.
        limit = suite.stopping.saturation.step_latency_p95
        found.append((asked[CellReason.LATENCY_LIMIT], LatencyStop(limit, cell.concurrency)))
    if suite.stopping.stop_when_decided is not None and (
        reference := _reference(plan, cell, catalog)
    ):
        planned = [sample.task.task_id for sample in cell.samples]
        watch = AccuracyStop(reference, planned, suite.stopping.stop_when_decided.margin)
        for row in query(SCORES, catalog.home, {"cell": cell.cell_id}):
            watch.sample(row["task_id"], row["trial"], row["score"])
        found.append((asked[CellReason.ACCURACY_DECIDED], watch))
    return found


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
