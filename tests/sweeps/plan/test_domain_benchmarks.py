"""Tests of suites of a synthesized domain: its folder or its stored task set, solo or with a
user."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep
from tests.sweeps.plan.test_benchmarks import plan_of
from tests.synthesis.domains.lending import lending_folder
from tutti import storage
from tutti.tasks.benchmarks import SourceMissing
from tutti.tasks.sweeps.plan.plan import runs_programs
from tutti.tasks.sweeps.plan.task_set import TaskSet, select_tasks
from tutti.tasks.sweeps.spec import SuiteError
from tutti.tasks.sweeps.spec.suite import Suite

BASE: dict[str, Any] = {"policies": ("passthrough",), "concurrency": (2,)}


def suite_of(benchmark: Any, **data: Any) -> Suite:
    """Return a suite that names a domain."""
    return Suite.model_validate(BASE | {"benchmark": str(benchmark), "data": data})


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a completion that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return completion("", tool_calls=[{"id": "c", "type": "function", "function": function}])


async def reply(_: Any, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Extend Ada's loan and report the result; reply to Bo with another text."""
    assert "Policy of the lending desk" in body["messages"][0]["content"]
    last = body["messages"][-1]
    if last["role"] == "tool":
        return web.json_response(completion(f"you have {json.loads(last['content'])['days']} days"))
    if "7 more days" in last["content"]:
        return web.json_response(call("extend_loan", loan_id="L1", days=7))
    return web.json_response(completion("which book do you mean?"))


async def test_a_folder_is_measured_solo(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suite runs through gateway and agent loop; the scores have both parts, the tables have
    the folder's name."""
    await lending_folder(tmp_path / "desk")
    monkeypatch.setattr(Agent, "__call__", reply)
    plan = plan_of(suite_of(tmp_path / "desk", solo=True), sweep.catalog)
    assert runs_programs(plan)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct, progress.total) == (2, 1, 2)
    rows = sweep.sql("select value, detail from scores order by value")
    details = [json.loads(detail) for _, detail in rows]
    assert [value for value, _ in rows] == [0.0, 1.0]
    assert [(each["db"], each["communicate"]) for each in details] == [(1.0, 0.0), (1.0, 1.0)]
    assert sweep.sql("select distinct benchmark from cells") == [("desk",)]


async def test_a_stored_task_set(
    catalog: storage.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stored task set is found by its id and has the same tasks as its folder."""
    root = catalog.home.root
    tasks = await lending_folder(root / "task_sets" / "desk")
    found = storage.artifact_id("task_set", [each.task_id for each in tasks])
    catalog.enter_artifact(found, {"made": 3}, [], root / "task_sets" / "desk")
    monkeypatch.setenv("TUTTI_HOME", str(root))
    stored = select_tasks(suite_of(f"{found}:2", solo=True))[2]
    folder = select_tasks(suite_of(root / "task_sets" / "desk", solo=True))[2]
    assert [each.task_id for each in stored] == [each.task_id for each in folder]
    assert suite_of(f"{found}:2").samples_of_each == 2
    with pytest.raises(SourceMissing, match="no task set 'task_set:00'"):
        select_tasks(suite_of("task_set:00"))


async def test_splits_and_selections(tmp_path: Path) -> None:
    """`data.split` and `data.where` select tasks; a dry run shows the policy."""
    await lending_folder(tmp_path / "desk")
    train = select_tasks(suite_of(tmp_path / "desk", split="train"))[2]
    assert [each.attributes["template"] for each in train] == ["extend"]
    titles = select_tasks(suite_of(tmp_path / "desk", where="template = 'title'"))[2]
    assert [each.attributes["template"] for each in titles] == ["title"]
    assert "No loan lasts more than 30 days." in TaskSet.first_prompt(suite_of(tmp_path / "desk"))


async def test_who_speaks(sweep: Sweep, tmp_path: Path) -> None:
    """Without a model for the user it must be solo; `solo` is valid only for domains."""
    await lending_folder(tmp_path / "desk")
    with pytest.raises(SuiteError, match=r"roles\.user: desk needs one"):
        plan_of(suite_of(tmp_path / "desk"), sweep.catalog)
    with pytest.raises(ValidationError, match=r"data\.solo: for a synthesized domain"):
        suite_of("gsm8k", solo=True)
    with pytest.raises(ValidationError, match=r"stdlib has no data\.solo"):
        suite_of("stdlib", solo=True)
    asked = suite_of(tmp_path / "desk", solo=True).model_dump() | {"roles": {"user": "other"}}
    with pytest.raises(SuiteError, match="nobody would ask it"):
        plan_of(Suite.model_validate(asked), sweep.catalog)
    shutil.rmtree(tmp_path / "desk")
    with pytest.raises(Exception, match=r"has no domain\.json"):
        plan_of(suite_of(tmp_path / "desk", solo=True), sweep.catalog)
