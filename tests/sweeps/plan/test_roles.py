"""Tests of sweeps with more than one model: judges, users and experts, their rows, roles and
costs."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.serving.engine_double import completion
from tests.sweeps.conftest import SUITE, Agent, Sweep, config_of, make_tasks
from tutti import storage
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.analysis.programs import LabelAgreement
from tutti.tasks.sweeps.analysis.rescore import Judging, rescore
from tutti.tasks.sweeps.plan.checks import refuse, role_faults
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.plan.plan import Plan
from tutti.tasks.sweeps.plan.plan import plan_of as make_plan
from tutti.tasks.sweeps.plan.roles import NO_ROLES, Roles, ServedModel, other_models, roles_of
from tutti.tasks.sweeps.plan.task_set import enter_task_set
from tutti.tasks.sweeps.run.roles import open_judge
from tutti.tasks.sweeps.spec.policy import Policy
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError

OTHER = ServedModel(
    "other", "engine:2", Model(provider="openai", endpoint="http://h/v1", context_tokens=8192)
)
FACTS = [{"problem": f"What is fact {n}?", "answer": f"Fact {n}."} for n in range(3)]
DOMAIN: dict[str, Any] = {
    "db.json": {
        "tasks": {"task_1": {"task_id": "task_1", "title": "a", "status": "pending"}},
        "users": {"user_1": {"user_id": "user_1", "name": "U", "tasks": ["task_1"]}},
    },
    "tasks.json": [
        {
            "id": "finish",
            "user_scenario": {"instructions": "You have done task_1; have it marked as completed."},
            "evaluation_criteria": {
                "actions": [
                    {
                        "action_id": "a",
                        "name": "update_task_status",
                        "arguments": {"task_id": "task_1", "status": "completed"},
                    }
                ],
                "reward_basis": ["DB"],
            },
        }
    ],
}


@pytest.fixture
def facts(tmp_path: Path) -> Suite:
    """Return a suite of SimpleQA, which a judge scores, from a file."""
    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in FACTS))
    return Suite(
        benchmark="simpleqa",
        policies=("passthrough",),
        concurrency=(2,),
        data={"source": file, "rule": "three_votes"},
        roles={"judge": "other"},
        limits={"max_turns": 1},
    )


@pytest.fixture
def dialogue(tmp_path: Path) -> Suite:
    """Return a suite of a tau2 domain with one task and a simulated customer."""
    folder = tmp_path / "tau2" / "mock"
    folder.mkdir(parents=True)
    for name, content in DOMAIN.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "policy.md").write_text("Be quick.")
    return Suite(
        benchmark="tau2-mock",
        policies=(Policy(name="cap", limit=1),),
        concurrency=(2,),
        data={"source": tmp_path / "tau2"},
        roles={"user": "other"},
        limits={"max_turns": 6},
    )


def plan_of(suite: Suite, catalog: storage.Catalog, **served: ServedModel) -> Plan:
    """Return its plan; every auxiliary model is served as `other` unless specified."""
    entered = enter_task_set(suite, catalog)
    roles = roles_of(suite, {name: OTHER for name in other_models(suite)} | served)
    return make_plan(suite, CellConfig(entered, "engine:1", "checkpoint:1", "pocket", roles=roles))


def says(monkeypatch: pytest.MonkeyPatch, judge: dict[str, str] | int) -> None:
    """Let the candidate repeat the question's number and the judge give the text of `judge` for it,
    or respond with that HTTP status."""

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        prompt = body["messages"][-1]["content"]
        number = prompt.partition("fact ")[2][0]
        if body["model"] == "pocket":
            return web.json_response(completion(f"It is fact {number}."))
        if isinstance(judge, int):
            return web.json_response({"error": "scripted"}, status=judge)
        return web.json_response(completion(f"Verdict: {judge[number]}"))

    monkeypatch.setattr(Agent, "__call__", reply)


VERDICTS = {"0": "correct", "1": "incorrect", "2": "correct"}


async def test_a_judge_scores_and_its_calls_are_its_own(
    sweep: Sweep, facts: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Votes are calls of role judge in the attempt's program and the cell, and not part of its
    cost."""
    says(monkeypatch, VERDICTS)
    plan = plan_of(facts, sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (3, 2)
    calls = sweep.sql(
        "select c.role, c.endpoint, count(*), count(distinct attempt_id), "
        "bool_and(c.cell_id = a.cell_id), sum(c.cost_usd) from calls c join attempts a "
        "using (attempt_id) group by 1, 2 order by 1"
    )
    judged, asked = calls
    assert judged[:5] == ("judge", "engine:2", 9, 3, True)
    assert asked[:5] == ("orchestrator", "engine:1", 3, 3, True)
    assert judged[5] == pytest.approx(300 * asked[5])
    assert sweep.sql("select sum(cost_usd), sum(calls), sum(steps) from attempts") == [
        (asked[5], 3, 3)
    ]
    linked = "select count(*) from scores s join calls c on c.call_id = s.judge_call_id "
    assert sweep.sql(linked + "where c.role = 'judge' and s.scorer = 'judge'") == [(3,)]
    judge_call = sweep.sql("select call_id from calls where role = 'judge' limit 1")[0][0]
    shown = sweep.sql(f"select role, content from prompt('{judge_call}')")
    assert [role for role, _ in shown] == ["user"] and "reference" in shown[0][1]
    assert sweep.sql("select distinct role from messages order by role") == [
        ("assistant",),
        ("user",),
    ]


async def test_a_judge_that_is_not_reached_makes_no_answer_wrong(
    sweep: Sweep, facts: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt is a scorer_error, outside accuracy, and is scored later by a reachable judge."""
    says(monkeypatch, 501)
    plan = plan_of(facts, sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.done, progress.counted, progress.infra) == (3, 0, 0)
    rows = sweep.sql(
        "select distinct status, correct, score, error_message, error_type from attempts"
    )
    assert len(rows) == 1 and rows[0][:3] == ("scorer_error", None, None)
    assert "judge" in rows[0][3] and "501" in rows[0][3] and rows[0][4] == "scorer_failed"
    summary = f"window_summary('{plan.cells[0].cell_id}', 0, 60)"
    assert sweep.sql(f"select accuracy, trials from {summary}") == [(None, 0)]
    says(monkeypatch, VERDICTS)
    gateway = sweep.deployment.gateway
    async with open_judge(gateway.url, OTHER) as judge_of:
        judging = Judging(judge_of, gateway.flush)
        found = await rescore(plan.sweep_id, sweep.catalog, judging=judging)
    assert (found.scored, found.failed) == (3, {})
    assert sweep.sql("select correct, count(*) from scores group by 1 order by 1") == [
        (False, 1),
        (True, 2),
    ]


@pytest.mark.parametrize("refused", [False, True])
async def test_hle_s_judge_is_asked_by_a_schema(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refused: bool
) -> None:
    """The request goes through the gateway without a temperature, and in text if the endpoint
    refuses the schema. Values of the registry's entry replace the publisher's."""
    file, asked = tmp_path / "hle.jsonl", list[dict[str, Any]]()
    file.write_text(json.dumps({"id": "q", "question": "What is fact 0?", "answer": "4"}))
    verdict = {"extracted_final_answer": "4", "reasoning": "", "correct": "yes", "confidence": 9}

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body["model"] == "pocket":
            return web.json_response(completion("It is 4."))
        asked.append(body)
        if refused and "response_format" in body:
            return web.json_response({"error": "no response_format here"}, status=400)
        return web.json_response(completion(json.dumps(verdict)))

    monkeypatch.setattr(Agent, "__call__", reply)
    suite = Suite(benchmark="hle", policies=("passthrough",), concurrency=(1,)).with_fields(
        {"source": file, "judge": "other", "max_turns": 1},
    )
    plan = plan_of(suite, sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (1, 1)
    shape = asked[0]["response_format"]
    assert shape["type"] == "json_schema" and shape["json_schema"]["strict"] is True
    assert shape["json_schema"]["schema"]["properties"].keys() == verdict.keys()
    assert [("temperature" in body, body["max_tokens"]) for body in asked] == [
        (False, OTHER.model.context_tokens // 4)
    ] * len(asked)
    assert ["response_format" in body for body in asked] == [True, False][: 1 + refused]
    vote = sweep.sql("select json_extract_string(detail, '$.vote.asked') from scores")
    assert vote == [("text" if refused else "schema",)]
    del asked[:]
    stated = {"temperature": 0.5, "max_tokens": 77, "response_format": None}
    entry = ServedModel("other", "engine:2", OTHER.model.model_copy(update={"request": stated}))
    gateway = sweep.deployment.gateway
    async with open_judge(gateway.url, entry) as judge_of:
        judging = Judging(judge_of, gateway.flush)
        await rescore(plan.sweep_id, sweep.catalog, judging=judging)
    (body,) = asked
    assert (body["temperature"], body["max_tokens"]) == (0.5, 77)
    assert "response_format" not in body


async def test_a_stored_sweep_is_judged_again_and_compared_with_labels(
    sweep: Sweep, facts: Suite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There are new rows with their judge's call, and flips are listed; the cell's own calls are
    unchanged."""
    says(monkeypatch, VERDICTS)
    plan = plan_of(facts, sweep.catalog)
    await sweep.run(plan, sweep.enter(plan))
    in_cell = "select count(*) from calls where cell_id = " + f"'{plan.cells[0].cell_id}'"
    before = sweep.sql(in_cell)
    with pytest.raises(SuiteError, match="name one with --judge"):
        await rescore(plan.sweep_id, sweep.catalog)
    says(monkeypatch, {"0": "correct", "1": "correct", "2": "correct"})
    gateway = sweep.deployment.gateway
    async with open_judge(gateway.url, OTHER) as judge_of:
        judging = Judging(judge_of, gateway.flush)
        found = await rescore(plan.sweep_id, sweep.catalog, judging=judging)
    assert [(flip["answer"], flip["now"]) for flip in found.flipped] == [("It is fact 1.", True)]
    assert sweep.sql(in_cell) == before
    linked = "select count(distinct s.judge_call_id) from scores s join calls c on "
    assert sweep.sql(linked + "c.call_id = s.judge_call_id and c.attempt_id = s.attempt_id") == [
        (6,)
    ]
    labels = tmp_path / "labels.jsonl"
    tasks = sweep.sql("select attempt_id, task_id, answer from attempts order by answer")
    lines = [{"attempt_id": tasks[0][0], "correct": True}, {"task_id": tasks[1][1]}]
    lines[1]["correct"] = False
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines))
    compared = LabelAgreement.read(plan.sweep_id, labels, sweep.catalog)
    assert compared.scorers == ("judge",) and compared.unscored == 0
    assert compared.agreement is not None
    assert (compared.agreement.n, compared.agreement.agreement) == (2, 0.5)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"attempt_id": "no", "correct": true}', "attempt_id 'no' has no attempt"),
        ('{"attempt_id": "x"}', "needs either a label"),
        ('{"correct": true}', ":1: names none of"),
        ('{"task_id": [1], "correct": true}', ":1: task_id: "),
        ("no", ":1: "),
        ("", "no lines"),
    ],
)
def test_what_is_no_label_is_refused_with_its_line(
    catalog: storage.Catalog, tmp_path: Path, line: str, words: str
) -> None:
    """The error is raised before anything is compared."""
    file = tmp_path / "labels.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(SuiteError, match=words):
        LabelAgreement.read("sweep:1", file, catalog)


async def test_a_simulated_user_and_a_world(
    sweep: Sweep, dialogue: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user opens and ends the dialogue, the world executes calls, and its state is scored. Each
    side's messages refer to the call that made them, and only the candidate's cost counts. Under
    `cap` no program waits for a slot that a user holds."""

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        last = body["messages"][-1]
        if body["model"] == "other":
            assert body["messages"][0]["content"].startswith("You are a customer")
            begun = any(m["role"] == "assistant" for m in body["messages"])
            text = "[DONE]" if begun else "Please mark task_1 as completed."
            return web.json_response(completion(text))
        if last["role"] == "tool":
            return web.json_response(completion("It is done."))
        assert last == {"role": "user", "content": "Please mark task_1 as completed."}
        arguments = json.dumps({"task_id": "task_1", "status": "completed"})
        function = {"name": "update_task_status", "arguments": arguments}
        call = {"id": "1", "type": "function", "function": function}
        return web.json_response(completion("", tool_calls=[call]))

    monkeypatch.setattr(Agent, "__call__", reply)
    suite = dialogue.model_copy(update={"benchmark": "tau2-mock:3"})
    plan = plan_of(suite, sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct, progress.infra) == (3, 3, 0)
    assert sweep.sql("select distinct status, stop_reason, calls, steps from attempts") == [
        ("ok", "answered", 2, 2)
    ]
    said = sweep.sql(
        "select m.role, c.role as made_by, count(*) from messages m "
        "left join calls c using (call_id) group by all order by 1, 2"
    )
    assert said == [
        ("assistant", "orchestrator", 6),
        ("system", None, 3),
        ("tool", None, 3),
        ("user", "user", 3),
    ]
    assert sweep.sql("select name, status, count(*) from tool_runs group by all") == [
        ("update_task_status", "ok", 3)
    ]
    costs = dict(sweep.sql("select role, sum(cost_usd) from calls group by role"))
    assert costs["user"] == pytest.approx(100 * costs["orchestrator"])
    assert sweep.sql("select sum(cost_usd) from attempts")[0][0] == pytest.approx(
        costs["orchestrator"]
    )


async def test_a_user_that_fails_is_nobodys_wrong_answer(
    sweep: Sweep, dialogue: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes a full context of the user, which is no limit of the candidate."""

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": "context length exceeded"}, status=400)

    monkeypatch.setattr(Agent, "__call__", reply)
    plan = plan_of(dialogue.with_fields({"max_attempts": 1}), sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.done, progress.infra) == (0, 1)
    assert sweep.sql("select status, correct from attempts") == [("infra_error", None)]


async def test_experts_answer_for_an_orchestrator(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The experts' calls have role expert and are part of the attempt's cost."""

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body["model"] == "other":
            return web.json_response(completion("\\boxed{1}"))
        function = {"name": "answer", "arguments": '{"model": "answer-1"}'}
        call = {"id": "1", "type": "function", "function": function}
        return web.json_response(completion("", tool_calls=[call]))

    monkeypatch.setattr(Agent, "__call__", reply)
    suite = SUITE.with_fields({"agent": "pocket", "experts": {"pocket": "other"}})
    assert other_models(suite) == ["other"]
    tasks = make_tasks(1)
    plan = make_plan(suite, config_of(tasks, roles=roles_of(suite, {"other": OTHER})))
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (1, 1)
    roles_called = sweep.sql("select role, endpoint, step from calls order by sent_at")
    assert roles_called == [("orchestrator", "engine:1", 1), ("expert", "engine:2", 1)]
    costs = sweep.sql("select sum(cost_usd) from calls")
    assert sweep.sql("select sum(cost_usd) from attempts")[0][0] == pytest.approx(costs[0][0])
    assert sweep.sql("select name, cost_usd > 0 from tool_runs") == [("answer", True)]


def test_other_models_are_other_cells(catalog: storage.Catalog, facts: Suite) -> None:
    """Another judge gives another cell of another sweep and is one of its parents; without
    auxiliary models, ids are unaffected."""
    one, same = (plan_of(facts, catalog) for _ in range(2))
    other = plan_of(facts, catalog, other=ServedModel("other", "engine:3", OTHER.model))
    assert one.cells[0].cell_id == same.cells[0].cell_id
    assert {one.cells[0].cell_id, one.sweep_id}.isdisjoint({other.cells[0].cell_id, other.sweep_id})
    assert one.config.parents[-1] == "engine:2" and other.config.parents[-1] == "engine:3"
    assert NO_ROLES.content == {} and NO_ROLES.engine_ids == []
    assert Roles(judge=OTHER).content != Roles(user=OTHER).content
    thinking = OTHER.model.model_copy(update={"thinking": True})
    assert ServedModel("other", "engine:2", thinking).content != OTHER.content


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"benchmark": "simpleqa"}, "judge: simpleqa is scored by one"),
        ({"benchmark": "gsm8k", "judge": "a"}, "'numeric', which asks none"),
        ({"benchmark": "tau2-mock"}, "user: tau2-mock needs one"),
        ({"benchmark": "tau2-retail"}, "user: tau2-retail needs one"),
        ({"benchmark": "harness"}, "tools that answer"),
        ({"benchmark": "gsm8k", "user": "a"}, "nobody would ask it"),
        ({"benchmark": "tau2-mock", "user": "a", "command": "x"}, "nobody would ask it"),
    ],
)
def test_a_role_that_is_missing_or_idle_is_refused(fields: dict[str, str], words: str) -> None:
    """The error is raised before anything starts."""
    suite = Suite().with_fields(fields)
    with pytest.raises(SuiteError, match=words):
        refuse(role_faults(suite))
