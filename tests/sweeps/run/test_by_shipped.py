"""Tests of a sweep whose attempts are made by tutti's own harness: its score, the assignment of
tokens and cost, and its resumption. tau2's package is a fake."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.deployments.tau2_players import Players, read_tasks
from tests.deployments.tau2_standin import install_into
from tests.deployments.test_tau2_episode import TASKS
from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep
from tutti import storage
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.plan.plan import Plan
from tutti.tasks.sweeps.plan.plan import plan_of as make_plan
from tutti.tasks.sweeps.plan.roles import ServedModel, other_models, roles_of
from tutti.tasks.sweeps.plan.task_set import enter_task_set
from tutti.tasks.sweeps.spec.suite import Suite

OTHER = ServedModel(
    "other", "engine:2", Model(provider="openai", endpoint="http://x/v1", context_tokens=4000)
)
AGENT = {
    "system": "Ask.",
    "tools": {
        "call_expert": {
            "description": "Ask an expert.",
            "experts": {
                "expert-1": {
                    "model": "strong",
                    "prices": {"prompt": 1, "completion": 2},
                    "latency_s": 1,
                    "skills": "Good.",
                    "max_tokens": 77,
                }
            },
        }
    },
}


@pytest.fixture
def players(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Players:
    """Yield a checkout, the fake, and players behind the engines: `pocket` is the agent; a caller
    of `other` with tools is an expert."""
    folder = tmp_path / "checkout" / "data" / "tau2" / "domains" / "retail"
    folder.mkdir(parents=True)
    (folder / "tasks.json").write_text(json.dumps(TASKS))
    (folder / "db.json").write_text("{}")
    monkeypatch.setenv("TUTTI_HARNESS_TAU2", str(install_into(tmp_path / "environment")))
    made = Players(read_tasks(folder))

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        role = "agent"
        if body["model"] == "other":
            is_judge = body["messages"][0]["content"] == "TASK"
            role = "expert" if "tools" in body else "judge" if is_judge else "user"
        said = made.reply(role, body)
        if isinstance(said, str):
            return web.json_response({"error": {"message": said}}, status=400)
        calls = {"tool_calls": said["tool_calls"]} if "tool_calls" in said else {}
        return web.json_response(completion(said["content"] or "", **calls))

    monkeypatch.setattr(Agent, "__call__", reply)
    return made


def plan_of(catalog: storage.Catalog, folder: Path, **more: Any) -> Plan:
    """Return the plan of both tasks; `other` is user, judge and expert."""
    fields: dict[str, Any] = {"benchmark": "tau2-retail", "policies": ("passthrough",)}
    fields |= {"concurrency": (2,), "data": {"source": folder / "checkout"}}
    fields |= {"roles": {"user": "other", "judge": "other"}, "limits": {"command_s": 60.0}}
    suite = Suite(**fields | more)
    entered = enter_task_set(suite, catalog)
    roles = roles_of(suite, {name: OTHER for name in other_models(suite)})
    return make_plan(suite, CellConfig(entered, "engine:1", "checkpoint:1", "pocket", roles=roles))


async def test_the_harnesss_reward_is_the_score(
    sweep: Sweep, players: Players, tmp_path: Path
) -> None:
    """Calls are recorded with their roles; tokens are the measured model's; the cost excludes user
    and judge, whose cost counts towards the budget."""
    plan = plan_of(sweep.catalog, tmp_path, repetition={"trials": 2})
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct, progress.infra) == (4, 4, 0)
    scores = sweep.sql("select distinct scorer, scorer_version, value from scores")
    assert scores == [("tau2", "1.0.1", 1.0)]
    rows = sweep.sql(
        "select a.calls = count(*), a.prompt_tokens = sum(c.prompt_tokens), "
        "round(a.cost_usd - sum(c.cost_usd), 9), bool_and(a.working_s >= 0) "
        "from attempts a join calls c using (attempt_id) where c.role = 'orchestrator' "
        "group by a.attempt_id, a.calls, a.prompt_tokens, a.cost_usd"
    )
    assert rows == [(True, True, 0.0, True)] * 4
    roles = sweep.sql("select role, endpoint, sum(cost_usd) > 0 from calls group by all order by 1")
    assert roles == [
        ("judge", "engine:2", True),
        ("orchestrator", "engine:1", True),
        ("user", "engine:2", True),
    ]
    detail = sweep.sql("select detail from scores where detail like '%NL_ASSERTION%' limit 1")
    assert json.loads(detail[0][0])["reward_breakdown"]["NL_ASSERTION"] == 1.0


async def test_experts_are_the_attempts_cost(
    sweep: Sweep, players: Players, tmp_path: Path
) -> None:
    """A suite names an agent and a benchmark of the harness together; the cost of an expert is part
    of the attempt's, its tokens are not."""
    file = tmp_path / "agent.yaml"
    file.write_text(json.dumps(AGENT))
    roles = {"user": "other", "judge": "other", "agent": str(file), "experts": {"strong": "other"}}
    plan = plan_of(sweep.catalog, tmp_path, roles=roles)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (2, 2)
    asked = [body for role, body in players.requests if role == "expert"]
    assert asked and all(body["max_tokens"] == 77 for body in asked)
    rows = sweep.sql(
        "select round(a.cost_usd - sum(c.cost_usd) filter (c.role in ('orchestrator', 'expert')), "
        "9), a.prompt_tokens = sum(c.prompt_tokens) filter (c.role = 'orchestrator') "
        "from attempts a join calls c using (attempt_id) group by a.attempt_id, a.cost_usd, "
        "a.prompt_tokens"
    )
    assert rows == [(0.0, True)] * 2
    other = plan_of(sweep.catalog, tmp_path)
    assert other.cells[0].cell_id != plan.cells[0].cell_id


async def test_a_failing_user_is_no_wrong_answer(
    sweep: Sweep, players: Players, tmp_path: Path
) -> None:
    """The attempt is an infra_error, and the next run makes the missing ones."""
    plan = plan_of(sweep.catalog, tmp_path, limits={"command_s": 60.0, "max_attempts": 1})
    players.odd["user"] = "overloaded"
    cell = sweep.enter(plan)
    progress = await sweep.run(plan, cell)
    assert (progress.counted, progress.infra) == (0, 2)
    (said,) = sweep.sql("select distinct error_message like '%overloaded%' from attempts")
    assert said == (True,)
    del players.odd["user"]
    again = plan_of(sweep.catalog, tmp_path, limits={"command_s": 60.0, "max_attempts": 2})
    progress = await sweep.run(again, again.cells[0])
    assert (progress.counted, progress.correct) == (2, 2)


async def test_a_judge_without_a_verdict_scores_nothing(
    sweep: Sweep, players: Players, tmp_path: Path
) -> None:
    """The attempt is a scorer_error with the reason; the other one counts."""
    players.odd["judge"] = {"role": "assistant", "content": "Fine."}
    plan = plan_of(sweep.catalog, tmp_path)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert progress.correct == 1
    rows = sweep.sql("select error_message from attempts where status = 'scorer_error'")
    assert len(rows) == 1 and "JSONDecodeError" in rows[0][0]
