"""Tests of plans from suite files: errors name the fault, and ids identify equal work."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.sweeps.conftest import SUITE, Sweep, plan_of
from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.maintenance import expire
from tutti.tasks.nights.spec import is_night, read_night
from tutti.tasks.nights.verdict import unmeasured
from tutti.tasks.sweeps.plan.enter import enter_plan
from tutti.tasks.sweeps.plan.missing import finished_counts, missing_cells
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError, read_suite

SUITES = Path(__file__).resolve().parents[3] / "deployments" / "suites"
GRID = Suite(concurrency=(2, 8, 16), repetition={"repeats": 2})


def refusal(path: Path, text: str) -> str:
    """Return the one-line error for a suite with `text`."""
    path.write_text(text)
    with pytest.raises(SuiteError) as failure:
        read_suite(path)
    message = str(failure.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_a_file_that_is_no_text_is_one_message(tmp_path: Path) -> None:
    """The cases include a folder and bytes that are not UTF-8."""
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff\xfe")
    for path in tmp_path.iterdir():
        with pytest.raises(SuiteError, match=path.name):
            read_suite(path)


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.yaml")), ids=lambda path: path.stem)
def test_our_own_suites_are_valid(path: Path) -> None:
    """Each is named as its file; a suite can also be read as a night of one stage."""
    assert read_night(path).name == path.stem
    assert is_night(path) or read_suite(path).name == path.stem


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("colour: red", "colour", "'red'"),
        ("policies: [cap, fastest]", "policies.1", "'fastest'"),
        ("concurrency: [2, 0]", "concurrency", "[2, 0]"),
        ("concurrency: []", "concurrency", "[]"),
        ("repetition: {repeats: none}", "repetition.repeats", "'none'"),
        ("repeats: none", "repeats", "'none'"),
        ("name: Demo Sweep", "name", "'Demo Sweep'"),
        ("tasks: {seeds: 1}", "tasks.seeds", "1"),
        ("tasks: {families: [module, poetry]}", "tasks", "no family 'poetry'; known: module"),
        ("- a list", "file", "['a list']"),
        ("cap: 0", "cap", "0"),
        ("concurrency: [2, 2]", "concurrency", "2"),
        ("policies: [cap, cap]", "policies", "cap"),
        ("policies: []", "policies", "[]"),
        ("load: {kind: poisson, session_s: .inf}", "load.session_s", "inf"),
        ("limits: {max_cell_s: .nan}", "limits.max_cell_s", "nan"),
        ("report: {windows: {a: [0, .inf]}}", "report.windows.a.1", "inf"),
        ("budget: {minutes: 0}", "budget.minutes", "0"),
        (
            "benchmark: gsm8k\nharness: {command: foo 'bar}",
            "harness.command",
            "No closing quotation",
        ),
        ("schedule: every day", "schedule", "every day"),
        ("load: {kind: ramp}", "load", "needs `over_s`"),
        ("models: [a, a]", "models", "names a value twice"),
        ("report: {gates: [{metric: score}]}", "report.gates.0", "exactly one of"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(
    tmp_path: Path, text: str, field: str, value: str
) -> None:
    """The error is one line with file, field and value; a duplicate point of the grid is an error,
    too."""
    message = refusal(tmp_path / "s.yaml", text)
    assert f"{field}: " in message
    assert value in message


def test_a_suite_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    """A typing error is therefore reported immediately."""
    (tmp_path / "demo.yaml").touch()
    with pytest.raises(SuiteError, match="no such suite; known there: demo"):
        read_suite(tmp_path / "domo.yaml")
    assert "not YAML" in refusal(tmp_path / "bad.yaml", "name: [")


def test_an_empty_suite_is_the_default_one(tmp_path: Path) -> None:
    """Every field has a default."""
    (tmp_path / "s.yaml").write_text("# nothing\n")
    assert read_suite(tmp_path / "s.yaml") == Suite()


def test_the_same_inputs_give_the_same_plan() -> None:
    """A second run therefore reuses the results of the first."""
    assert plan_of(GRID) == plan_of(GRID)


def test_all_ids_of_a_plan_differ() -> None:
    """Cell ids differ by policy, concurrency and repeat, sample ids by cell, task and trial."""
    plan = plan_of(GRID.with_fields({"trials": 2}))
    samples = [sample.sample_id for cell in plan.cells for sample in cell.samples]
    assert len({cell.cell_id for cell in plan.cells}) == len(plan.cells) == 2 * 3 * 2
    assert len(set(samples)) == len(samples) == 12 * 2 * 6


def test_another_concurrency_is_another_cell_of_the_same_sweep() -> None:
    """Levels can be added later; measured cells keep their ids."""
    few, more = plan_of(GRID), plan_of(GRID.model_copy(update={"concurrency": (2, 8, 16, 32)}))
    assert few.sweep_id == more.sweep_id
    assert {cell.cell_id for cell in few.cells} < {cell.cell_id for cell in more.cells}


@pytest.mark.parametrize(
    "change",
    [{"temperature": 0.5}, {"max_tokens": 32}, {"max_turns": 3}, {"trials": 2}, {"command_s": 9.0}],
)
def test_what_decides_an_answer_changes_every_id(change: dict[str, Any]) -> None:
    """Results under other settings are never reused for these."""
    before, after = plan_of(GRID), plan_of(GRID.with_fields(change))
    assert before.sweep_id != after.sweep_id
    assert not {c.cell_id for c in before.cells} & {c.cell_id for c in after.cells}


CAP_3 = {"name": "cap", "limit": 3}


def test_the_caps_limit_changes_the_cells_under_cap_alone() -> None:
    """Passthrough has no limit, so its cells are reused."""
    before, after = plan_of(GRID), plan_of(GRID.with_fields({"policies": ["passthrough", CAP_3]}))
    changed = {
        a.policy for a, b in zip(before.cells, after.cells, strict=True) if a.cell_id != b.cell_id
    }
    assert changed == {"cap"}


def test_policies_alternate() -> None:
    """The order is ABBA within a repeat and reversed in the next, so that drift of the machine is
    shared."""
    order = [(cell.repeat, cell.concurrency, cell.policy[0]) for cell in plan_of(GRID).cells]
    policies = "".join(policy for *_, policy in order)
    assert policies == "pccppc" + "cppccp"
    assert [level for _, level, _ in order] == [2, 2, 8, 8, 16, 16] * 2


def test_every_cell_has_the_same_tasks_in_the_same_order() -> None:
    """The suite's seed shuffles them, so that families mix; another seed gives another order."""
    plan = plan_of(GRID, count=20)
    orders = {tuple(sample.task.task_id for sample in cell.samples) for cell in plan.cells}
    assert len(orders) == 1
    tasks = GRID.tasks.model_copy(update={"seed": 1})
    other = plan_of(GRID.model_copy(update={"tasks": tasks}), count=20)
    assert [s.task for s in other.cells[0].samples] != [s.task for s in plan.cells[0].samples]


def test_entering_a_plan_again_keeps_the_cells_state(catalog: storage.Catalog) -> None:
    """Cells added later belong to the same sweep; its lineage has all their parents."""
    plan = plan_of(GRID)
    enter_plan(plan, catalog)
    first = plan.cells[0].cell_id
    with catalog.transaction() as connection:
        connection.execute(
            sa.update(cat.cells).where(cat.cells.c.cell_id == first).values(status="finished")
        )
    enter_plan(plan_of(GRID.model_copy(update={"concurrency": (2, 8, 16, 32)})), catalog)
    rows = {row["cell_id"]: row for row in catalog.rows(sa.select(cat.cells))}
    assert len(rows) == 16
    assert rows[first]["status"] == "finished"
    assert {row["sweep_id"] for row in rows.values()} == {plan.sweep_id}
    assert catalog.parents(first) == ["checkpoint:1", "engine:1", "index:1", "task_set:1"]
    assert set(catalog.parents(plan.sweep_id)) == set(rows)


def test_a_cell_killed_after_its_last_commit_is_finished_when_entered_again(
    catalog: storage.Catalog,
) -> None:
    """All its samples are stored, so no run would set its status; with only a part of them it stays
    unfinished."""
    plan = plan_of(GRID, count=2)
    enter_plan(plan, catalog)
    whole, part, other = plan.cells[:3]
    with catalog.transaction() as connection:
        for cell, count in ((whole, 2), (part, 1)):
            for sample in cell.samples[:count]:
                row = {"attempt_id": f"attempt of {sample.sample_id}", "cell_id": cell.cell_id}
                row |= {"sample_id": sample.sample_id, "task_id": sample.task.task_id}
                more = {"trial": 0, "attempt": 1, "run_id": "run:1", "state": "done"}
                connection.execute(sa.insert(cat.attempt_states), row | more | {"status": "ok"})
        connection.execute(sa.update(cat.cells).values(status="running"))
    enter_plan(plan, catalog)
    rows = {row["cell_id"]: row for row in catalog.rows(sa.select(cat.cells))}
    assert rows[whole.cell_id]["status"] == "finished"
    assert rows[whole.cell_id]["ended_at"] is not None
    assert {rows[each.cell_id]["status"] for each in (part, other)} == {"running"}
    assert finished_counts(catalog, plan.cells) == dict.fromkeys(rows, 0) | {
        whole.cell_id: 2,
        part.cell_id: 1,
    }


def test_a_plan_is_entered_by_as_many_statements_however_large(catalog: storage.Catalog) -> None:
    """One statement per cell would take half a minute for a thousand cells."""
    counts = []
    for levels in ((2, 4), tuple(range(10, 60))):
        sent: list[str] = []

        def count(_: object, __: object, sql: str, *___: object, sent: list[str] = sent) -> None:
            sent.append(sql)

        sa.event.listen(catalog.engine, "before_cursor_execute", count)
        plan = plan_of(GRID.model_copy(update={"concurrency": levels}))
        enter_plan(plan, catalog)
        finished_counts(catalog, plan.cells)
        sa.event.remove(catalog.engine, "before_cursor_execute", count)
        counts.append(len(sent))
    assert counts[0] == counts[1] <= 20, counts


async def test_a_sweep_that_was_removed_is_planned_anew(sweep: Sweep) -> None:
    """The sweep's samples are entered again, so that its missing ones are known."""
    plan = plan_of(SUITE, 4)
    cell = sweep.enter(plan)
    await sweep.run(plan, cell)
    suite = plan.suite
    assert unmeasured(sweep.catalog, plan.sweep_id, suite) == ""
    for _ in range(2):  # it can be removed again
        expire(sweep.catalog, sweeps=[plan.sweep_id])
        assert "cells are not measured" in unmeasured(sweep.catalog, plan.sweep_id, suite)
        enter_plan(plan, sweep.catalog)
        columns = "status, reason, reason_code, started_at, ended_at"
        found = sweep.sql(f"select {columns} from cells where cell_id = '{cell.cell_id}'")
        assert found == [("planned", None, None, None, None)]
        assert unmeasured(sweep.catalog, plan.sweep_id, suite) == "4 samples are not measured"
        assert cell in missing_cells(plan, sweep.catalog)
        assert (await sweep.run(plan, cell)).done == 4
        assert unmeasured(sweep.catalog, plan.sweep_id, suite) == ""
