"""Tests of tools on a public benchmark: a model solves GSM8K's rows with Python in the sandbox.

The model is scripted: it sets variables in one call and uses them in the next, as tool-integrated
reasoning does.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep, config_of
from tutti.tasks.benchmarks.benchmark import tool, tool_call
from tutti.tasks.sweeps.plan.plan import plan_of, runs_programs
from tutti.tasks.sweeps.plan.task_set import TaskSet, enter_task_set
from tutti.tasks.sweeps.spec import Suite, SuiteError
from tutti.tasks.task_sets import Task

ROWS = [
    {"question": f"{n} boxes of 3 apples: how many?", "answer": f"#### {3 * n}"} for n in (4, 7)
]


def suite_of(folder: Path, **fields: Any) -> Suite:
    """Return GSM8K with these rows."""
    data = folder / "gsm8k"
    data.mkdir()
    (data / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    given = {"benchmark": "gsm8k", "source": data, "concurrency": (2,), "max_turns": 6}
    return Suite(policies=("passthrough",)).with_fields(given | fields)


class Reasoner:
    """Model that computes with Python: the output of the last cell is its answer."""

    def __init__(self, *cells: str) -> None:
        self.cells, self.offered = cells, list[Any]()

    async def __call__(self, _: Agent, __: web.Request, body: dict[str, Any]) -> web.Response:
        """Return the next cell, or the answer."""
        self.offered.append(sorted(each["function"]["name"] for each in body.get("tools", ())))
        question = next(m["content"] for m in body["messages"] if m["role"] == "user")
        results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        if len(results) == len(self.cells):
            return web.json_response(completion(f"#### {results[-1]}"))
        number = question.split(" boxes")[0].split()[-1]
        code = self.cells[len(results)].format(n=number)
        answer = completion("")
        called = {"tool_calls": [tool_call(f"c{len(results)}", "python", {"code": code})]}
        answer["choices"][0]["message"] |= called
        return web.json_response(answer)


async def measured(sweep: Sweep, suite: Suite) -> tuple[int, int]:
    """Run the suite and return (counted attempts, correct ones)."""
    plan = plan_of(suite, config_of(enter_task_set(suite, sweep.catalog), index_id=None))
    assert runs_programs(plan)
    progress = await sweep.run(plan, sweep.enter(plan))
    return progress.counted, progress.correct


async def test_a_session_keeps_its_variables(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables persist between the calls of an attempt; both rows are correct, and every tool run
    is stored."""
    model = Reasoner("boxes = {n}", "apples = boxes * 3", "apples")
    monkeypatch.setattr(Agent, "__call__", lambda *given: model(*given))
    assert await measured(sweep, suite_of(tmp_path, python="session")) == (2, 2)
    assert all(each == ["python"] for each in model.offered)
    runs = sweep.sql("select name, status, result from tool_runs where step = 3 order by result")
    assert runs == [("python", "ok", "12"), ("python", "ok", "21")]
    assert sweep.sql("select distinct sandbox is null from cells") == [(False,)]


async def test_once_forgets(sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Reasoner("boxes = {n}", "print('boxes' in dir())")
    monkeypatch.setattr(Agent, "__call__", lambda *given: model(*given))
    assert await measured(sweep, suite_of(tmp_path, python="once")) == (2, 0)
    assert sweep.sql("select distinct result from tool_runs where step = 2") == [("False",)]


async def test_programs_see_nothing_of_the_machine(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs run in the sandbox, where a user's file and key do not exist."""
    secret = tmp_path / "secret"
    secret.write_text("42")
    monkeypatch.setenv("SECRET_KEY", "42")
    code = f"import os\nprint(os.path.exists({str(secret)!r}), os.environ.get('SECRET_KEY'))"
    model = Reasoner(code.replace("{", "{{").replace("}", "}}"))
    monkeypatch.setattr(Agent, "__call__", lambda *given: model(*given))
    await measured(sweep, suite_of(tmp_path, python="session"))
    if sweep.sql("select distinct sandbox from cells") == [("limits",)]:
        pytest.skip("this machine's sandbox has no walls")
    assert sweep.sql("select distinct result from tool_runs") == [("False None",)]


async def test_python_and_search_are_offered_together(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Reasoner("print({n} * 3)")
    monkeypatch.setattr(Agent, "__call__", lambda *given: model(*given))
    suite = suite_of(tmp_path, python="once", search_index="index:1")
    assert await measured(sweep, suite) == (2, 2)
    assert all(each == ["python", "search"] for each in model.offered)


def test_without_it_nothing_is_offered_and_ids_are_as_before(tmp_path: Path) -> None:
    """Stating stdlib's own `once` changes no id."""
    suite = suite_of(tmp_path)
    tasks = TaskSet.read(suite)
    plan = plan_of(suite, config_of(tasks))
    assert not runs_programs(plan)
    own = plan_of(Suite(), config_of(tasks))
    stated = plan_of(Suite().with_fields({"python": "once"}), config_of(tasks))
    assert own.sweep_id == stated.sweep_id
    offered = plan_of(suite.with_fields({"python": "once"}), config_of(tasks))
    assert offered.sweep_id != plan.sweep_id and runs_programs(offered)


def test_a_benchmark_with_tools_of_its_own_takes_none(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, python="session")
    task = Task("1", {}, {}, tools=(tool("book", "Book a room.", {}),))
    tasks = replace(TaskSet.read(suite), tasks=(task,))
    with pytest.raises(SuiteError, match=r"harness\.python: gsm8k has tools or a dialogue"):
        plan_of(suite, config_of(tasks))
