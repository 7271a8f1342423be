"""Tests of search in the user's own index: by any question benchmark, named by id or folder."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from pydantic import ValidationError

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep, config_of
from tests.sweeps.plan.test_benchmarks import suite_of
from tests.sweeps.plan.test_own_benchmarks import PAGE, folder
from tutti import storage
from tutti.tasks.benchmarks import benchmark_named
from tutti.tasks.benchmarks.benchmark import tool, tool_call
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.retrieval import build_index
from tutti.tasks.retrieval.passage import Passage
from tutti.tasks.sweeps.plan import library
from tutti.tasks.sweeps.plan.library import SearchService, find_index
from tutti.tasks.sweeps.plan.plan import plan_of
from tutti.tasks.sweeps.plan.task_set import TaskSet, enter_task_set
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError, read_suite
from tutti.tasks.task_sets import Task

__all__ = ["folder"]


async def test_an_agent_searches_while_it_answers(
    sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only tool is `search`; the hits are returned, and the search is stored."""
    offered: list[Any] = []

    async def reply(_: Any, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        offered.append([each["function"]["name"] for each in body["tools"]])
        last = body["messages"][-1]
        if last["role"] == "tool":
            return web.json_response(completion("Paris" if last["content"] == "d1\ntext" else "?"))
        name = "search" if len(body["messages"]) == 1 else "python"
        message = {"role": "assistant", "content": ""}
        calls = {"tool_calls": [tool_call("c1", name, {"query": "capital"})]}
        answer = completion("")
        answer["choices"][0]["message"] = message | calls
        return web.json_response(answer)

    monkeypatch.setattr(Agent, "__call__", reply)
    found = read_suite(folder / "capitals.yaml").with_fields({"search_index": "index:1"})
    task_set = enter_task_set(found, sweep.catalog)
    plan = plan_of(found, config_of(task_set))
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (3, 1)
    assert offered and all(each == ["search"] for each in offered)
    rows = sweep.sql("select distinct index_id, query from retrievals")
    assert rows == [("index:1", "capital")]


def test_an_index_is_found_by_id_and_by_folder(catalog: storage.Catalog) -> None:
    """Another name is refused with the command that builds an index."""
    built = build_index([Passage("a", "text", "title")], catalog)
    index_id = json.loads((built / "manifest.json").read_text())["index_id"]
    assert find_index(index_id, catalog) == find_index(str(built), catalog) == built
    for name in ("index:0", "nowhere", str(built.parent)):
        with pytest.raises(SuiteError, match=r"there is no index .*`tutti index FOLDER`"):
            find_index(name, catalog)


async def test_the_index_is_served_for_the_sweep(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index of the standard library is not served."""
    built = build_index([Passage("a", "text", "title")], catalog)

    @contextlib.contextmanager
    def service(place: Path, _: storage.Catalog) -> Iterator[str]:
        assert place == built
        yield "http://127.0.0.1:1"

    monkeypatch.setattr(library, "retrieval_service", service)
    suite = Suite().with_fields({"benchmark": "gsm8k", "search_index": str(built)})
    async with SearchService.of_suites((suite,), catalog, StageLog()) as opened:
        assert opened is not None and opened.search_url == "http://127.0.0.1:1"
        assert opened.index_id.startswith("index:")


def test_the_pages_example_is_a_suite() -> None:
    """The example is the last block of docs/own_benchmark.md."""
    *_, block = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    suite = Suite.model_validate(yaml.safe_load(block))
    assert suite.harness.search_index is not None and suite.data.scorer == "judge"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"benchmark": "stdlib"}, "stdlib has no harness.search_index"),
        ({"benchmarks": ("stdlib", "gsm8k")}, "stdlib has its own index"),
        ({"benchmark": "gsm8k", "command": "run"}, "is for tutti's agent"),
        (
            {"benchmark": "gsm8k", "agent": "a", "search_url": "http://h"},
            "without `harness.command` and",
        ),
    ],
)
def test_where_it_makes_no_sense(fields: dict[str, Any], words: str) -> None:
    """The error is raised before anything starts."""
    with pytest.raises(ValidationError, match=words):
        Suite().with_fields(fields | {"search_index": "index:1"})


def test_tools_of_a_benchmark_are_not_mixed_with_it(tmp_path: Path) -> None:
    """The benchmark's tool calls are the answer."""
    suite = suite_of(tmp_path, search_index="index:1")
    task = Task("1", {}, {}, tools=(tool("book", "Book a room.", {}),))
    tasks = TaskSet("", benchmark_named("gsm8k"), (task,))
    with pytest.raises(SuiteError, match="gsm8k has tools or a dialogue of its own"):
        plan_of(suite, config_of(tasks))
