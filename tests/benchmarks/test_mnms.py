"""Tests of m&m's files: tasks from rows, gold plans that score 1.0 in both forms, prompts that name
every tool, and errors with file, line and field."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import (
    BadRow,
    BenchmarkError,
    ExcludedRow,
    Task,
    benchmark_named,
    first_prompt,
)
from tutti.tasks.benchmarks.mnms import FUNCTIONS, TOOLS
from tutti.tasks.scoring import ScoringResources

PLAN = [
    {"id": 0, "name": "get location", "args": {"city": 'L\'Aquila, "Abruzzo"'}},
    {"id": 1, "name": "get weather", "args": {"lon": "<node-0>.lon", "lat": "<node-0>.lat"}},
]
CODE = """def solve():
    output0 = get_location(city="L'Aquila, Abruzzo")
    output1 = get_weather(lon=output0['lon'], lat=output0['lat'])
    result = {0: output0, 1: output1}
    return result"""
ROW: dict[str, Any] = {
    "id": 24,
    "user_request": '"Will it rain in L\'Aquila?"',
    "plan_str": str(PLAN),
    "code_str": CODE,
    "alt_plans_str": str([PLAN[:1]]),
}
FORMS = ("mnms", "mnms-code")
FILE = "test_human_verified_filtered.json"


def items_of(tmp_path: Path, name: str = "mnms", **changed: Any) -> list[Task]:
    """Return the tasks of a folder in the publisher's format, whose one row is changed."""
    write_lines(tmp_path / FILE, [ROW | changed])
    return load(name, tmp_path)


@pytest.mark.parametrize("name", FORMS)
async def test_gold_is_right(tmp_path: Path, name: str) -> None:
    """The benchmark's own scorer accepts the gold plan, in JSON also if a value has quotes."""
    benchmark = benchmark_named(name)
    (task,) = items_of(tmp_path, name)
    assert task.target["plan"] == PLAN and task.target["alternatives"] == [PLAN[:1]]
    assert (task.key, task.inputs["question"]) == ("24", ROW["user_request"])
    assert task.attributes == {
        "steps": "2",
        "tools": "get_location get_weather",
        "unread_steps": "0",
    }
    gold = benchmark.gold_attempt(task)
    found = await benchmark.scoring.score(task.target, gold, ScoringResources())
    assert (found.value, found.correct) == (1.0, True)
    assert found.detail["plan_figures"]["argument_names"] == [2, 2, 2]
    assert benchmark.headline is not None and benchmark.headline.detail() == {
        "measure": "accuracy",
        "metrics": ["plans"],
    }


@pytest.mark.parametrize("name", FORMS)
def test_the_prompt_names_every_tool_and_the_form_but_no_answer(tmp_path: Path, name: str) -> None:
    (task,) = items_of(tmp_path, name)
    shown = first_prompt(benchmark_named(name), [task])
    for tool in TOOLS:
        called = tool.name if name == "mnms" else tool.function
        assert f"- {called}({tool.arguments}) -> {tool.results}: {tool.description}\n" in shown
    assert ("```python" in shown) == (name == "mnms-code") and ROW["user_request"] in shown
    assert ('{"nodes": [{"id": 0' in shown) == (name == "mnms")
    assert "Abruzzo" not in shown and "{question}" not in shown


def test_the_tools_are_the_publishers() -> None:
    """There are 33 tools with arguments and results, and no duplicate names."""
    assert len(TOOLS) == len(set(FUNCTIONS)) == 33
    assert all(tool.arguments and tool.results and tool.description for tool in TOOLS)


@pytest.mark.parametrize("form", ["lines", "list"])
@pytest.mark.parametrize("split", benchmark_named("mnms").splits)
def test_the_publishers_files(tmp_path: Path, split: str, form: str) -> None:
    """There is one file per split: JSON lines or a list in a .json file."""
    rows = [ROW, ROW | {"id": 25, "alt_plans_str": None}]
    path = write_lines(tmp_path / f"{split}.json", rows)
    if form == "list":
        path.write_text(json.dumps(rows), "utf-8")
    tasks = load("mnms", tmp_path, split=split)
    assert [task.key for task in tasks] == ["24", "25"]
    assert tasks[1].target["alternatives"] == []


def test_steps_that_the_published_program_cannot_read_are_counted(tmp_path: Path) -> None:
    """A text with a line break is such a step, because the program splits its input into lines."""
    cut = [*PLAN, {"id": 2, "name": "text generation", "args": {"text": "a\nb"}}]
    (task,) = items_of(tmp_path, plan_str=str(cut))
    assert (task.attributes["steps"], task.attributes["unread_steps"]) == ("3", "1")


def test_a_plan_at_which_the_published_program_stops_is_left_out(tmp_path: Path) -> None:
    """The row is counted as left out, with the reason."""
    plan = [PLAN[0] | {"args": {"city": "<node-0>.text {"}}]
    write_lines(tmp_path / FILE, [ROW | {"plan_str": str(plan)}, ROW | {"id": 25}])
    left: list[ExcludedRow] = []
    assert [task.key for task in load("mnms", tmp_path, left)] == ["25"]
    assert [each.id for each in left] == ["24"] and "braces" in left[0].reason


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"id": None}, "id: is missing"),
        ({"user_request": " "}, "user_request: is empty"),
        ({"user_request": 5}, "user_request: 5 is not text"),
        ({"plan_str": None}, "plan_str: is missing"),
        ({"plan_str": "[{"}, "plan_str: '[{' is no literal"),
        ({"plan_str": "__import__('os')"}, "is no literal"),
        ({"plan_str": "[]"}, "plan_str: [] is not a list of steps"),
        ({"plan_str": "{}"}, "plan_str: {} is not a list of steps"),
        ({"plan_str": "['a']"}, "plan_str.0: 'a' is not an object"),
        ({"plan_str": "[{'id': 'x'}]"}, "plan_str.0.id: 'x' is not a whole number"),
        ({"plan_str": "[{'id': 0, 'name': ''}]"}, "plan_str.0.name: is empty"),
        ({"plan_str": "[{'id': 0, 'name': 'tag'}]"}, "plan_str.0.args: is missing"),
        ({"plan_str": "[{'id': 0, 'name': 'tag', 'args': 5}]"}, "args: 5 is not an object"),
        ({"plan_str": "[{'id': 0, 'name': 'tag', 'args': {'a': b'x'}}]"}, "not JSON serializable"),
        ({"alt_plans_str": "5"}, "alt_plans_str: 5 is not a list of plans"),
        ({"alt_plans_str": "[[5]]"}, "alt_plans_str.0.0: 5 is not an object"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, wrong: dict[str, Any], words: str) -> None:
    """The error names file, line, field and value."""
    with pytest.raises(BadRow) as caught:
        items_of(tmp_path, **wrong)
    assert f"{FILE}:1: " in str(caught.value) and words in str(caught.value)


def test_programs_need_the_gold_program(tmp_path: Path) -> None:
    """Plans in JSON do not need one."""
    with pytest.raises(BadRow, match="code_str: is missing"):
        items_of(tmp_path, "mnms-code", code_str=None)
    assert len(items_of(tmp_path, code_str=None)) == 1


def test_other_rules(tmp_path: Path) -> None:
    """The publisher's second rule set is available; a third is an error."""
    benchmark = benchmark_named("mnms")
    assert benchmark.by_rule("best_match").scoring.name == "mnms_best_match"
    with pytest.raises(BenchmarkError, match="it has published, best_match"):
        benchmark.by_rule("strict")
