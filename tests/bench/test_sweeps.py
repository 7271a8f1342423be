"""Tests of the bench of the sweep engine: overheads and missing samples."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from bench import sweeps
from tests.conftest import NewCatalog
from tests.sweeps.conftest import config_of
from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.benchmarks import benchmark_named
from tutti.tasks.sweeps.plan.enter import enter_plan
from tutti.tasks.sweeps.plan.plan import plan_of
from tutti.tasks.sweeps.plan.task_set import TaskSet
from tutti.tasks.sweeps.spec.suite import Suite
from tutti.tasks.task_sets import Task

SUITE = Suite(name="done", benchmark="gsm8k", policies=("passthrough", "cap"), concurrency=(2, 4))
IDS = ("task_set:1", None, "engine:1", "checkpoint:1", "mock")


@pytest.fixture
def tasks() -> TaskSet:
    asked = ({"role": "user", "content": "3 + 4"},)
    made = (Task(str(n), {}, {"answer": "7"}, messages=asked) for n in range(5))
    return TaskSet("task_set:1", benchmark_named("gsm8k"), tuple(made))


def test_the_one_missing_sample_is_found_in_few_questions(
    tmp_path: Path, new_catalog: NewCatalog, tasks: TaskSet
) -> None:
    """Twelve cells need as many statements as four, apart from those of an unfinished cell."""
    with new_catalog(storage.Home(tmp_path)) as catalog:
        counts = []
        for levels in ((2, 4), (2, 4, 6, 8, 10, 12)):
            suite = SUITE.model_copy(update={"concurrency": levels, "name": f"done-{len(levels)}"})
            plan = plan_of(suite, config_of(tasks))
            last = plan.cells[-1].samples[-1]
            enter_plan(plan, catalog)
            for cell in plan.cells:
                done = [each for each in cell.samples if each is not last]
                sweeps.finish(plan, cell, done, catalog)
            sent: list[str] = []

            def count(
                _: object, __: object, sql: str, *_rest: object, to: list[str] = sent
            ) -> None:
                to.append(sql)

            sa.event.listen(catalog.engine, "before_cursor_execute", count)
            missing = sweeps.decide(plan, tasks, catalog)
            sa.event.remove(catalog.engine, "before_cursor_execute", count)
            assert [each.sample_id for each in missing] == [last.sample_id]
            counts.append(len(sent))
        assert counts[0] == counts[1] <= 30, counts
        states = storage.query("select status, count(*) n from cells group by all", catalog.home)
        assert {row["status"]: row["n"] for row in states} == {"finished": 14, "incomplete": 2}


def test_a_cells_overhead_is_what_its_attempts_do_not_take(
    tmp_path: Path, new_catalog: NewCatalog
) -> None:
    """The overhead is the time from start to start less the time from the first attempt's start to
    the last attempt's end."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with new_catalog(storage.Home(tmp_path)) as catalog:
        for n in range(3):
            at = start + timedelta(seconds=2.0 * n)
            texts = dict.fromkeys(("benchmark", "model", "policy", "task_set_id", "index_id"), "")
            numbers = {"concurrency": 1, "repeat": 0, "position": n, "samples": 2}
            row = texts | numbers | {"cell_id": f"cell:{n}", "sweep_id": "s", "status": "finished"}
            catalog.upsert(cat.cells, row | {"started_at": at})
            attempts = [
                {
                    "cell_id": f"cell:{n}",
                    "attempt_id": f"{n}/{k}",
                    "started_at": at + timedelta(seconds=0.25 + 0.25 * k),
                    "ended_at": at + timedelta(seconds=1.25 + 0.25 * k),
                }
                for k in range(2)
            ]
            storage.commit(catalog, {"attempts": attempts})
        rows = storage.query(sweeps.OVERHEAD, catalog.home)
    assert [(row["s"], row["samples_s"], row["attempts"]) for row in rows] == [(0.75, 1.25, 2)] * 2
