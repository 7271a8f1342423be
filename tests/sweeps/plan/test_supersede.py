"""Tests of a sweep's current cells: those whose ids are in the newest plan of their points."""

from itertools import permutations
from typing import Any

import pytest
import sqlalchemy as sa

from tests.sweeps.conftest import config_of, make_tasks, plan_of
from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.catalog import CellReason
from tutti.tasks.sweeps.plan.enter import enter_plan
from tutti.tasks.sweeps.plan.missing import EndReason
from tutti.tasks.sweeps.plan.plan import Plan
from tutti.tasks.sweeps.plan.plan import plan_of as make_plan
from tutti.tasks.sweeps.search.search import probe_suite
from tutti.tasks.sweeps.spec.suite import Suite

RAMP = {"kind": "ramp", "over_s": 2.0}
CAP_4, CAP_8 = ({"name": "cap", "limit": limit} for limit in (4, 8))
PLANS: dict[str, dict[str, Any]] = {
    "one": {"policies": ["cap"]},
    "both": {"policies": [CAP_4, CAP_8]},
    "other": {"policies": [CAP_4]},
    "loaded": {"policies": [CAP_4], "load": RAMP},
}


def plan(name: str) -> Plan:
    """Return a plan of the sweep whose policies have the labels `cap`, or `cap-limit-4` and so
    on."""
    return plan_of(Suite.model_validate({"concurrency": [2], **PLANS[name]}))


def current(catalog: storage.Catalog) -> dict[str, str]:
    """Return the current cells, id to policy."""
    rows = catalog.rows(sa.select(cat.cells).where(cat.cells.c.status != cat.SUPERSEDED))
    return {row["cell_id"]: row["policy"] for row in rows}


def test_a_cell_is_superseded_whatever_its_policy_was_called(catalog: storage.Catalog) -> None:
    """`cap` at 4 has two loads: the older plan's cell used to stay beside the new one, because it
    was named `cap-limit-4` there and `cap` here."""
    enter_plan(plan("both"), catalog)
    enter_plan(plan("loaded"), catalog)
    assert current(catalog) == {plan("loaded").cells[0].cell_id: "cap"}


def test_a_cell_is_called_as_in_the_newest_plan(catalog: storage.Catalog) -> None:
    """A cell used to keep the label of its first plan, which a run of another plan does not look
    up."""
    enter_plan(plan("one"), catalog)
    enter_plan(plan("both"), catalog)
    labels = current(catalog)
    assert sorted(labels.values()) == ["cap-limit-4", "cap-limit-8"]
    assert labels[plan("one").cells[0].cell_id] == "cap-limit-8"


@pytest.mark.parametrize("order", list(permutations(PLANS)))
def test_what_is_current_follows_from_the_newest_plan_alone(
    catalog: storage.Catalog, order: tuple[str, ...]
) -> None:
    """Earlier plans have no effect, and no cell is ever removed."""
    for name in order:
        enter_plan(plan(name), catalog)
    newest = plan(order[-1])
    assert current(catalog) == {cell.cell_id: cell.policy for cell in newest.cells}
    every = {cell.cell_id for name in PLANS for cell in plan(name).cells}
    assert {row["cell_id"] for row in catalog.rows(sa.select(cat.cells))} == every


def test_other_policies_and_levels_stay(catalog: storage.Catalog) -> None:
    """Axes can grow: a plan of one policy or level does not affect the others."""
    given = {"policies": ["passthrough", CAP_8], "concurrency": [2, 4]}
    enter_plan(plan_of(Suite.model_validate(given)), catalog)
    before = current(catalog)
    enter_plan(plan("other"), catalog)
    assert len(before.keys() - current(catalog).keys()) == 1
    assert sorted(current(catalog).values()) == ["cap", "cap", "passthrough", "passthrough"]


def test_a_probe_leaves_the_suites_other_policies_alone(catalog: storage.Catalog) -> None:
    """A search measures one policy of a level after another, in one sweep."""
    suite = Suite.model_validate({"concurrency": [2], **PLANS["both"]})
    config = config_of(make_tasks(2))
    for label in suite.each_policy:
        probe = probe_suite(suite, label, 2, 1, 9.0)
        enter_plan(make_plan(probe, config, suite), catalog)
    assert sorted(current(catalog).values()) == ["cap-limit-4", "cap-limit-8"]


def test_what_decided_an_accuracy_is_a_policy_and_not_its_label() -> None:
    """A cell decided against `cap` at 8 is not finished where `cap` is at 4; it used to be, because
    both are named `cap`. With the name `cap-limit-8`, it is the same."""
    found = []
    for policies in (["cap"], [CAP_4], [CAP_8, CAP_4]):
        given = {"policies": [*policies, "adaptive"], "stopping": {"stop_when_decided": {}}}
        found.append(EndReason.asked_by(Suite.model_validate(given))[CellReason.ACCURACY_DECIDED])
    decided = {"status": cat.ENDED_EARLY, **EndReason.columns_of(found[0])}
    assert [each.is_of(decided) for each in found] == [True, False, True]
