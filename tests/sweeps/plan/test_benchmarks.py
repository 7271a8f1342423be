"""Tests of public benchmarks through the same runner: prompts, scorers, selection, and refused
suites."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep
from tutti import storage
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.plan.plan import Plan
from tutti.tasks.sweeps.plan.plan import plan_of as make_plan
from tutti.tasks.sweeps.plan.task_set import TaskSet, enter_task_set
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError, read_suite

ROWS = [
    {"question": f"What is {i} plus {i}?", "answer": f"{i} + {i} = {2 * i}\n#### {2 * i}"}
    for i in range(4)
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with the file names of GSM8K's publisher."""
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return folder


def suite_of(data: Path, **fields: Any) -> Suite:
    """Return a suite of GSM8K from that folder."""
    given: dict[str, Any] = {"policies": ("passthrough",), "concurrency": (2,)}
    given |= {"benchmark": "gsm8k", "source": data, "max_turns": 1}
    return Suite().with_fields(given | fields)


def plan_of(suite: Suite, catalog: storage.Catalog) -> Plan:
    """Return its plan; nothing is searched, so there is no index."""
    entered = enter_task_set(suite, catalog)
    return make_plan(suite, CellConfig(entered, "engine:1", "checkpoint:1", "pocket"))


async def test_a_public_benchmark_is_measured(
    sweep: Sweep, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task runs once for each trial; the scorer parses the text; `tasks` and `scores` have the
    reasons."""

    async def reply(_: Any, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        assert "tools" not in body, "a benchmark without tools offers none"
        number = int(body["messages"][0]["content"].split()[2])
        wrong = number == 3
        return web.json_response(completion(f"So it is\n#### {2 * number + wrong}"))

    monkeypatch.setattr(Agent, "__call__", reply)
    plan = plan_of(suite_of(data, benchmark="gsm8k:2"), sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct, progress.total) == (8, 6, 8)
    found = sweep.sql(
        "select distinct t.family, s.scorer, a.correct, json_extract_string(t.slots, '$.id') as id "
        "from attempts a join tasks t using (task_id) join scores s using (attempt_id) order by id"
    )
    assert found == [("gsm8k", "numeric", number != 3, str(number)) for number in range(4)]


def test_the_same_items_are_the_same_task_set(catalog: storage.Catalog, data: Path) -> None:
    """Another selection or prompt is another set; entering twice has no further effect."""
    suite = suite_of(data)
    assert enter_task_set(suite, catalog) == enter_task_set(suite, catalog)
    some = suite.with_fields({"limit": 2})
    other = suite.with_fields({"prompt": "plain"})
    entered = [enter_task_set(each, catalog) for each in (suite, some, other)]
    assert len({each.task_set_id for each in entered}) == 3
    assert storage.query("select count(*) as n from tasks", catalog.home) == [{"n": 10}]


def test_a_dry_run_shows_the_first_prompt(data: Path) -> None:
    """The dry run also shows the selection."""
    assert "What is 2 plus 2?" in TaskSet.first_prompt(suite_of(data, ids=("2",)))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"benchmark": "gsm9k"}, "no benchmark 'gsm9k'"),
        ({"benchmark": "gsm8k", "experts": {"a": "b"}}, "name it with `roles.agent`"),
        ({"benchmark": "gsm8k", "search_url": "http://h"}, "`roles.search_url` is for an agent"),
        ({"benchmark": "gsm8k", "command": "a", "python": "once"}, "`harness.python` is for the"),
        ({"agent": "pocket", "python": "session"}, "`harness.python` is for the measured model"),
        ({"benchmark": "gsm8k:0"}, "trials"),
        ({"benchmark": "gsm8k:2", "trials": 2}, "twice"),
        ({"benchmark": "stdlib", "limit": 3}, "stdlib has no limit"),
        ({"benchmark": "gsm8k", "limit": 0}, "greater than or equal to 1"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    """The error names the field and is raised before anything starts."""
    with pytest.raises(ValidationError, match=words):
        Suite().with_fields(fields)


def test_a_wrong_suite_is_told_by_field_and_value(tmp_path: Path) -> None:
    """A wrong field is shown with its value; an error of several fields does not print the whole
    suite."""
    file = tmp_path / "suite.yaml"
    file.write_text("benchmark: gsm9k\n")
    with pytest.raises(SuiteError) as caught:
        read_suite(file)
    said = f"{file}: line 1: benchmark: no benchmark 'gsm9k', did you mean gsm8k? there are "
    assert str(caught.value).startswith(said)
    assert str(caught.value).endswith("(given: 'gsm9k')")
    file.write_text("roles: {experts: {a: b}}\n")
    with pytest.raises(SuiteError) as caught:
        read_suite(file)
    assert (
        str(caught.value) == f"{file}: `roles.experts` is for an agent: name it with `roles.agent`"
    )


HARNESS = """
import json, os, sys, urllib.request
task = json.load(open(os.environ["TUTTI_TASK"]))
body = {"model": os.environ["TUTTI_MODEL"], "messages": task["messages"]}
question = task["messages"][0]["content"]
if "What is 1" in question:
    sys.exit("the harness is broken")
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps(body).encode(),
    {"Content-Type": "application/json"},
)
said = json.load(urllib.request.urlopen(request, timeout=10))["choices"][0]["message"]["content"]
assert "SECRET_KEY" not in os.environ
print("thinking ...")
print(json.dumps({"answer": said}))
"""


async def test_any_harness_is_measured_by_its_base_url(
    sweep: Sweep, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness's calls, messages and tokens are recorded without its help; its failure does not
    count as a wrong answer."""

    async def reply(_: Any, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        number = int(body["messages"][0]["content"].split()[2])
        return web.json_response(completion(f"#### {2 * number}"))

    monkeypatch.setattr(Agent, "__call__", reply)
    monkeypatch.setenv("SECRET_KEY", "x")
    script = tmp_path / "harness.py"
    script.write_text(HARNESS)
    suite = suite_of(data, command=f"{{python}} {script}", max_attempts=1)
    plan = plan_of(suite, sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct, progress.infra) == (3, 3, 1)
    found = sweep.sql(
        "select a.status, a.calls, a.prompt_tokens > 0, count(distinct c.call_id), "
        "count(distinct m.position) from attempts a left join calls c using (attempt_id) "
        "left join messages m on m.attempt_id = a.attempt_id group by all order by 1"
    )
    assert found == [("infra_error", 0, False, 0, 0), ("ok", 1, True, 3, 2)]
    (broken,) = sweep.sql(
        "select error_type, error_message from attempts where status = 'infra_error'"
    )
    assert broken == ("command_failed", "the harness is broken")


SCORED = """
import json, os
task = json.load(open(os.environ["TUTTI_TASK"]))
assert {"id", "max_tokens", "temperature"} <= task.keys()
print(json.dumps({"answer": "#### " + str(2 * int(task["id"])), "score": 0.5, "scorer": "mine"}))
"""


async def test_a_harnesss_own_score_stands_beside_the_scorers(
    sweep: Sweep, data: Path, tmp_path: Path
) -> None:
    """The harness's score is a row under its own name; the attempt's score is the newest of the
    benchmark's scorer."""
    script = tmp_path / "harness.py"
    script.write_text(SCORED)
    suite = suite_of(data, command=f"{{python}} {script}", limit=1)
    plan = plan_of(suite, sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (1, 1)
    assert sweep.sql("select scorer, value from scores order by scored_at") == [
        ("mine", 0.5),
        ("numeric", 1.0),
    ]


async def test_an_mcp_servers_tools_are_the_agents(
    sweep: Sweep, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tools are listed to the model, called for it, and recorded as tool runs."""
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

    async def reply(_: Any, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        names = {tool["function"]["name"] for tool in body["tools"]}
        assert "add" in names
        last = body["messages"][-1]
        if last["role"] == "tool":
            return web.json_response(completion(f"#### {last['content']}"))
        number = int(last["content"].split()[2])
        function = {"name": "add", "arguments": json.dumps({"a": number, "b": number})}
        call = {"id": "1", "type": "function", "function": function}
        return web.json_response(completion("", tool_calls=[call]))

    monkeypatch.setattr(Agent, "__call__", reply)
    server = f"{shlex.quote(sys.executable)} -m tests.agents.mcp_server"
    plan = plan_of(suite_of(data, mcp=server, max_turns=3), sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (4, 4)
    assert sweep.sql("select name, status, count(*) from tool_runs group by all") == [
        ("add", "ok", 4)
    ]
