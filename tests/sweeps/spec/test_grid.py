"""Tests of suites of several benchmarks and models: parts, one sweep, and replaced cells."""

from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from tests.sweeps.conftest import Sweep, config_of, make_tasks, plan_of
from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.catalog import CellReason
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan.deployment import Deployment
from tutti.tasks.sweeps.plan.enter import enter_plan
from tutti.tasks.sweeps.plan.plan import A_A, Plan, grid_id_of
from tutti.tasks.sweeps.plan.plan import plan_of as make_plan
from tutti.tasks.sweeps.spec.policy import Policy
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError

CAP_2, CAP_4 = (Policy(name="cap", limit=limit) for limit in (2, 4))
GRID = Suite(name="g", models=("a", "b"), policies=("passthrough", "cap"), concurrency=(2,))


def part_plan(whole: Suite, model: str, engine: str = "engine:1") -> Plan:
    """Return the plan of the grid's part of a model."""
    part = next(each for each in whole.parts() if each.model == model)
    tasks = make_tasks(3)
    return make_plan(part, config_of(tasks, engine_id=engine, served_name=model), whole)


def states(catalog: storage.Catalog) -> list[tuple[Any, ...]]:
    """Return (model, policy, status) of every cell."""
    rows = catalog.rows(sa.select(cat.cells))
    return sorted((row["model"], row["policy"], row["status"]) for row in rows)


def test_a_suite_of_one_is_its_own_part() -> None:
    """The sweep's id is that of its plan."""
    suite = Suite()
    assert suite.parts() == (suite,) and grid_id_of(suite) is None


def test_parts_are_measured_model_by_model() -> None:
    """Each engine is therefore started once."""
    suite = Suite(models=("a", "b"), benchmarks=("gsm8k", "stdlib"), limit=5)
    found = [(part.model, part.benchmark, part.limit) for part in suite.parts()]
    assert found == [
        ("a", "gsm8k", 5), ("a", "stdlib", None), ("b", "gsm8k", 5), ("b", "stdlib", None),
    ]  # fmt: skip


def test_a_judge_is_for_the_benchmark_that_asks_one() -> None:
    """A judge that no benchmark needs is an error, raised before anything starts."""
    both = Suite(benchmarks=("gsm8k", "simpleqa"), roles={"judge": "j"})
    assert [part.roles.judge for part in both.parts()] == [None, "j"]
    with pytest.raises(SuiteError, match="judge: none of gsm8k, ifeval has a use for it"):
        Suite(benchmarks=("gsm8k", "ifeval"), roles={"judge": "j"}).parts()


def test_a_model_may_be_added_later(catalog: storage.Catalog) -> None:
    """The new model's cells belong to the same sweep; those of the other models are unchanged."""
    first = part_plan(Suite.model_validate(GRID.model_dump() | {"models": ("a",)}), "a")
    enter_plan(first, catalog)
    again, added = part_plan(GRID, "a"), part_plan(GRID, "b")
    for plan in (again, added):
        enter_plan(plan, catalog)
    assert first.sweep_id == again.sweep_id == added.sweep_id
    assert [c.cell_id for c in first.cells] == [c.cell_id for c in again.cells]
    assert [row[0] for row in states(catalog)] == ["a", "a", "b", "b"]


def test_another_engine_takes_the_place_of_its_cells(catalog: storage.Catalog) -> None:
    """Figures of two engines are never pooled, and the change can be reverted."""
    old, new = part_plan(GRID, "a"), part_plan(GRID, "a", "engine:2")
    other = part_plan(GRID, "b")
    for plan in (old, other, new):
        enter_plan(plan, catalog)
    assert states(catalog) == [
        ("a", "cap", "planned"), ("a", "cap", "superseded"),
        ("a", "passthrough", "planned"), ("a", "passthrough", "superseded"),
        ("b", "cap", "planned"), ("b", "passthrough", "planned"),
    ]  # fmt: skip
    enter_plan(old, catalog)
    back = {row["cell_id"]: row["status"] for row in catalog.rows(sa.select(cat.cells))}
    assert {back[cell.cell_id] for cell in old.cells} == {"incomplete"}
    assert {back[cell.cell_id] for cell in new.cells} == {"superseded"}


def test_another_cap_takes_the_place_of_the_cap(catalog: storage.Catalog) -> None:
    """In one sweep a point has one set of figures; cells of two caps used to be pooled."""
    suite = Suite(policies=("passthrough", CAP_2), concurrency=(2,))
    first = plan_of(suite)
    second = plan_of(suite.model_copy(update={"policies": ("passthrough", CAP_4)}))
    assert first.sweep_id == second.sweep_id
    enter_plan(first, catalog)
    enter_plan(second, catalog)
    assert sorted(row[2] for row in states(catalog)) == ["planned", "planned", "superseded"]


def test_an_a_a_cell_is_the_first_policys_again() -> None:
    """The A/A cell has the same tasks, order and seeds, once per level, under another id."""
    suite = Suite(
        policies=("passthrough", "cap"),
        concurrency=(2, 4),
        repetition={"repeats": 2, "repeat_baseline": True},
    )
    plan = plan_of(suite)
    extra = [cell for cell in plan.cells if cell.repeat == A_A]
    assert [(cell.policy, cell.concurrency) for cell in extra] == [
        ("passthrough", 2), ("passthrough", 4),
    ]  # fmt: skip
    for cell in extra:
        first = next(
            c
            for c in plan.cells
            if (c.policy, c.concurrency, c.repeat) == ("passthrough", cell.concurrency, 0)
        )
        assert cell.seed == first.seed and cell.cell_id != first.cell_id
        pairs = zip(cell.samples, first.samples, strict=True)
        assert all(x.task == y.task and x.trial == y.trial for x, y in pairs)


def test_without_new_keys_cells_are_as_they_were() -> None:
    """Cells measured before the keys existed are reused."""
    plain = plan_of(Suite(concurrency=(2, 4)))
    wordy = Suite.model_validate(
        {
            "concurrency": (2, 4),
            "budget": {"minutes": 5},
            "report": {"windows": {"all": (0, 9)}},
            "execution": {"order": "random"},
        }
    )
    assert {c.cell_id for c in plain.cells} == {c.cell_id for c in plan_of(wordy).cells}
    open_loop = plan_of(Suite.model_validate({"load": {"kind": "poisson", "session_s": 1}}))
    assert not {c.cell_id for c in plan_of(Suite()).cells} & {c.cell_id for c in open_loop.cells}


def test_samples_grow_with_the_level() -> None:
    """Each session has at least this number of samples, by more trials of the same tasks."""
    plan = plan_of(
        Suite(
            policies=("passthrough",),
            concurrency=(1, 2, 8),
            repetition={"min_samples_per_session": 3},
        )
    )
    assert [len(cell.samples) for cell in plan.cells] == [6, 6, 24]


def test_a_random_order_is_drawn_by_the_seed() -> None:
    """Each block has every policy once; the same suite has the same order."""
    suite = Suite(
        policies=("passthrough", "cap", "adaptive"),
        concurrency=(2, 4, 8),
        repetition={"repeats": 4},
        execution={"order": "random"},
    )
    orders = [cell.policy for cell in plan_of(suite).cells]
    blocks = [tuple(orders[start : start + 3]) for start in range(0, len(orders), 3)]
    assert all(set(block) == set(suite.policies) for block in blocks)
    assert len(set(blocks)) > 2 and orders == [cell.policy for cell in plan_of(suite).cells]


def test_tools_of_a_grid_are_those_that_it_states() -> None:
    """Parts without a setting offer no Python; a stated session is kept, except for a benchmark
    whose agent is another program."""
    names = ("gsm8k", "tau2-retail")
    user = {"roles": {"user": "u"}}
    for stated in (None, "session"):
        harness = {} if stated is None else {"harness": {"python": stated}}
        suite = Suite.model_validate({"benchmarks": names} | user | harness)
        found = {part.benchmark: part.harness.python for part in suite.parts()}
        assert found == {"gsm8k": stated, "tau2-retail": None}


def test_a_part_keeps_what_it_can_use() -> None:
    """An example is an agent of stdlib; a limit that no part can use is an error and is not
    dropped."""
    assert {
        part.roles.agent for part in Suite(models=("a", "b"), roles={"agent": "pocket"}).parts()
    } == {"pocket"}
    with pytest.raises(SuiteError, match="limit: none of stdlib has a use for it"):
        Suite(benchmarks=("stdlib",), limit=5).parts()


def test_a_benchmark_is_named_once() -> None:
    """Two numbers of trials would overwrite each other."""
    with pytest.raises(ValidationError, match="names a benchmark twice"):
        Suite(benchmarks=("gsm8k", "gsm8k:2"))


@pytest.mark.parametrize(
    "change",
    [
        {"policies": ("passthrough", {"name": "cap", "limit": 4})},
        {"saturation": {"step_latency_p95": 2}},
        {"stop_when_decided": {"margin": 0.1}},
        {"max_attempts": 4},
        {"max_cell_s": 5.0},
        {"load": {"kind": "poisson", "session_s": 1}},
        {"engines": 2},
        {"budget": {"usd": 3}},
        {"models": ("a", "b", "c")},
    ],
)
def test_a_grid_stays_the_same_sweep(change: dict[str, Any]) -> None:
    """Settings that are in a cell's own id, or in no id, are not part of the sweep's id."""
    assert grid_id_of(GRID.with_fields(change)) == grid_id_of(GRID)


def test_one_model_in_two_entries_is_refused() -> None:
    """The entries' cells would have the same ids; prices and limits are in no id."""
    entry = Model(provider="openai", endpoint="http://h/v1", context_tokens=4096, served_name="big")
    same = entry.model_copy(update={"max_calls": 3})
    with pytest.raises(RegistryError, match=r"models\.b and models\.a are one model"):
        Deployment.check({"a": entry, "b": same})
    for change in (
        {"served_name": "small"}, {"endpoint": "http://i/v1"}, {"request": {"top_p": 0.5}},
    ):  # fmt: skip
        Deployment.check({"a": entry, "b": entry.model_copy(update=change)})


def test_cells_of_another_entry_are_not_superseded(catalog: storage.Catalog) -> None:
    """A plan supersedes cells of its entry with other options, not those of an entry whose name is
    the served name."""
    tasks = make_tasks(1)

    def plan(entry: str, cap: Policy, **change: Any) -> Plan:
        suite = Suite(policies=("passthrough", cap), concurrency=(2,))
        return make_plan(suite, config_of(tasks, entry_name=entry, **change), GRID)

    enter_plan(plan("fast", CAP_2), catalog)
    enter_plan(plan("fast", CAP_4), catalog)
    expected = [("fast", "cap", "planned"), ("fast", "cap", "superseded")]
    expected.append(("fast", "passthrough", "planned"))
    assert states(catalog) == expected
    other = plan("pocket", CAP_2, engine_id="engine:2", served_name="served")
    enter_plan(other, catalog)
    assert len({row["sweep_id"] for row in catalog.rows(sa.select(cat.cells))}) == 1
    enter_plan(plan("fast", CAP_4), catalog)
    own = {cell.cell_id for cell in other.cells}
    rows = catalog.rows(sa.select(cat.cells).where(cat.cells.c.cell_id.in_(own)))
    assert [(row["model"], row["status"]) for row in rows] == [("pocket", "planned")] * 2


def test_an_unfinished_cell_is_unfinished_on_its_way_back(catalog: storage.Catalog) -> None:
    """The budget as the reason of the end does not mark the cell as ended early."""
    suite = Suite(policies=(CAP_2,), concurrency=(2,))
    first, second = plan_of(suite), plan_of(suite.model_copy(update={"policies": (CAP_4,)}))
    enter_plan(first, catalog)
    with catalog.transaction() as connection:
        spent = {"status": "incomplete", "reason": "the budget is spent"}
        spent |= {"reason_code": "budget_usd"}
        connection.execute(sa.update(cat.cells).values(spent))
    for plan in (second, first):
        enter_plan(plan, catalog)
    rows = {row["cell_id"]: row["status"] for row in catalog.rows(sa.select(cat.cells))}
    assert rows[first.cells[0].cell_id] == "incomplete"


@pytest.mark.parametrize("code", CellReason)
def test_a_cell_that_ended_early_has_by_its_code(
    code: CellReason, catalog: storage.Catalog
) -> None:
    """The code applies when the cell becomes current again; a code that ends only a run leaves it
    incomplete."""
    suite = Suite(policies=(CAP_2,), concurrency=(2,))
    first, second = plan_of(suite), plan_of(suite.model_copy(update={"policies": (CAP_4,)}))
    enter_plan(first, catalog)
    ended = {"status": "ended_early", "reason_code": str(code), "reason_value": 2.0}
    with catalog.transaction() as connection:
        connection.execute(sa.update(cat.cells).values(ended))
    for plan in (second, first):
        enter_plan(plan, catalog)
    rows = {row["cell_id"]: row for row in catalog.rows(sa.select(cat.cells))}
    row = rows[first.cells[0].cell_id]
    ending = ("latency_limit", "accuracy_decided", "time_limit", "late")
    ends = code in ending
    assert row["status"] == ("ended_early" if ends else "incomplete")
    assert (row["reason_code"], row["reason_value"]) == (code, 2.0)


def test_what_others_are_compared_with_comes_first() -> None:
    """With `stop_when_decided`, the reference cell is first in every block, in any order."""
    for order in ("abba", "random"):
        suite = Suite.model_validate(
            {"policies": ("cap", "passthrough", "adaptive"), "concurrency": (2, 4, 8)}
            | {"stopping": {"stop_when_decided": {}}, "execution": {"order": order}}
            | {"repetition": {"repeats": 2}}
        )
        orders = [cell.policy for cell in plan_of(suite).cells]
        assert {orders[start] for start in range(0, len(orders), 3)} == {"cap"}


async def test_a_finished_cell_is_finished_on_its_way_back(sweep: Sweep) -> None:
    """No sample of the cell is missing, so none is run again."""
    suite = Suite(policies=(CAP_2,), concurrency=(2,))
    first, second = plan_of(suite), plan_of(suite.model_copy(update={"policies": (CAP_4,)}))
    await sweep.run(first, sweep.enter(first))
    for plan in (second, first):
        enter_plan(plan, sweep.catalog)
    rows = {row["cell_id"]: row["status"] for row in sweep.catalog.rows(sa.select(cat.cells))}
    assert rows[first.cells[0].cell_id] == "finished"
