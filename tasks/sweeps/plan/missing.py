"""Finished samples of a plan, and cells with samples to run.

A sample is finished when it has an attempt whose outcome is the model's own. A cell that ended
early is over while the suite still has the same rule: the code and value of its `EndReason` are
compared with those of the suite (`EndReason.asked_by`); the text is for people.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, open_catalog
from tutti.storage import catalog as cat
from tutti.storage.catalog import CellReason
from tutti.tasks.sweeps.plan.plan import A_A, Cell, Plan
from tutti.tasks.sweeps.spec import Suite


@dataclass(frozen=True)
class EndReason:
    """Why a run starts no more samples."""

    code: CellReason
    text: str
    value: float | None = None
    """The limit, margin or budget that is meant."""
    reference: str | None = None
    """The policy that an accuracy is decided against."""

    @property
    def ends_cell(self) -> bool:
        """Whether the cell is over, and not only this run of it."""
        return self.code in cat.ENDING_REASONS

    @staticmethod
    def columns_of(reason: "EndReason | None") -> dict[str, Any]:
        """Return the reason as columns of `cells`; None for a cell that ended normally."""
        return {
            "reason": reason and reason.text,
            "reason_code": reason and str(reason.code),
            "reason_value": reason and reason.value,
            "reason_reference": reason and reason.reference,
        }

    def is_of(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of `cells` has this code, value and reference."""
        if row["reason_code"] != self.code or row["reason_reference"] != self.reference:
            return False
        if self.value is None or row["reason_value"] is None:
            return self.value is row["reason_value"]
        return math.isclose(self.value, row["reason_value"], rel_tol=cat.REASON_PRECISION)

    @classmethod
    def asked_by(cls, suite: Suite) -> "dict[CellReason, EndReason]":
        """The reasons that end a cell of `suite` early; a stopping rule extends the text."""
        found = list[EndReason]()
        rules, max_cell_s = suite.stopping, suite.limits.max_cell_s
        if rules.saturation is not None:
            limit_s = rules.saturation.step_latency_p95
            found.append(cls(CellReason.LATENCY_LIMIT, f"p95 limit {limit_s:g} s: ", limit_s))
        if rules.stop_when_decided is not None:
            margin, first = rules.stop_when_decided.margin, suite.first_policy
            text = f"margin {margin:g} to {first}: "
            reference = suite.each_policy[first].full_label  # `cap` may be another one tomorrow
            found.append(cls(CellReason.ACCURACY_DECIDED, text, margin, reference))
        if max_cell_s is not None:
            text = f"its {max_cell_s:g} s are over"
            found.append(cls(CellReason.TIME_LIMIT, text, max_cell_s))
        return {each.code: each for each in found}


def finished_samples(catalog: Catalog, cell: Cell) -> set[str]:
    """Return ids of the cell's samples that have an attempt whose outcome is the model's own."""
    states = cat.attempt_states
    query = sa.select(states.c.sample_id).where(states.c.cell_id == cell.cell_id, is_finished())
    return {row["sample_id"] for row in catalog.rows(query)}


def finished_counts(catalog: Catalog, cells: Sequence[Cell]) -> dict[str, int]:
    """Return the number of such samples by cell id of `cells`, in one query for a whole sweep."""
    states, ids = cat.attempt_states, [cell.cell_id for cell in cells]
    counts = dict.fromkeys(ids, 0)
    n = sa.func.count(sa.distinct(states.c.sample_id)).label("n")
    for some in cat.any_of(states.c.cell_id, ids):
        query = sa.select(states.c.cell_id, n).where(some, is_finished())
        for row in catalog.rows(query.group_by(states.c.cell_id)):
            counts[row["cell_id"]] = row["n"]
    return counts


def is_finished() -> "sa.ColumnElement[bool]":
    """Condition on a row of `attempt_states`: it has ended, and not because of the machine."""
    states = cat.attempt_states
    counts = states.c.status.not_in(("infra_error", "cancelled"))
    return (states.c.state == "done") & counts


def missing_cells(plan: Plan, catalog: Catalog) -> list[Cell]:
    """Return the plan's cells that have samples to run, in order."""
    finished = finished_counts(catalog, plan.cells)
    rows = catalog.rows(sa.select(cat.cells).where(cat.cells.c.sweep_id == plan.sweep_id))
    over = {row["cell_id"] for row in rows if is_over(plan.suite, row)}
    return [
        cell
        for cell in plan.cells
        if finished[cell.cell_id] < len(cell.samples) and cell.cell_id not in over
    ]


def is_over(suite: Suite, row: Mapping[str, Any]) -> bool:
    """Whether a cell (`row` of `cells`) that ended early stays so: the suite still has the rule
    that ended it."""
    if row["status"] != cat.ENDED_EARLY:
        return False
    return any(reason.is_of(row) for reason in EndReason.asked_by(suite).values())


def unfinished_cells(suite: Suite, sweep_id: str) -> int:
    """Return the number of incomplete cells of the suite in this user's store, without those of an
    earlier plan of the same sweep."""
    cells = cat.cells.c
    unfinished = sa.select(cells.cell_id).where(
        cells.sweep_id == sweep_id,
        cells.status.in_(("planned", "running", "incomplete")),
        cells.policy.in_(list(suite.each_policy)),
        cells.concurrency.in_(suite.concurrency),
        cells.repeat < suite.repetition.repeats,
        cells.repeat >= (A_A if suite.repetition.repeat_baseline else 0),
        cells.benchmark.in_([part.benchmark_name for part in suite.parts()]),
    )
    with open_catalog() as catalog:
        return len(catalog.rows(unfinished))
