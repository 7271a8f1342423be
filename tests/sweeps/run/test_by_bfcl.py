"""Tests of a sweep whose attempts are made by BFCL's package (a fake of it), through the
gateway."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bench.evaluations.bfcl_player import completion, message
from tests.benchmarks.test_bfcl_package import TASK, write
from tests.deployments.bfcl_standin import VERSION, install_into
from tests.deployments.test_bfcl_episode import GOLD
from tests.sweeps.conftest import Agent, Sweep
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.plan.plan import Plan, plan_of
from tutti.tasks.sweeps.plan.task_set import enter_task_set
from tutti.tasks.sweeps.run.runner import Progress
from tutti.tasks.sweeps.spec.suite import Suite


async def run_bfcl(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Plan, Progress]:
    """Run a sweep of one task, for which the model makes the gold calls."""

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(completion(message(GOLD, body["messages"])))

    monkeypatch.setattr(Agent, "__call__", reply)
    monkeypatch.setenv("TUTTI_HARNESS_BFCL", str(install_into(tmp_path / "environment")))
    write(tmp_path, "multi_turn_base", TASK)
    suite = Suite(
        name="bfcl-turns",
        benchmark="bfcl-multi-turn",
        data={"source": tmp_path},
        policies=("passthrough",),
        concurrency=(2,),
        limits={"command_s": 60.0},
    )
    entered = enter_task_set(suite, sweep.catalog)
    plan = plan_of(suite, CellConfig(entered, "engine:1", "checkpoint:1", "pocket"))
    return plan, await sweep.run(plan, sweep.enter(plan))


async def test_the_packages_verdict_is_the_score(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call of the turns is recorded; the score has the package's name and version and counts
    in `bfcl_overall`."""
    _, progress = await run_bfcl(sweep, tmp_path, monkeypatch)
    assert (progress.counted, progress.correct, progress.infra) == (1, 1, 0)
    ((scorer, version, detail),) = sweep.sql("select scorer, scorer_version, detail from scores")
    assert (scorer, version) == ("bfcl_multi_turn", VERSION)
    assert json.loads(detail)["steps"] == 4
    assert sweep.sql("select count(*) from calls where role = 'orchestrator'") == [(4,)]
