"""Tests of a sweep's plan from the store: decisions, reasons, time and cost."""

from dataclasses import replace

import pytest

from tests.sweeps.conftest import SUITE, Sweep, plan_of
from tutti.tasks.scoring import SCORERS
from tutti.tasks.scoring.rules.short_answer import Exact
from tutti.tasks.sweeps.plan.estimate import PlanEstimate, detectable_line, outlook_of

GRID = SUITE.model_copy(update={"concurrency": (2, 4), "policies": ("passthrough", "cap")})


async def test_before_the_first_run_nothing_is_known(sweep: Sweep) -> None:
    """Every cell runs with unknown time; the minimum detectable difference is given
    nevertheless."""
    found = outlook_of(plan_of(GRID), sweep.catalog)
    assert {(c.decision, c.reason, c.missing) for c in found.cells} == {("run", "was never run", 6)}
    assert (found.seconds, found.cost_usd, found.expected) == (None, None, None)
    assert found.detectable is not None and found.detectable > 0


async def test_what_is_finished_is_reused_and_tells_of_the_rest(sweep: Sweep) -> None:
    """The estimate uses a cell with the same policy and concurrency if there is one, else the
    nearest."""
    plan = plan_of(GRID)
    cell = sweep.enter(plan)
    await sweep.run(plan, cell)
    found = outlook_of(plan, sweep.catalog)
    first, *others = found.cells
    assert (first.decision, first.missing) == ("reuse", 0)
    assert {c.decision for c in others} == {"run"}
    assert [c.basis for c in others] == ["1 past of other policies", "past at 2", "past at 2"]
    (paid,) = sweep.sql("select sum(cost_usd) from attempts")[0]
    assert found.cost_usd == pytest.approx(3 * paid)
    assert found.seconds is not None and found.seconds > 0
    assert found.expected == 1.0


async def test_a_cell_that_was_broken_off_runs_the_rest(sweep: Sweep) -> None:
    """Samples whose attempts all failed are missing, and so are new trials."""
    plan = plan_of()
    sweep.agent.odd = {"what is 0 + 1": [404] * 9}
    await sweep.run(plan, sweep.enter(plan))
    (cell,) = outlook_of(plan, sweep.catalog).cells
    assert (cell.decision, cell.reason) == ("run", "5 of 6 samples are finished")
    assert cell.missing == 1


async def test_a_cell_that_was_run_with_other_settings_is_said_to_run_again(sweep: Sweep) -> None:
    """The attempts of such a cell stay in the store; the same holds for ids that an earlier version
    of tutti computed differently."""
    plan = plan_of(GRID)
    await sweep.run(plan, sweep.enter(plan))
    longer = plan_of(GRID.with_fields({"working_s": 9.0}))
    found = outlook_of(longer, sweep.catalog)
    assert [cell.decision for cell in found.cells] == ["run"] * 4
    said = [cell.reason for cell in found.cells]
    assert said[0].startswith("was run with other settings, or by an earlier tutti")
    assert said[1:] == ["was never run"] * 3
    assert sweep.sql("select count(*) from attempts") == [(6,)]


async def test_another_version_of_the_scorer_asks_for_a_new_score(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No inference is needed: `tutti score` computes it."""
    plan = plan_of()
    await sweep.run(plan, sweep.enter(plan))
    newer = Exact()
    newer.version = "next"
    monkeypatch.setitem(SCORERS, newer.name, newer)
    (cell,) = outlook_of(plan, sweep.catalog).cells
    assert (cell.decision, cell.missing) == ("re-score", 0)
    assert "next" in cell.reason and "tutti score" in cell.reason


async def test_the_line_before_a_run_says_what_the_plan_does(sweep: Sweep) -> None:
    """The line has the plan's figure as text; it is empty for a single set-up or task."""
    plan = plan_of(GRID)
    found = outlook_of(plan, sweep.catalog)
    assert found.detectable is not None
    line = detectable_line(plan, sweep.catalog)
    assert line == found.detectable_words
    assert f"{100 * found.detectable:.1f} points" in line and "an assumed 50 %" in line
    cell = sweep.enter(plan)
    await sweep.run(plan, cell)
    assert "accuracy 100% as before" in detectable_line(plan, sweep.catalog)
    repeats = SUITE.with_fields({"repeats": 2})
    assert detectable_line(plan_of(repeats), sweep.catalog) == "", "one set-up, measured twice"
    assert detectable_line(plan_of(GRID, count=1), sweep.catalog) == ""


async def test_the_estimate_names_the_headline_measure(sweep: Sweep) -> None:
    """For a benchmark with partially correct answers it is not accuracy."""
    plan = plan_of(GRID)
    task_set = plan.config.task_set
    graded = replace(task_set, benchmark=replace(task_set.benchmark, scorer="rubric"))
    plan = replace(plan, config=replace(plan.config, task_set=graded))
    assert outlook_of(plan, sweep.catalog).measure == "mean score"
    assert "mean score an assumed 50 %" in detectable_line(plan, sweep.catalog)


async def test_more_tasks_and_trials_show_smaller_differences(sweep: Sweep) -> None:
    """If all earlier answers were correct, some spread is still expected."""
    plan = plan_of(GRID)
    await sweep.run(plan, sweep.enter(plan))
    trials = GRID.with_fields({"trials": 4})
    plans = plan_of(trials, 12), plan_of(GRID, 12), plan
    found = [outlook_of(each, sweep.catalog).detectable for each in plans]
    assert [each or 0.0 for each in found] == sorted(each or 0.0 for each in found)
    assert all(found)


def test_too_few_tasks_are_said_to_be() -> None:
    """A difference above 1 is impossible."""
    found = PlanEstimate(plan_of(GRID), (), "accuracy", 0.5, 1.4)
    assert found.detectable_words == "so few tasks would show no difference between two cells"
    assert replace(found, detectable=None).detectable_words == ""


async def test_an_outlook_is_short_when_it_is_shown(sweep: Sweep) -> None:
    """asyncio.run computes the repr of its result, which takes seconds for 100,000 samples."""
    assert len(repr(outlook_of(plan_of(GRID), sweep.catalog))) < 200
