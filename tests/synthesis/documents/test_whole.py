"""Test from a folder of text files to a measured set: index, questions, and two models in a sweep.

The documents are this project's own. One model searches the question and reads the answer from the
result, the other replies that it does not know. Only the models are fakes.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.engine_double import EngineDouble, completion, is_first_call
from tutti import storage
from tutti.flows.index import build_index
from tutti.flows.index_parameters import IndexParameters
from tutti.flows.sweep import eval_sweep
from tutti.flows.synthesize import synthesize_tasks
from tutti.tasks.benchmarks.benchmark import tool_call
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.synthesis import DocumentsRequest
from tutti.tasks.synthesis.documents.base.from_passages import solve
from tutti.tasks.task_sets import TASK, TASKS, Task, read_tasks

SIZE = 60
SCORES = """
select c.model, count(*) as n, avg(a.correct::int) as accuracy
from attempts a join cells c using (cell_id) group by all order by model
"""


class Models:
    """Models `solver`, which uses the tool, and `mute`, which does not; both are offered it."""

    def __init__(self, tasks: list[Task]) -> None:
        self.by_question = {each.question: each for each in tasks}
        self.offered: set[str] = set()

    async def __call__(self, _: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if is_first_call(body):
            return web.json_response(completion("1"))
        self.offered |= {each["function"]["name"] for each in body.get("tools") or ()}
        if body["model"] == "mute":
            return web.json_response(completion("Nobody told me.\nAnswer: I do not know"))
        first, last = body["messages"][0]["content"], body["messages"][-1]
        solving = solve(self.by_question[first.split("\n")[0]])
        use = next(solving)
        if last["role"] != "tool":
            call = tool_call("c1", use.name, use.arguments)
            return web.json_response(completion("", tool_calls=[call]))
        try:
            solving.send(last["content"])
        except StopIteration as read:
            return web.json_response(completion(f"It is said there.\nAnswer: {read.value}"))
        raise AssertionError("one search is enough")


@asynccontextmanager
async def registry(folder: Path, reply: Models) -> AsyncIterator[Path]:
    """Yield a registry of the two models at one endpoint."""
    double = EngineDouble()
    double.reply = reply
    async with TestServer(double.application()) as server:
        entry: dict[str, Any] = {"provider": "openai", "endpoint": str(server.make_url("/v1"))}
        entry |= {"context_tokens": 8192, "api_key_env": None}
        models = {name: entry | {"served_name": name} for name in ("solver", "mute")}
        file = folder / "models.yaml"
        file.write_text(yaml.safe_dump({"models": models}))
        yield file


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_who_searches_solves_all_and_who_does_not_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    index = await build_index.fn(IndexParameters(corpus=str(PROJECT / "docs"), words=True))
    request = DocumentsRequest(index=index["index_id"], size=SIZE)
    made = await synthesize_tasks.fn(request)
    (page,) = tmp_path.glob("store/artifacts/report-task_set-*/index.html")
    assert "retrievable" in page.read_text() and "single_answer" in page.read_text()
    folder = tmp_path / "store" / "artifacts" / made["task_set_id"].replace(":", "-")
    tasks = list(read_tasks(folder / TASKS, TASK))
    models = Models(tasks)
    fields: dict[str, Any] = {"policies": ("passthrough",), "concurrency": (4,)}
    suite = Suite(name="own", benchmark=made["task_set_id"], models=("solver", "mute"), **fields)
    async with registry(tmp_path, models) as file:
        await eval_sweep.fn(suite, file)
    wanted = sum(each.split == "test" for each in tasks)
    found = {row["model"]: (row["n"], row["accuracy"]) for row in storage.query(SCORES)}
    assert found == {"solver": (wanted, 1.0), "mute": (wanted, 0.0)} and wanted
    assert models.offered == {"search"}
    searched = storage.query("select distinct index_id from retrievals")
    assert [row["index_id"] for row in searched] == [index["index_id"]]
    assert json.loads((folder / "set.json").read_text())["index_id"] == index["index_id"]
