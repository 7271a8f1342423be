"""Tests of `tutti score` on sweeps whose scores came with the attempts: they stay, and nothing is
added."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tutti.tasks.sweeps.analysis.rescore as rescoring
from tests.deployments.tau2_players import Players
from tests.exchange.test_load import trials
from tests.sweeps.conftest import Sweep, config_of
from tests.sweeps.run.test_by_bfcl import run_bfcl
from tests.sweeps.run.test_by_shipped import plan_of as tau2_plan
from tests.sweeps.run.test_by_shipped import players as players
from tutti.storage import Catalog
from tutti.tasks.benchmarks import BENCHMARKS
from tutti.tasks.exchange.loader import load
from tutti.tasks.sweeps.analysis.rescore import ScoringRequest, command_of, rescore
from tutti.tasks.sweeps.plan.estimate import outlook_of
from tutti.tasks.sweeps.plan.plan import Plan
from tutti.tasks.sweeps.plan.plan import plan_of as make_plan
from tutti.tasks.sweeps.plan.task_set import enter_task_set
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError


def reason_of(plan: Plan, catalog: Catalog) -> str:
    """Return the reason that `sweep plan` gives for its cell."""
    (cell,) = outlook_of(plan, catalog).cells
    return cell.reason


SCORES = "select scorer, value, correct from scores order by attempt_id, scorer"


async def test_tau2s_reward_stays(sweep: Sweep, players: Players, tmp_path: Path) -> None:
    """The stored gold calls are not tau2's criterion: an attempt that its package accepts used to
    be marked wrong by them. A named scorer is stored beside the reward."""
    plan = tau2_plan(sweep.catalog, tmp_path)
    await sweep.run(plan, sweep.enter(plan))
    before = sweep.sql(SCORES)
    assert before == [("tau2", 1.0, True)] * 2
    assert "tutti score" not in reason_of(plan, sweep.catalog)
    with pytest.raises(SuiteError, match=r"tau2-retail: the package of tau2 scored .* evaluate-tr"):
        await rescore(plan.sweep_id, sweep.catalog)
    assert sweep.sql(SCORES) == before
    await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(scorer="tool_calls"))
    kept = [row for row in sweep.sql(SCORES) if row[0] == "tau2"]
    assert kept == before and len(sweep.sql(SCORES)) == 4
    assert sweep.sql("select score, correct from attempts") == [(1.0, True)] * 2


async def test_bfcls_verdict_stays(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to do; an attempt used to be marked `could not be scored`."""
    plan, _ = await run_bfcl(sweep, tmp_path, monkeypatch)
    assert "tutti score" not in reason_of(plan, sweep.catalog)
    before = sweep.sql(SCORES)
    with pytest.raises(SuiteError, match=r"bfcl-multi-turn: the package of bfcl .* another `name`"):
        await rescore(plan.sweep_id, sweep.catalog)
    assert sweep.sql(SCORES) == before != []


PROGRAM = """import json
print(json.dumps({"answer": "3", "score": 0.5, "scorer": "own", "version": "7"}))
"""


def suite_of(folder: Path, benchmark: str, rows: list[dict[str, Any]]) -> Suite:
    """Return a benchmark whose attempts are made and scored by a user's program."""
    program, data = folder / "program.py", folder / "test.jsonl"
    program.write_text(PROGRAM)
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields: dict[str, Any] = {"policies": ("passthrough",), "concurrency": (1,)}
    fields |= {"harness": {"command": f"{{python}} {program}"}, "data": {"source": data}}
    return Suite(name="own", benchmark=benchmark, **fields)


@pytest.mark.parametrize("benchmark", ["harness", "gsm8k"])
async def test_a_programs_own_score_stays(sweep: Sweep, tmp_path: Path, benchmark: str) -> None:
    """The program's score is the only one if only the program can score; otherwise the benchmark's
    scorer, which can be run again, has a score beside it."""
    own = benchmark == "harness"
    rows = [{"id": "a"}] if own else [{"question": "1+2?", "answer": "#### 3"}]
    suite = suite_of(tmp_path, benchmark, rows)
    entered = enter_task_set(suite, sweep.catalog)
    plan = make_plan(suite, replace(config_of([], index_id=None), task_set=entered))
    await sweep.run(plan, sweep.enter(plan))
    assert ("own", 0.5, False) in sweep.sql(SCORES)
    assert "tutti score" not in reason_of(plan, sweep.catalog)
    if own:
        with pytest.raises(SuiteError, match="harness: the harness scored its attempts itself"):
            await rescore(plan.sweep_id, sweep.catalog)
    else:
        assert (await rescore(plan.sweep_id, sweep.catalog)).scored == 1
    given = [("numeric", 1.0, True)] * 2 * (not own)
    assert sweep.sql(SCORES) == [*given, ("own", 0.5, False)]


@pytest.mark.parametrize("scorer", [None, "exact"])
@pytest.mark.parametrize("format", ["tau2", "atif", "inspect"])
async def test_an_imports_scores_stay(catalog: Catalog, format: str, scorer: str | None) -> None:
    """The formats are Harbor's (atif) and others; the message used to be `0 attempts scored`."""
    report = load(catalog, trials(2), format)
    (sweep_id,) = report.sweeps
    with pytest.raises(SuiteError, match=rf"were imported \({format}\).*`--labels`"):
        await rescore(sweep_id, catalog, ScoringRequest(scorer=scorer))


def test_of_a_grid_the_others_are_scored(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that keep their scores are listed with the reason; if no other cell is left, the
    command is refused."""
    rows = [{"attempt_id": each, "task_set_id": f"set:{each}"} for each in ("a", "b")]
    reasons = {"set:a": "it stays"}
    monkeypatch.setattr(rescoring, "query", lambda *_: rows)
    monkeypatch.setattr(rescoring, "came_with", lambda *_: reasons)
    assert rescoring._to_score(catalog, "sweep", None) == ([rows[1]], {"a": "it stays"})
    assert rescoring._to_score(catalog, "sweep", "exact") == (rows, {})
    reasons["set:b"] = "it stays"
    with pytest.raises(SuiteError, match=r"^it stays$"):
        rescoring._to_score(catalog, "sweep", None)


def test_a_users_command_takes_the_place_of_the_packages() -> None:
    own = BENCHMARKS["tau2-retail"].command
    assert own is not None and command_of("tau2-retail", {}) == own
    assert command_of("tau2-retail", {"harness": {"command": "mine"}}) == "mine"
    assert command_of("gsm8k", {"harness": {"command": None}}) is None
